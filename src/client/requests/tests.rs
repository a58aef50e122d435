//! Tests of the entries that `requests` requests and shows.
//!
//! Run by `cargo test`. **Invariant**: the stand-in pages as the admin API does.

use std::time::Duration;

use clap::Parser;
use serde_json::json;

use super::*;
use crate::client::stand_in::{Received, Reply, StandIn};
use base::clock::Unix;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: RequestsArgs,
}

fn parsed(line: &str) -> Result<RequestsArgs, clap::Error> {
    let words = std::iter::once("requests").chain(line.split_whitespace());
    Program::try_parse_from(words).map(|program| program.args)
}

fn args(line: &str) -> RequestsArgs {
    parsed(line).unwrap_or_else(|error| panic!("{error}"))
}

/// Entry `n` of a connector's log: `shop` has the odd minutes, `sensors` the even ones.
fn entry(connector: &str, n: usize) -> LoggedRequest {
    let minute = 59 - 2 * n - usize::from(connector == "c2");
    LoggedRequest {
        timestamp: format!("2025-03-01T10:{minute:02}:00.000Z"),
        request_id: format!("{connector}-{n}"),
        ..LoggedRequest::default()
    }
}

/// An admin API with two connectors of ten requests each, and pages of at most three entries.
fn admin_api() -> StandIn {
    StandIn::start(|request, _| {
        let (path, query) = request.target.split_once('?').expect("a query");
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
        let entries: Vec<Value> = match path {
            "GET /api/admin/connectors" => {
                vec![
                    json!({"id": "c1", "name": "shop"}),
                    json!({"id": "c2", "name": "sensors"}),
                ]
            }
            "GET /api/admin/connectors/c1/requests" => {
                (0..10).map(|n| json!(entry("c1", n))).collect()
            }
            "GET /api/admin/connectors/c2/requests" => {
                (0..10).map(|n| json!(entry("c2", n))).collect()
            }
            path => panic!("{path} was asked for"),
        };
        let from: usize = value("cursor=").map_or(0, |at| at.parse().expect("our cursor"));
        let limit: usize = value("limit=").expect("a limit").parse().expect("a number");
        let end = (from + limit.min(3)).min(entries.len());
        let next = (end < entries.len()).then(|| end.to_string());
        let body = json!({"success": true, "data": entries[from..end], "next": next});
        Reply::Answer(200, String::new(), body.to_string())
    })
}

async fn ids(server: &StandIn, line: &str) -> Result<Vec<String>, CliError> {
    let client = Client::new(&server.url(), "token").expect("an address");
    let entries = newest(&client, &args(line)).await?;
    Ok(entries.into_iter().map(|entry| entry.request_id).collect())
}

#[tokio::test]
async fn the_newest_of_all_connectors_are_merged_over_all_pages() {
    let server = admin_api();
    let found = ids(&server, "--limit 9").await.expect("entries");
    assert_eq!(
        found,
        [
            "c1-0", "c2-0", "c1-1", "c2-1", "c1-2", "c2-2", "c1-3", "c2-3", "c1-4"
        ]
    );
    let all = ids(&server, "").await.expect("entries");
    assert_eq!(all.len(), 20);
    assert_eq!(all.last().map(String::as_str), Some("c2-9"));
}

#[tokio::test]
async fn one_connector_is_found_by_name_or_id() {
    let server = admin_api();
    assert_eq!(
        ids(&server, "--connector sensors --limit 2")
            .await
            .expect("entries"),
        ["c2-0", "c2-1"]
    );
    assert_eq!(
        ids(&server, "--connector c1 --limit 1")
            .await
            .expect("entries"),
        ["c1-0"]
    );
    let error = ids(&server, "--connector shp")
        .await
        .expect_err("no such connector");
    assert_eq!(
        error.message,
        "no connector `shp`; there are: shop, sensors"
    );
}

#[tokio::test]
async fn filters_are_sent_with_every_page() {
    let server = admin_api();
    let line = "--connector shop --limit 5 --status rejected,failed --since 2025-03-01T12:00:00+02:00 --text a&b";
    ids(&server, line).await.expect("entries");
    let targets: Vec<String> = server
        .received()
        .into_iter()
        .map(|Received { target, .. }| target)
        .skip(1)
        .collect();
    let filter = "&status=rejected,failed&since=2025-03-01T10%3A00%3A00.000Z&text=a%26b";
    let path = "GET /api/admin/connectors/c1/requests?limit=";
    assert_eq!(
        targets,
        [
            format!("{path}5{filter}"),
            format!("{path}2{filter}&cursor=3")
        ]
    );
}

#[tokio::test]
async fn a_server_that_repeats_its_page_is_not_asked_for_ever() {
    let server = StandIn::start(|_, _| {
        let data = [json!({"id": "c1", "name": "shop"})];
        let body = json!({"data": data, "next": "again"}).to_string();
        Reply::Answer(200, String::new(), body)
    });
    let error = ids(&server, "").await.expect_err("no progress");
    assert!(
        error
            .message
            .contains("the server sent the same page again"),
        "{error}"
    );
    assert_eq!(server.received().len(), 2);
}

#[test]
fn wrong_options_are_refused() {
    let check = |line: &str| assert!(parsed(line).is_err(), "{line}");
    check("--limit 0");
    check("--limit 100001");
    check("--status lost");
    check("--since yesterday");
    check("0192 --connector shop");
    check("0192 --text shop");
}

#[test]
fn times_are_ages_or_moments() {
    let now = Unix::from_ms(1_740_830_400_000);
    let check = |text: &str, seconds_before: u64| {
        let moment = moment_before(text, now).expect("a moment");
        assert_eq!(now - moment, Duration::from_secs(seconds_before), "{text}");
    };
    check("90s", 90);
    check("15m", 900);
    check("1h", 3_600);
    check("7d", 604_800);
    check("2w", 1_209_600);
    check("1969-12-31T23:59:59Z", now.seconds());
    check("2025-03-01T12:00:00Z", 0);
    check("2025-03-01T12:00:00+01:00", 3_600);
    let wrong = |text: &str| assert!(moment_before(text, now).is_err(), "{text}");
    for text in [
        "",
        "h",
        "-1h",
        "1.5h",
        "1y",
        "1é",
        "12:00",
        "4294967296s",
        "4000000000w",
    ] {
        wrong(text);
    }
    wrong("2025-02-30T00:00:00Z");
}

#[test]
fn a_table_shows_an_entry_on_one_line_and_nothing_raw() {
    let entry = LoggedRequest {
        timestamp: "2025-03-01T10:00:00.000Z".to_owned(),
        request_id: "0192".to_owned(),
        connector: "shop".to_owned(),
        stream: "orders".to_owned(),
        status: "rejected".to_owned(),
        http_status: 400,
        bytes: 12,
        key: "ik_live_a1b2c3d4".to_owned(),
        errors: vec!["line 1\u{1b}[2J\nis wrong".to_owned(), "second".to_owned()],
        ..LoggedRequest::default()
    };
    let text = table(COLUMNS, &[entry]).to_string();
    let expected = "\
TIME                      CONNECTOR  STREAM  STATUS    HTTP  ITEMS  BYTES  KEY               REQUEST  ERRORS
2025-03-01T10:00:00.000Z  shop       orders  rejected  400   0      12     ik_live_a1b2c3d4  0192     line 1\\u{1b}[2J\\nis wrong; second
";
    assert_eq!(text, expected);
    let long = LoggedRequest {
        errors: vec!["é".repeat(81)],
        ..LoggedRequest::default()
    };
    assert_eq!(errors(&long), format!("{}…", "é".repeat(80)));
    assert_eq!(errors(&LoggedRequest::default()), "");
}

#[test]
fn a_request_in_full_is_a_line_for_each_field() {
    let request = json!({
        "request_id": "0192", "item_key": null, "errors": [],
        "sinks": [{"name": "po\u{1b}ol", "state": "done"}], "list": [1, "two"],
    });
    let expected = "\
request_id: 0192
item_key:
errors: []
sinks:
  -
    name: po\\u{1b}ol
    state: done
list:
  - 1
  - two
";
    assert_eq!(described(&request), expected);
}
