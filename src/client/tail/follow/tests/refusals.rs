//! Tests of the errors that end `tail`, and of those that do not.
//!
//! Run by `cargo test`. **Invariant**: the number of requests distinguishes an end from an outage.

use super::*;
use crate::error::FAILED;

#[tokio::test]
async fn tickets_are_not_asked_for_without_end() {
    let ticket = |_: &Received, _| {
        let ticket = r#"{"success":true,"data":{"ticket":"tk_1","expires_at":""}}"#;
        Reply::Answer(201, String::new(), ticket.to_owned())
    };
    let admin = StandIn::start(ticket);
    for (good, requests) in [(0, 1), (1, 5)] {
        let server = StandIn::start(move |_, count| {
            if count < good {
                events(&[snapshot("7:1")])
            } else {
                refusal(401)
            }
        });
        let run = run(&server, of_admin(&admin)).await;
        assert!(
            run.done
                .is_err_and(|error| error.message.starts_with("401 "))
        );
        assert_eq!(server.received().len(), requests);
    }
}

#[tokio::test]
async fn a_refusal_ends_it_with_the_servers_words() {
    let words = "SOME_CODE: what to do next (request 0192)";
    for status in [400, 401, 403, 404] {
        // On the first connection, and after a successful one.
        for good in [0, 1] {
            let server = StandIn::start(move |_, count| {
                if count < good {
                    events(&[snapshot("7:1")])
                } else {
                    refusal(status)
                }
            });
            let error = run(&server, Setup::default())
                .await
                .done
                .expect_err("is refused");
            assert_eq!(error, CliError::failed(format!("{status} {words}")));
            assert_eq!(server.received().len(), good + 1);
        }
        let admin = StandIn::start(move |_, _| refusal(status));
        let server = StandIn::start(|_, _| events(&[]));
        let error = run(
            &server,
            Setup {
                admin: Some(&admin),
                ..Setup::default()
            },
        )
        .await
        .done;
        assert_eq!(error, Err(CliError::failed(format!("{status} {words}"))));
        assert_eq!(server.received(), []);
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_said_once() {
    let server = StandIn::start(|_, count| match count {
        0 => refusal(503),
        1 => Reply::HangUp,
        2 => refusal(429),
        _ => events(&[update(2)]),
    });
    let run = run(&server, Setup::default()).await;
    assert_eq!(run.done, Ok(()));
    assert_eq!(
        run.notes,
        [
            "503 SOME_CODE: what to do next (request 0192); retrying",
            "connected"
        ]
    );
}

#[tokio::test]
async fn answers_of_strangers_end_it() {
    let check = async |reply: fn() -> Reply, expected: &str| {
        let server = StandIn::start(move |_, _| reply());
        let error = run(&server, Setup::default())
            .await
            .done
            .expect_err("a stranger");
        assert_eq!(error.code, FAILED);
        assert!(error.message.contains(expected), "{error}");
    };
    let page = || Reply::Answer(200, "content-type: text/html\r\n".to_owned(), String::new());
    check(page, "content type `text/html`").await;
    check(
        || events(&["\u{1b}[2J".to_owned()]),
        "an unreadable message",
    )
    .await;
    check(
        || events(&[r#"{"type":"update","items":7}"#.to_owned()]),
        "an unreadable message",
    )
    .await;
}

/// A pipe with a closed reader, or a full disk.
struct Closed(io::ErrorKind);

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn it_ends_quietly_when_nobody_reads() {
    let server = StandIn::start(|_, _| Reply::Begin(HEADERS.to_owned(), event(&update(1))));
    let setup = || Setup {
        count: 9,
        ..Setup::default()
    };
    let gone = run_into(&server, setup(), &mut Closed(io::ErrorKind::BrokenPipe)).await;
    assert_eq!(gone, (Ok(()), vec![]));
    let (full, _) = run_into(&server, setup(), &mut Closed(io::ErrorKind::StorageFull)).await;
    assert!(full.is_err_and(|error| error.message.contains("standard output")));
}
