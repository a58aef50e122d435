//! Unit tests of `connections.rs`.

use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::heads::HEAD_TIME_MAX;
use super::*;

fn alone<S>(stream: S, silent: Arc<Silent>) -> Connection<S> {
    Connection::new(stream, silent, None, (Arc::default(), ConnCtrl::new()))
}

/// Reads a connection on which these pieces arrive, until the head is complete. Otherwise no more bytes arrive, and
/// the time is over.
async fn read(silent: Arc<Silent>, pieces: &[&str]) -> Result<String, io::ErrorKind> {
    let (mut client, server) = duplex(1024);
    let mut connection = alone(server, silent);
    connection.next_head.timer.as_mut().reset(Instant::now());
    let mut text = String::new();
    for piece in pieces {
        client
            .write_all(piece.as_bytes())
            .await
            .expect("there is room");
        let mut bytes = [0; 1024];
        let read = connection.read(&mut bytes).await;
        let count = read.map_err(|error| error.kind())?;
        text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
    }
    if connection.first_head.is_none() {
        return Ok(text);
    }
    let read = connection.read(&mut [0; 1]).await;
    Err(read.expect_err("nothing more is there").kind())
}

#[tokio::test]
async fn a_connection_whose_first_head_is_late_is_closed_and_no_other() {
    let late = Err(io::ErrorKind::TimedOut);
    let head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    for (pieces, expected) in [
        (&[][..], late.clone()),
        (&["GET / HTTP/1.1\r\nHost: x\r\n"], late.clone()),
        (&["\r\n\r\n\n\n"], late.clone()),
        (&["\r\n", "\r\n", "GET / HTTP/1.1\r\n"], late.clone()),
        (&[head], Ok(head.to_owned())),
        (
            &["GET / HTTP/1.1\r\nHost: x\r\n\r", "\n"],
            Ok(head.to_owned()),
        ),
        (
            &["\r\nG", " / HTTP/1.1\n\n{"],
            Ok("\r\nG / HTTP/1.1\n\n{".to_owned()),
        ),
    ] {
        let read = read(Silent::alone(), pieces).await;
        assert_eq!(read, expected, "{pieces:?}");
    }
}

#[tokio::test]
async fn a_request_that_comes_after_its_place_is_taken_is_not_read() {
    let head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let read = read(Silent::displaced_alone(), &[head]).await;
    assert_eq!(read, Err(io::ErrorKind::TimedOut));
}

#[test]
fn a_reserved_connection_asks_about_health_and_nothing_else() {
    let may_ask = |pieces: &[&str]| {
        let mut health = HealthOnly::default();
        (pieces.iter()).all(|piece| health.may_ask(piece.as_bytes()))
    };
    assert!(may_ask(&["GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"]));
    assert!(may_ask(&["", "H", "EAD /rea", "dyz HTTP/1.1\r\n", "\r\n"]));
    assert!(!may_ask(&["GET /he", "lp HTTP/1.1\r\n"]));
    assert!(!may_ask(&["POST /healthz HTTP/1.1\r\n"]));
    assert!(!may_ask(&["\x16\x03\x01"]));
}

/// What a read finds at once; `None`: it waits.
fn read_at_once(
    connection: &mut Connection<tokio::io::DuplexStream>,
) -> Option<Result<usize, io::ErrorKind>> {
    let read = connection.read(&mut [0; 1024]).now_or_never()?;
    Some(read.map_err(|error| error.kind()))
}

#[tokio::test]
async fn an_idle_connection_is_closed_unless_a_request_is_under_way() {
    let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let (mut client, server) = duplex(1024);
    let mut connection = alone(server, Silent::alone());
    client.write_all(head).await.expect("there is room");
    assert_eq!(read_at_once(&mut connection), Some(Ok(head.len())));
    let shared = Arc::clone(&connection.next_head.shared);

    let request = shared.begin();
    connection.next_head.deadline = Instant::now();
    assert_eq!(read_at_once(&mut connection), None, "it is under way");
    drop(request);
    assert_eq!(read_at_once(&mut connection), None, "the wait begins");
    let deadline = connection.next_head.deadline;
    assert!(deadline > Instant::now() + HEAD_TIME_MAX / 2);

    client.write_all(b"G").await.expect("there is room");
    assert_eq!(read_at_once(&mut connection), Some(Ok(1)));
    assert_eq!(read_at_once(&mut connection), None);
    let same = connection.next_head.deadline;
    assert_eq!(same, deadline, "a byte is not a head");

    connection.next_head.deadline = Instant::now();
    drop(shared.begin());
    assert_eq!(read_at_once(&mut connection), None, "it begins again");
    connection.next_head.control.relax_timeouts();
    connection.next_head.deadline = Instant::now();
    assert_eq!(read_at_once(&mut connection), None, "it is a stream");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let (mut client, server) = duplex(1024);
    let mut connection = alone(server, Silent::alone());
    client
        .write_all(b"G / HTTP/1.1\n\n")
        .await
        .expect("there is room");
    assert!(read_at_once(&mut connection).is_some());
    assert_eq!(read_at_once(&mut connection), None);
    assert!(connection.next_head.is_armed);
    connection.next_head.deadline = Instant::now();
    assert_eq!(
        read_at_once(&mut connection),
        Some(Err(io::ErrorKind::TimedOut))
    );
}
