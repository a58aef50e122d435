//! Tests of `tail` with a server that closes connections and is silent. `refusals` tests permanent errors.
//!
//! Run by `cargo test`. **Invariant**: pauses are milliseconds here; nothing waits for a real second.

use std::cell::RefCell;
use std::time::Duration;

use super::super::view::{TailOutput, ViewOptions};
use super::*;
use crate::client::stand_in::{Received, Reply, StandIn};

mod refusals;

const TIMING: Timing = Timing {
    silence_max: Duration::from_secs(30),
    first: Duration::from_millis(2),
    max: Duration::from_millis(4),
    absent_max: None,
};
const HEADERS: &str = "content-type: text/event-stream; charset=utf-8\r\n";

/// The setup of a run.
struct Setup<'a> {
    admin: Option<&'a StandIn>,
    timing: Timing,
    output: TailOutput,
    count: u64,
    since: Option<&'a str>,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup {
            admin: None,
            timing: TIMING,
            output: TailOutput::Json,
            count: 1,
            since: None,
        }
    }
}

/// The result of a run.
struct Run {
    done: Result<(), CliError>,
    out: String,
    notes: Vec<String>,
}

/// Uses tickets of an admin API in place of a read key.
fn of_admin(admin: &StandIn) -> Setup<'_> {
    Setup {
        admin: Some(admin),
        ..Setup::default()
    }
}

async fn run(server: &StandIn, setup: Setup<'_>) -> Run {
    let mut out = Vec::new();
    let (done, notes) = run_into(server, setup, &mut out).await;
    let out = String::from_utf8(out).expect("text");
    Run { done, out, notes }
}

async fn run_into(
    server: &StandIn,
    setup: Setup<'_>,
    out: &mut dyn Write,
) -> (Result<(), CliError>, Vec<String>) {
    let service = match setup.admin {
        Some(_) => Client::without_secret(&server.url()),
        None => Client::new(&server.url(), "rk_test_key-of-the-tests"),
    };
    let admin = setup
        .admin
        .map(|admin| Client::new(&admin.url(), "admin-token"));
    let admin = admin.map(|admin| admin.expect("an address"));
    let options = ViewOptions {
        output: setup.output,
        heartbeats: false,
        first_snapshot: true,
        count: Some(setup.count),
    };
    let streams = ["orders".to_owned(), "a,b c".to_owned()];
    let notes = RefCell::new(Vec::new());
    let follow = Follow {
        service: &service.expect("an address"),
        tickets: admin.as_ref(),
        streams: &streams,
        filter: [("where", Some("a>=1,b:x y".to_owned())), ("fields", None)],
        max_rate: Some(30),
        since: setup.since.map(str::to_owned),
        timing: setup.timing,
        view: View::new(options, &streams, || None),
        out,
        note: &|text| notes.borrow_mut().push(text.to_owned()),
    };
    let done = tokio::time::timeout(Duration::from_secs(30), follow.run()).await;
    (done.expect("the run ends"), notes.into_inner())
}

fn event(data: &str) -> String {
    format!("event: whatever\ndata: {data}\n\n")
}

fn update(seq: u64) -> String {
    format!(
        r#"{{"type":"update","stream":"orders","id":"7:{seq}","items":[{{"key":"k{seq}","fields":{{"n":{seq}}},"seq":{seq}}}]}}"#
    )
}

fn snapshot(id: &str) -> String {
    format!(r#"{{"type":"snapshot","stream":"orders","id":"{id}","items":[],"complete":true}}"#)
}

/// A complete response, after which the connection ends.
fn events(all: &[String]) -> Reply {
    let body = all.iter().map(|data| event(data)).collect();
    Reply::Answer(200, HEADERS.to_owned(), body)
}

fn refusal(status: u16) -> Reply {
    let error = json!({"code": "SOME_CODE", "message": "what to do next", "request_id": "0192"});
    let body = json!({"success": false, "error": error}).to_string();
    Reply::Answer(status, String::new(), body)
}

fn targets(server: &StandIn) -> Vec<String> {
    let received = server.received();
    received
        .iter()
        .map(|request| request.target.clone())
        .collect()
}

const ENDED: &str = "the server closed the connection; retrying";
const AGAIN: &str = "connected again";

#[tokio::test]
async fn a_read_key_travels_in_the_header_and_messages_are_printed() {
    let server = StandIn::start(|_, _| {
        events(&[
            snapshot("7:1"),
            r#"{"type":"heartbeat","id":"7:1"}"#.to_owned(),
            update(2),
        ])
    });
    let run_json = run(&server, Setup::default()).await;
    assert_eq!((run_json.done, run_json.notes), (Ok(()), vec![]));
    assert_eq!(
        run_json.out,
        format!("{}\n{}\n", snapshot("7:1"), update(2))
    );
    let received = &server.received()[0];
    assert_eq!(
        received.target,
        "GET /api/live?streams=orders,a%2Cb%20c&where=a%3E%3D1%2Cb%3Ax%20y&max_rate=30"
    );
    let header = |name| received.header(name);
    assert_eq!(
        header("authorization"),
        Some("Bearer rk_test_key-of-the-tests")
    );
    assert_eq!(header("accept"), Some("text/event-stream"));

    let table = Setup {
        output: TailOutput::Table,
        ..Setup::default()
    };
    let run_table = run(&server, table).await;
    assert_eq!(run_table.done, Ok(()));
    assert_eq!(&run_table.out[12..], "  orders  ~ k2  n=2\n");
}

#[tokio::test]
async fn a_broken_connection_is_resumed_after_the_last_message() {
    let server = StandIn::start(|_, count| match count {
        0 => {
            let half = event(&update(3));
            let whole = event(&snapshot("7:1")) + &event(&update(2));
            Reply::Answer(200, HEADERS.to_owned(), whole + &half[..half.len() - 2])
        }
        1 => Reply::HangUp,
        2 => events(&[]),
        3 => events(&[r#"{"type":"heartbeat","id":"7:5"}"#.to_owned()]),
        _ => events(&[update(6)]),
    });
    let run = run(
        &server,
        Setup {
            count: 2,
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(run.done, Ok(()));
    assert_eq!(
        run.out,
        format!("{}\n{}\n{}\n", snapshot("7:1"), update(2), update(6))
    );
    // One note at the start of an outage, and one at its end.
    assert_eq!(run.notes, [ENDED, AGAIN, ENDED, AGAIN]);
    let since: Vec<_> = targets(&server)
        .iter()
        .map(|target| target.split("&since=").nth(1).map(str::to_owned))
        .collect();
    let resumed = |position: &str| Some(format!("{position}&max_rate=30"));
    assert_eq!(
        since,
        [
            None,
            resumed("7:2"),
            resumed("7:2"),
            resumed("7:2"),
            resumed("7:5")
        ]
    );
}

#[tokio::test]
async fn the_position_is_the_users_then_the_servers_then_none_while_incomplete() {
    let server = StandIn::start(|_, count| {
        match count {
        0 => refusal(503),
        1 => events(&[r#"{"type":"reset","id":"8:0","reason":"too old"}"#.to_owned()]),
        2 => events(&[snapshot("8:0")]),
        // An id in the frame only, as other servers may send it.
        3 => Reply::Answer(
            200,
            HEADERS.to_owned(),
            "id: 8:4\ndata: {\"type\":\"snapshot\"}\n\nid: nonsense&x=\ndata: {\"type\":\"fresh\"}\n\n".to_owned(),
        ),
        _ => events(&[update(6)]),
    }
    });
    let run = run(
        &server,
        Setup {
            since: Some("7:5"),
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(run.done, Ok(()));
    let since: Vec<_> = targets(&server)
        .iter()
        .map(|target| {
            target
                .contains("&since=")
                .then(|| target.contains("since=8:4"))
        })
        .collect();
    assert_eq!(since, [Some(false), Some(false), None, None, Some(true)]);
}

#[tokio::test]
async fn without_a_read_key_each_connection_gets_a_ticket() {
    let admin = StandIn::start(|request, count| {
        assert_eq!(request.body, r#"{"streams":["orders","a,b c"]}"#);
        let ticket =
            format!(r#"{{"success":true,"data":{{"ticket":"tk_&{count}","expires_at":""}}}}"#);
        Reply::Answer(201, String::new(), ticket)
    });
    let server = StandIn::start(|request, count| {
        assert_eq!(request.header("authorization"), None);
        assert!(
            request.target.ends_with(&format!("&token=tk_%26{count}")),
            "{}",
            request.target
        );
        match count {
            // After a successful connection, `tail` retries after a rejected ticket; before that, it does not.
            0 | 4 => events(&[snapshot("7:1")]),
            1..4 => refusal(401),
            _ => events(&[update(2)]),
        }
    });
    let run = run(&server, of_admin(&admin)).await;
    assert_eq!(
        (run.done, run.notes),
        (
            Ok(()),
            vec![
                ENDED.to_owned(),
                AGAIN.to_owned(),
                ENDED.to_owned(),
                AGAIN.to_owned()
            ]
        )
    );
    assert_eq!(admin.received().len(), 6);
    let Received {
        target, headers, ..
    } = &admin.received()[0];
    assert_eq!(target, "POST /api/admin/tickets");
    assert!(headers.contains(&("authorization".to_owned(), "Bearer admin-token".to_owned())));
}

#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let server = StandIn::start(|_, count| match count {
        0 => Reply::Begin(HEADERS.to_owned(), event(&snapshot("7:3"))),
        _ => Reply::Begin(HEADERS.to_owned(), event(&update(4))),
    });
    let timing = Timing {
        silence_max: Duration::from_millis(50),
        ..TIMING
    };
    let run = run(
        &server,
        Setup {
            timing,
            ..Setup::default()
        },
    )
    .await;
    assert_eq!(run.done, Ok(()));
    assert!(
        run.notes[0].ends_with("no data for 0 s; retrying"),
        "{:?}",
        run.notes
    );
    assert!(targets(&server)[1].contains("&since=7:3"));
}

#[tokio::test]
async fn a_farewell_is_an_outage_and_no_connection() {
    let server = StandIn::start(|_, count| match count {
        0 => events(&[update(2), r#"{"type":"bye","retry_ms":3}"#.to_owned()]),
        1 => events(&[r#"{"type":"bye","retry_ms":3}"#.to_owned()]),
        _ => events(&[update(3)]),
    });
    let table = Setup {
        count: 2,
        output: TailOutput::Table,
        ..Setup::default()
    };
    let run = run(&server, table).await;
    assert_eq!(run.done, Ok(()));
    assert_eq!(
        run.notes,
        ["the server closes the connection; retrying", AGAIN]
    );
    assert_eq!(server.received().len(), 3);
}

#[test]
fn patience_is_learned_from_heartbeats() {
    let timing = Timing::default();
    let start = Instant::now();
    let mut course = Course::default();
    let mut check = |seconds, expected: Option<u64>| {
        course.heartbeat(start + Duration::from_secs(seconds), &timing);
        assert_eq!(course.silence_max, expected.map(Duration::from_secs));
    };
    check(0, None);
    check(15, Some(40));
    check(75, Some(150));
    check(90, Some(40));
    check(9_000, Some(750));
}

#[test]
fn pauses_double_up_to_a_bound_and_obey_the_server() {
    let timing = Timing::default();
    let check = |attempt, asked: Option<u64>, millis: u128| {
        let asked = asked.map(Duration::from_millis);
        let pause = timing.pause(attempt, asked).as_millis();
        assert!(
            (millis / 2..=millis).contains(&pause),
            "{pause} of {millis}"
        );
    };
    check(1, None, 500);
    check(3, None, 2_000);
    check(7, None, 30_000);
    check(u32::MAX, None, 30_000);
    check(1, Some(3_000), 3_000);
    check(2, Some(3_000), 6_000);
    check(1, Some(0), 500);
    check(1, Some(u64::MAX), 30_000);
}

#[test]
fn a_position_is_two_numbers() {
    let check = |text: &str, good: bool| assert_eq!(position(text).is_ok(), good, "{text}");
    check("1795230441:42", true);
    check("0:0", true);
    for bad in [
        "",
        ":",
        "1",
        "1:",
        ":1",
        "1:2:3",
        "-1:2",
        "1:2 ",
        "1:2&streams=x",
    ] {
        check(bad, false);
    }
}
