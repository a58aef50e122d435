//! Tests of the calls of `sink`, and of its output.
//!
//! Run by `cargo test`. **Invariant**: text from a server never reaches the terminal unescaped.

use clap::Parser;

use super::super::output::is_yes;
use super::*;
use crate::client::stand_in::{Reply, StandIn};
use wire::DeadLetterData;
use wire::SinkError;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: SinkArgs,
}

fn parsed(line: &str) -> Result<SinkArgs, clap::Error> {
    let words = std::iter::once("sink").chain(line.split_whitespace());
    Program::try_parse_from(words).map(|program| program.args)
}

/// Runs a command line against a server that returns `data`, or 404 without data; also returns its requests.
async fn asked(line: &str, data: Option<Value>) -> (Result<(), CliError>, Vec<String>) {
    let server = StandIn::start(move |_, _| match &data {
        Some(data) => {
            let body = json!({"success": true, "data": data, "next": null}).to_string();
            Reply::Answer(200, String::new(), body)
        }
        None => {
            let error = json!({"code": "SINK_NOT_FOUND", "message": "no\u{1b}[31m such sink"});
            let body = json!({"success": false, "error": error}).to_string();
            Reply::Answer(404, String::new(), body)
        }
    });
    let line = format!("{line} --admin-url {} --token t", server.url());
    let done = run(parsed(&line).unwrap_or_else(|error| panic!("{error}"))).await;
    let received = server.received().into_iter();
    let received = received.map(|one| format!("{} {}", one.target, one.body));
    (done, received.map(|one| one.trim().to_owned()).collect())
}

#[tokio::test]
async fn each_selection_is_sent_as_it_is_meant() {
    let sent = || Some(json!({"sent_again": 2, "skipped": 1}));
    let gone = || Some(json!({"discarded": 1}));
    let letters = "/api/admin/sinks/a%2Fb/dead-letters";
    let check = async |line: &str, data: Option<Value>, expected: &str| {
        let (done, received) = asked(&line.replace("NAME", "a/b"), data).await;
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(received, [expected], "{line}");
    };
    let retries = Some(json!({"retries": 3}));
    check("retry NAME", retries, "POST /api/admin/sinks/a%2Fb/retry").await;
    let again = format!("POST {letters}/retry");
    check("retry NAME --all", sent(), &again).await;
    let ids = format!("{again} {{\"ids\":[1,2,3]}}");
    check("retry NAME --id 1,2 --id 3", sent(), &ids).await;
    check("retry --id 1,2,3 NAME", sent(), &ids).await;
    let request = format!("{again} {{\"request_id\":\"x\"}}");
    check("retry NAME --request x", sent(), &request).await;
    let discard = |query: &str| format!("DELETE {letters}?{query}");
    check("discard NAME --yes --all", gone(), &discard("all=true")).await;
    check("discard NAME --yes --id 1,2", gone(), &discard("id=1&id=2")).await;
    check(
        "discard NAME --yes --request a&b",
        gone(),
        &discard("request_id=a%26b"),
    )
    .await;
}

#[tokio::test]
async fn each_option_is_sent_as_the_section_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        format!("@{}", path.display())
    };
    let (token, config) = (file("token", "hush\n"), file("config", "{\"a\": [1]}"));
    let empty = file("empty", "\n");
    let check = async |options: &str, expected: Value| {
        let line = format!("change team {options}");
        let (done, received) = asked(&line, Some(json!({"name": "team"}))).await;
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
        let sent = received[0].strip_prefix("PATCH /api/admin/sinks/team ");
        let sent: Value = serde_json::from_str(sent.expect("a change")).expect("JSON");
        assert_eq!(sent, expected, "{line}");
    };
    let lists = "--streams a,b --streams c --except d --makes e --writes=";
    let sent = json!({"streams": ["a", "b", "c"], "except": ["d"], "makes": ["e"], "writes": []});
    check(lists, sent).await;
    let words =
        "--plugin p --mode latest --start oldest --leaves= --ordering any --where= --fields a";
    let sent = json!({"plugin": "p", "mode": "latest", "start": "oldest", "leaves": null, "ordering": "any",
        "where": null, "fields": "a"});
    check(words, sent).await;
    let numbers = "--max-rate 5 --in-flight 2 --shown false";
    let sent = json!({"max_rate": 5, "in_flight": 2, "shown": false});
    check(numbers, sent).await;
    let sent = json!({"retry": {"attempts": 3}, "config": {"a": [1]}});
    let section = "--section {\"retry\":{\"attempts\":3},\"config\":{}}";
    check(&format!("{section} --config {config}"), sent).await;
    let sent =
        json!({"http": {"headers": {"a": "hush", "b": "x=1,2", "c": null}}, "secrets": {"s": "v"}});
    let secrets = format!("--header a={token} --header b=x=1,2 --header c= --secret s=v");
    check(&secrets, sent).await;
    let postgres = |text: &str| format!("--postgres {text}");
    check(&postgres(&token), json!({"postgres": {"url": "hush"}})).await;
    check(&postgres(&empty), json!({"postgres": null})).await;
    check("--folder out", json!({"folder": {"path": "out"}})).await;
    check("--folder=", json!({"folder": null})).await;
    // Networks are those of what the plugin connects to.
    let network = "--network 10.0.0.0/8";
    let (http, wire) = ("--host a.example", "--wire tcp://10.0.0.5:5250");
    let (to, networks) = (["tcp://10.0.0.5:5250"], ["10.0.0.0/8"]);
    let of_http = json!({"hosts": ["a.example"], "networks": networks});
    let of_wire = json!({"to": to, "networks": networks});
    check(network, json!({"http": {"networks": networks}})).await;
    check(&format!("{network} {wire}"), json!({"wire": of_wire})).await;
    check(&format!("{http} {network}"), json!({"http": of_http})).await;
    let both = json!({"http": of_http, "wire": of_wire});
    check(&format!("{http} {network} {wire}"), both).await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_named_by_its_option_alone() {
    for (options, expected) in [
        ("--header hush", "--header must be NAME=VALUE or NAME=@FILE"),
        ("--secret hush", "--secret must be NAME=VALUE or NAME=@FILE"),
        ("--header a=@/nowhere/hush", "cannot read /nowhere/hush"),
        ("--config [1]", "--config must be a JSON object"),
        ("--section {", "--section is not JSON"),
        ("", "nothing to change; set one of --plugin, --streams"),
    ] {
        let (done, received) = asked(&format!("change team {options}"), None).await;
        let error = done.expect_err("it is refused");
        assert_eq!((error.code, received.len()), (2, 0), "{options}");
        assert!(error.message.starts_with(expected), "{error}");
    }
    for line in ["change team --mode x", "create a --in-flight x"] {
        assert!(parsed(line).is_err(), "{line}");
    }
    let both = parsed("create a --config {} --daemon-config headgate.toml").expect("a line");
    let SinkCommand::Create(args) = both.command else {
        panic!("another verb");
    };
    let own = args.admin.config.config;
    assert_eq!(own, Some(std::path::PathBuf::from("headgate.toml")));
}

#[test]
fn what_is_asked_names_what_would_be_gone() {
    for (answer, yes) in [
        ("y\n", true),
        ("Yes\n", true),
        ("\n", false),
        ("no", false),
        ("yy", false),
    ] {
        assert_eq!(is_yes(answer), yes, "{answer:?}");
    }
    let chosen = |line: &str| match parsed(line).expect("a line").command {
        SinkCommand::Discard(args) => question(&args.chosen, "po\u{1b}ol"),
        _ => panic!("{line}"),
    };
    assert_eq!(
        chosen("discard x --id 7"),
        "Discard 1 dead letter of the sink po\\u{1b}ol? This cannot be undone."
    );
    assert!(chosen("discard x --all").contains("all dead letters"));
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let (done, _) = asked("retry nobody --all", None).await;
    let error = done.expect_err("there is none").to_string();
    assert!(error.contains("`headgate sink list`"), "{error}");
    let nothing = json!({"sent_again": 0, "skipped": 2});
    let (done, _) = asked("retry pool --all", Some(nothing)).await;
    let error = done.expect_err("nothing was sent").to_string();
    assert!(
        error.contains("2 dead letters cannot be retried"),
        "{error}"
    );
    let (done, received) = asked("discard pool --yes", None).await;
    assert_eq!(done.expect_err("what?").code, 2);
    assert_eq!(received.len(), 0);
    let (done, _) = asked("retry pool", Some(json!({}))).await;
    assert!(done.is_err(), "a success that says nothing is none");
}

#[test]
fn wrong_options_are_refused() {
    for line in [
        "",
        "retry",
        "retry pool --id 0",
        "retry pool --id x",
        "retry pool --id 1 --all",
        "retry pool --request x --all",
        "discard pool --id 1 --request x",
        "dead-letters pool --limit 0",
        "list extra",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn tables_show_a_sink_or_a_letter_on_one_line_and_nothing_raw() {
    let sink = SinkData {
        name: "pool".to_owned(),
        plugin: "pool".to_owned(),
        state: "paused".to_owned(),
        lag: 3,
        retries: Some(1),
        dead_letters: Some(2),
        last_error: Some(SinkError {
            at: "2025-03-01T10:00:00.000Z".to_owned(),
            reason: "no\u{1b}[2J\nway".to_owned(),
        }),
        ..SinkData::default()
    };
    let calm = SinkData {
        name: "b".to_owned(),
        plugin: "b.wasm".to_owned(),
        state: "running".to_owned(),
        retries: Some(0),
        dead_letters: Some(0),
        ..SinkData::default()
    };
    let expected = "\
NAME  PLUGIN  STATE    LAG  RETRIES  DEAD LETTERS  LAST ERROR
pool  pool    paused   3    1        2             2025-03-01T10:00:00.000Z no\\u{1b}[2J\\nway
b     b.wasm  running  0    0        0
";
    assert_eq!(table(SINKS, &[sink, calm]).to_string(), expected);
    let letter = DeadLetterData {
        id: "17".to_owned(),
        at: "2025-03-01T10:00:00.000Z".to_owned(),
        stream: "orders".to_owned(),
        key: "k\u{9b}".to_owned(),
        attempts: 3,
        request_id: "0192".to_owned(),
        reason: "é".repeat(81),
        ..DeadLetterData::default()
    };
    let text = table(LETTERS, &[letter]).to_string();
    let (_, row) = text.split_once('\n').expect("two lines");
    let reason = "é".repeat(80);
    let expected =
        format!("17  2025-03-01T10:00:00.000Z  orders  k\\u{{9b}}  3         0192     {reason}…\n");
    assert_eq!(row, expected);
}

#[test]
fn what_is_new_and_not_in_use_stands_under_the_table() {
    let sink = |name: &str, refused: Option<&str>| SinkData {
        name: name.to_owned(),
        refused: refused.map(str::to_owned),
        ..SinkData::default()
    };
    let sinks = [sink("a", Some("no\u{1b}[31m component")), sink("b", None)];
    let shown = refusals(&sinks);
    assert!(
        shown.contains("a runs with its previous settings"),
        "{shown}"
    );
    assert!(shown.contains("component") && !shown.contains('\u{1b}'));
    assert!(!shown.contains("b continues"));
}
