//! Unit tests of `proxy_protocol.rs`.

use super::*;

/// The address or the error, and the rest of the bytes.
async fn read(text: &[u8]) -> (Result<Option<String>, io::ErrorKind>, Vec<u8>) {
    let mut stream = text;
    let found = header(&mut stream).await;
    let found = found.map(|found| found.map(|address| address.to_string()));
    (found.map_err(|error| error.kind()), stream.to_vec())
}

#[tokio::test]
async fn both_versions_are_read_and_not_a_byte_more() {
    let (found, rest) = read(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\nGET / HTTP").await;
    assert_eq!(found, Ok(Some("192.0.2.7:4711".to_owned())));
    assert_eq!(rest, b"GET / HTTP");
    let (found, _) = read(b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n").await;
    assert_eq!(found, Ok(Some("[2001:db8::7]:4711".to_owned())));
    let (found, rest) = read(b"PROXY UNKNOWN\r\nGET").await;
    assert_eq!((found, &*rest), (Ok(None), &b"GET"[..]));
    let mut second = [SIGNATURE, &[0x21, 0x11, 0, 12]].concat();
    second.extend([192, 0, 2, 9, 10, 0, 0, 1, 0x12, 0x34, 0, 80]);
    second.extend(b"GET");
    let (found, rest) = read(&second).await;
    assert_eq!(found, Ok(Some("192.0.2.9:4660".to_owned())));
    assert_eq!(rest, b"GET");
    // A health check of the proxy.
    let (found, _) = read(&[SIGNATURE, &[0x20, 0, 0, 0]].concat()).await;
    assert_eq!(found, Ok(None));
}

#[tokio::test]
async fn what_is_no_header_is_refused() {
    let (found, _) = read(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(found, Err(io::ErrorKind::InvalidData));
    let (found, _) = read(&[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat()).await;
    assert_eq!(found, Err(io::ErrorKind::InvalidData));
    let (found, _) = read(&[SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat()).await;
    assert_eq!(found, Err(io::ErrorKind::InvalidData));
    let (found, _) = read(b"PROXY TCP4 192.0.2.7 ").await;
    assert_eq!(found, Err(io::ErrorKind::UnexpectedEof));
}
