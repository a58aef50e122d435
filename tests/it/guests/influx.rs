//! The built-in sink that writes to InfluxDB, tried against a server of its own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{LOOPBACK, ONCE};
use super::nobody_else_suffers;
use crate::process::{BY_ID, skipped};
use crate::program::{RUN_MAX, output, output_within};
use crate::receiver::{Receiver, answer};
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::free_port;

const RETRIES: &str = "retry = { first_ms = 10, max_ms = 100, attempts = 1000 }\n";
const PASSWORD: &str = "canary-of-influx";

/// A daemon whose stream `hostile` is written to the server.
fn writing(url: &str, config: &str, retry: &str, http: &str) -> Setup {
    let more = format!(
        "{retry}config = {{ url = {url:?}, {config} }}\nhttp = {{ hosts = [{url:?}], {LOOPBACK}{http} }}\n"
    );
    Setup::with_streams(&["hostile", "innocent"])
        .sink("hostile", "influx", "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

/// A server of InfluxDB 1, in a temporary folder.
struct Influx {
    url: String,
    server: Child,
    _folder: tempfile::TempDir,
}

impl Influx {
    /// A server, with a user if it wants passwords; `None` where the program is missing and not required.
    fn start(test: &str, passwords: bool) -> Option<Self> {
        if output(Command::new("influxd").arg("version")).is_err() {
            let required = std::env::var_os("CI").is_some();
            assert!(!required, "{test}: influxd is missing");
            skipped(test, "there is no influxd");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let address = format!("127.0.0.1:{}", free_port());
        let settings = format!(
            "bind-address = \"127.0.0.1:{}\"\nreporting-enabled = false\n[meta]\ndir = {:?}\n[data]\ndir = {:?}\nwal-dir = {:?}\n\
             [monitor]\nstore-enabled = false\n[http]\nbind-address = {address:?}\nauth-enabled = {passwords}\n",
            free_port(),
            path("meta"),
            path("data"),
            path("wal")
        );
        std::fs::write(path("influxdb.conf"), settings).expect("a file");
        let server = Command::new("influxd")
            .arg("-config")
            .arg(path("influxdb.conf"))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("influxd starts");
        let influx = Self {
            url: format!("http://{address}"),
            server,
            _folder: folder,
        };
        eventually("InfluxDB answers", || influx.try_query("SHOW DATABASES"));
        if passwords {
            influx.query(&format!(
                "CREATE USER admin WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES"
            ));
        }
        Some(influx)
    }

    /// What a query returns, as anybody would ask.
    fn query(&self, query: &str) -> Value {
        let answer = self.try_query(query).expect("an answer");
        assert!(answer["results"][0]["error"].is_null(), "{query}: {answer}");
        answer["results"][0]["series"].clone()
    }

    fn try_query(&self, query: &str) -> Option<Value> {
        let output = output(
            Command::new("curl")
                .args(["--silent", "--show-error", "--user"])
                .arg(format!("admin:{PASSWORD}"))
                .arg(format!("{}/query?db=plant&epoch=ms", self.url))
                .args(["--data-urlencode", &format!("q={query}")]),
        )
        .expect("curl starts");
        serde_json::from_slice(&output.stdout).ok()
    }
}

impl Drop for Influx {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn items_become_points_whatever_they_hold() {
    let Some(influx) = Influx::start("items_become_points", false) else {
        return;
    };
    influx.query("CREATE DATABASE plant");
    let config = r#"db = "plant", tags = ["a room", "site=1"], key_tag = "key", integers = ["count"], time = "at""#;
    let folder = writing(&influx.url, config, ONCE, "");
    let process = folder.spawn();
    let body = json!([
        {"id": "a,b c=d", "a room": "x, y=z \\", "site=1": "two\nlines", "f 1": 1.50, "count": 9_223_372_036_854_775_807_i64,
         "ok": true, "text": "say \"hi\",\n\\now\\", "l": [1], "none": null, "at": "2024-02-29T12:00:00.250+02:00"},
        {"id": "b", "a room": "", "site=1": 7, "f 1": 18446744073709551615_u64, "at": 1_700_000_000_000_u64},
        {"id": "c", "f 1": -1, "ok": false, "at": "1969-12-31T23:59:59.999Z"},
    ]);
    // Again, as a redelivery would.
    for _ in 0..2 {
        process.processed("hostile", BY_ID, &body.to_string());
    }
    let series = influx.query("SELECT * FROM hostile");
    let columns = [
        "time", "a room", "count", "f 1", "id", "key", "ok", "site=1", "text",
    ];
    assert_eq!(series[0]["columns"], json!(columns));
    assert_eq!(
        series[0]["values"],
        json!([
            [-1, null, null, -1, "c", "c", false, null, null],
            [
                1_700_000_000_000_u64,
                null,
                null,
                1.8446744073709552e19,
                "b",
                "b",
                null,
                "7",
                null
            ],
            [
                1_709_200_800_250_u64,
                "x, y=z ",
                9_223_372_036_854_775_807_i64,
                1.5,
                "a,b c=d",
                "a,b c=d",
                true,
                "two\\nlines",
                "say \"hi\",\n\\now\\"
            ],
        ])
    );
    nobody_else_suffers(process);

    // Named fields only, into a measurement of another name, at the time of arrival.
    let config = r#"db = "plant", rp = "autogen", measurement = "m, n", fields = ["l", "o.p"], precision = "s""#;
    let process = writing(&influx.url, config, ONCE, "").spawn();
    process.processed("hostile", "", r#"{"l": [1, "\""], "o": {"p": 2}, "q": 3}"#);
    let series = influx.query("SELECT * FROM \"m, n\" WHERE time > now() - 1m AND time <= now()");
    assert_eq!(series[0]["columns"], json!(["time", "l", "o.p"]));
    assert_eq!(series[0]["values"][0][1], "[1,\"\\\"\"]");
    assert_eq!(series[0]["values"][0][2], 2);
    nobody_else_suffers(process);
}

#[test]
fn points_that_the_server_refuses_become_dead_letters_and_no_other_is_lost() {
    let Some(influx) = Influx::start("points_that_the_server_refuses", false) else {
        return;
    };
    influx.query("CREATE DATABASE plant");
    influx.query("CREATE RETENTION POLICY month ON plant DURATION 30d REPLICATION 1 DEFAULT");
    let config = r#"db = "plant", key_tag = "key", integers = ["i"], time = "at""#;
    let process = writing(&influx.url, config, ONCE, "").spawn();
    process.processed("hostile", "", r#"{"n": 0, "i": 0}"#);
    let mut items: Vec<Value> = (0..1_000).map(|n| json!({"key": n, "n": n})).collect();
    let bad = [
        (3, json!({"n": "three"}), "field type conflict"),
        (500, json!({"n": 5, "time": 5}), "time: no field of a point"),
        (
            501,
            json!({"n": 1, "at": "2001-01-01T00:00:00Z"}),
            "points beyond retention policy",
        ),
        (
            502,
            json!({"i": 9_223_372_036_854_775_808_u64}),
            "i: 9223372036854775808 is no integer of 64 bits",
        ),
        (503, json!({"i": 1.5}), "i: 1.5 is no integer"),
        (
            504,
            json!({"at": "2023-02-29T00:00:00Z", "n": 1}),
            "at: \"2023-02-29T00:00:00Z\" is no time",
        ),
        (505, json!({"none": null, "l": [1]}), "none of its fields"),
    ];
    for (index, item, _) in &bad {
        items[*index] = item.clone();
    }
    let body = Value::from(items).to_string();
    process.failed("hostile", "", &body);
    let mut letters = process.dead_letters("hostile");
    letters.sort_by_key(|letter| letter["position"].as_u64());
    let expected = bad.iter().map(|(index, _, words)| (*index, *words));
    let expected: Vec<_> = expected.collect();
    assert_eq!(letters.len(), expected.len(), "{letters:?}");
    for (letter, (position, words)) in letters.iter().zip(&expected) {
        assert_eq!(letter["position"], *position);
        let reason = letter["reason"].to_string().replace("\\\"", "\"");
        assert!(reason.contains(words), "{reason}");
    }
    let series = influx.query("SELECT count(n) FROM hostile");
    assert_eq!(series[0]["values"][0][1], 1 + 1_000 - 7);
    let metrics = process.metrics();
    for number in ["points\"} 994", "rejected\"} 7"] {
        let line = format!("headgate_plugin_events_total{{sink=\"hostile\",name=\"{number}");
        assert!(metrics.contains(&line), "{metrics}");
    }

    // Beyond what the helpers of the tests can read, too.
    process.failed("hostile", "", r#"{"n": 1e400}"#);
    let letters = process.call("GET", "/api/admin/sinks/hostile/dead-letters", "");
    let letters = letters.body;
    assert!(
        letters.contains("n: 1e400 is beyond a 64-bit float"),
        "{letters}"
    );
    nobody_else_suffers(process);
}

#[test]
fn what_the_operator_of_influxdb_can_mend_is_waited_for() {
    let Some(influx) = Influx::start("what_the_operator_of_influxdb", true) else {
        return;
    };
    let basic = |credentials: &str| {
        let mut encode = Command::new("openssl");
        let output = output_within(
            RUN_MAX,
            encode.args(["base64", "-A"]),
            credentials.as_bytes(),
        );
        let output = output.expect("openssl starts");
        format!("Basic {}", String::from_utf8(output.stdout).expect("text"))
    };
    let authorization = basic(&format!("writer:{PASSWORD}"));
    let http = format!(", headers = {{ authorization = {authorization:?} }}");
    let process = writing(&influx.url, "db = \"plant\"", RETRIES, &http).spawn();
    let id = process.accepted("hostile", "", r#"{"n": 1}"#);
    let fails = |words: &str| {
        let sink = process.sink_becomes("hostile", "failing", |sink| {
            sink["last_error"].to_string().contains(words)
        });
        assert_eq!(sink["dead_letters"], 0);
    };
    fails("answered 401");
    influx.query(&format!("CREATE USER writer WITH PASSWORD '{PASSWORD}'"));
    fails("answered 404: {\\\"error\\\":\\\"database not found");
    influx.query("CREATE DATABASE plant");
    fails("answered 403");
    influx.query("GRANT WRITE ON plant TO writer");
    process.request_becomes(&id, "processed");
    assert_eq!(influx.query("SELECT n FROM hostile")[0]["values"][0][1], 1);
    assert!(!process.log().contains(&authorization));
    nobody_else_suffers(process);
}

#[test]
fn buckets_are_written_to_and_retry_after_is_honoured() {
    let receiver = Receiver::start(|_, before| match before {
        0 => answer(503, "retry-after: 2\r\n", "busy"),
        _ => answer(204, "", ""),
    });
    let config = r#"org = "our plant", bucket = "a&b", precision = "us", time = "at""#;
    let folder = writing(&receiver.url(""), config, RETRIES, "");
    let process = folder.spawn();
    let started = Instant::now();
    let body = r#"[{"n": 1, "at": 5}, {"n": 2, "at": "1970-01-01T00:00:00.0000123Z"}]"#;
    process.processed("hostile", "", body);
    assert!(started.elapsed() >= Duration::from_millis(1_900));
    let seen = receiver.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        let path = "/api/v2/write?precision=us&org=our%20plant&bucket=a%26b";
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", path));
        assert_eq!(seen.body, "hostile n=1 5\nhostile n=2 12\n");
    }
    nobody_else_suffers(process);
}
