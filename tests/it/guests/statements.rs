//! A database in a sink's hands: what a guest's statements can do, and what they leave behind.

use serde_json::{Value, json};

use super::http::ONCE;
use super::{IMPATIENT, LIMITS, guest, nobody_else_suffers};
use crate::process::Process;
use crate::setup::Setup;
use crate::wait::eventually;
use postgres_server::{Line, PASSWORD, Postgres};

/// A daemon whose stream `hostile` goes to the guest that runs statements.
fn running(url: &str, more: &str) -> Setup {
    running_within(LIMITS, url, more)
}

/// The same with other limits.
fn running_within(limits: &str, url: &str, more: &str) -> Setup {
    let more = format!("{ONCE}postgres = {{ url = {url:?}{more} }}\n");
    Setup::with_streams(&["hostile", "innocent"])
        .toml(limits)
        .sink("hostile", &guest("runs_sql"), "hostile", &more)
        .sink("pool", "pool", "innocent", "")
}

/// Runs statements in one call; what the guest was told.
fn outcome(process: &Process, statements: &[&str]) -> String {
    let items = statements.iter().map(|sql| json!({"sql": sql}));
    told(process, items.collect())
}

fn told(process: &Process, items: Vec<Value>) -> String {
    let id = process.failed("hostile", "", &Value::from(items).to_string());
    let letters = process.dead_letters("hostile");
    let letter = letters.iter().find(|letter| letter["request_id"] == id);
    let reason = &letter.expect("a dead letter")["reason"];
    reason.as_str().expect("text").to_owned()
}

/// Waits until statements are answered in time, which on a busy machine the first one may not be.
fn works(process: &Process) {
    eventually("a statement succeeds", || {
        (outcome(process, &["SELECT 1"]) == "Ok([1])").then_some(())
    });
}

/// Nobody of Headgate's is in a transaction.
fn no_transaction_is_open(postgres: &Postgres) {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE application_name = 'headgate' AND state <> 'idle'";
    eventually("no transaction is open", || {
        (postgres.query(sql) == "0").then_some(())
    });
}

#[test]
fn statements_of_a_call_happen_together_or_not_at_all() {
    let Some(postgres) = Postgres::start("statements_of_a_call") else {
        return;
    };
    postgres.query("CREATE TABLE t (k text PRIMARY KEY, n int, CHECK (n < 10))");
    postgres.query("CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    let process = running(&postgres.url(), "").spawn();
    let insert = "INSERT INTO t SELECT unnest($1), 1";
    let both = vec![
        json!({"sql": insert, "keys": true}),
        json!({"sql": "UPDATE t SET n = n + 1"}),
    ];
    assert_eq!(told(&process, both), "Ok([2, 2])");
    for (statements, words) in [
        (
            ["UPDATE t SET n = 7", "UPDATE t SET n = 10"],
            "code: \"23514\"",
        ),
        (["UPDATE t SET n = 7", "UPDATE t SET"], "code: \"42601\""),
        (
            ["UPDATE t SET n = 7", "UPDATE t SET m = 1"],
            "code: \"42703\"",
        ),
        // Refused at the commit.
        (
            ["UPDATE t SET n = 7", "INSERT INTO late VALUES (1), (1)"],
            "code: \"23505\"",
        ),
        (
            ["UPDATE t SET n = 7", "UPDATE t SET n = 8; COMMIT"],
            "42601",
        ),
        (
            ["UPDATE t SET n = 7", "DO $$ BEGIN COMMIT; END $$"],
            "code: \"2D000\"",
        ),
        (["UPDATE t SET n = 7", "COMMIT"], "0A000"),
        (
            ["UPDATE t SET n = 7", "/* /* */ SELECT */ ROLLBACK"],
            "0A000",
        ),
        (["UPDATE t SET n = 7", "COPY t FROM STDIN"], "0A000"),
        (["UPDATE t SET n = 7", "COPY t TO STDOUT"], "0A000"),
        (
            [
                "UPDATE t SET n = 7",
                "SELECT pg_terminate_backend(pg_backend_pid())",
            ],
            "Error::Unavailable",
        ),
        (
            ["UPDATE t SET n = 7", "SELECT 'x'::text FROM t"],
            "Ok([2, 2])",
        ),
    ] {
        let told = outcome(&process, &statements);
        assert!(told.contains(words), "{statements:?}: {told}");
        no_transaction_is_open(&postgres);
        let expected = if words.starts_with("Ok") {
            "7\n7"
        } else {
            "2\n2"
        };
        assert_eq!(
            postgres.query("SELECT n FROM t"),
            expected,
            "{statements:?}"
        );
    }
    let often = |times| told(&process, vec![json!({"sql": "SELECT 1", "times": times})]);
    assert_eq!(often(100).matches('1').count(), 100);
    assert!(often(101).contains("more than 100 statements"));
    assert_eq!(outcome(&process, &["SELECT 1"; 3]), "Ok([1, 1, 1])");
    nobody_else_suffers(process);
}

#[test]
fn who_waits_too_long_leaves_no_transaction_behind() {
    let Some(postgres) = Postgres::start("who_waits_too_long") else {
        return;
    };
    postgres.query("CREATE TABLE t (n int)");
    for (limits, more, words) in [
        (LIMITS, ", timeout_ms = 800", "no answer within 800 ms"),
        // The call's own deadline, in which the database has no say.
        (
            IMPATIENT,
            ", timeout_ms = 60_000",
            "no answer within 1200 ms",
        ),
    ] {
        let process = running_within(limits, &postgres.url(), more).spawn();
        let slow = ["WITH i AS (INSERT INTO t VALUES (1)) SELECT pg_sleep(3)"];
        let told = outcome(&process, &slow);
        assert!(told.contains(words), "{told}");
        works(&process);
        no_transaction_is_open(&postgres);
        assert_eq!(postgres.query("SELECT count(*) FROM t"), "0");
        nobody_else_suffers(process);
    }
}

#[test]
fn a_server_that_stalls_is_left_and_found_again() {
    let Some(postgres) = Postgres::start("a_server_that_stalls") else {
        return;
    };
    postgres.query("CREATE TABLE t (n int)");
    let line = Line::to(&postgres);
    let process = running(&line.url(), ", timeout_ms = 2500").spawn();
    let insert = ["INSERT INTO t VALUES (1)"];
    works(&process);
    assert_eq!(outcome(&process, &insert), "Ok([1])");
    line.stall();
    // On the connection that was kept, then while connecting.
    for _ in 0..2 {
        let told = outcome(&process, &insert);
        assert!(told.contains("no answer within 2500 ms"), "{told}");
    }
    line.go_on();
    works(&process);
    assert_eq!(outcome(&process, &insert), "Ok([1])");
    no_transaction_is_open(&postgres);
    assert_eq!(postgres.query("SELECT count(*) FROM t"), "2");
    assert!(!process.log().contains(PASSWORD));
    nobody_else_suffers(process);
}

#[test]
fn a_kept_connection_that_has_broken_costs_no_attempt() {
    let Some(mut postgres) = Postgres::start("a_kept_connection") else {
        return;
    };
    let process = running(&postgres.url(), "").spawn();
    assert_eq!(outcome(&process, &["SELECT 1"]), "Ok([1])");
    postgres.crash();
    let told = outcome(&process, &["SELECT 1"]);
    assert!(told.contains("Unavailable"), "{told}");
    postgres.resume();
    assert_eq!(outcome(&process, &["SELECT 1"]), "Ok([1])");
    postgres.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'",
    );
    assert_eq!(outcome(&process, &["SELECT 1"]), "Ok([1])");
    nobody_else_suffers(process);
}
