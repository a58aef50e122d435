//! Problems of a single value, and of sources that cannot be read: exact text and line.

use super::{FULL, Place, check, key};

#[test]
fn a_full_file_has_no_problem() {
    check(FULL, &[]);
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    check(
        "[[connectors]]\nname = \"shop\"\nkind = \"ingest\"\nburts = 3\n",
        &[r#"4: connectors[0].burts: unknown key; did you mean "burst"?"#],
    );
    check(
        "[sever]\nlisten = \"localhost:1\"\n",
        &[r#"1: sever: unknown key; did you mean "server"?"#],
    );
    check(
        "[limits]\nmax_body = 3\n",
        &[r#"2: limits.max_body: unknown key; did you mean "max_body_bytes"?"#],
    );
    check(
        "[log]\n\"a\\nb\" = 3\n",
        &[r#"2: log."a\nb": unknown key; known here: level, format, requests"#],
    );
    check(
        "[[sinks]]\nname = \"a\"\nplugin = \"pool\"\nstreams = [\"*\"]\n[sinks.retry]\nattempt = 3\n",
        &[r#"6: sinks[0].retry.attempt: unknown key; did you mean "attempts"?"#],
    );
}

#[test]
fn conditions_and_fields_of_a_sink_are_named_with_their_place() {
    let sink = "[[sinks]]\nname = \"a\"\nplugin = \"webhook\"\nstreams = [\"*\"]\n";
    check(
        &format!("{sink}where = \"total>=abc\"\n"),
        &["5: sinks[0].where: where, character 8: a number is expected behind `>=`; `abc` is none"],
    );
    check(
        &format!("{sink}fields = \"a,b:\"\n"),
        &["5: sinks[0].fields: fields, character 5: a field is expected behind `:`"],
    );
    check(
        &format!("{sink}where = 5\n"),
        &["5: sinks[0].where: expected a string, found the integer 5"],
    );
    check(
        &format!("{sink}where = \"status:paid|shipped,total>=100\"\nfields = \"-note\"\n"),
        &[],
    );
}

#[test]
fn numbers_that_no_json_has_are_refused_in_settings_of_plugins() {
    let sink = "[[sinks]]\nname = \"a\"\nplugin = \"webhook\"\nstreams = [\"*\"]\n";
    check(
        &format!("{sink}config = {{ a = nan }}\n"),
        &["5: sinks[0].config.a: the plugin reads JSON, which has no number NaN"],
    );
    check(
        &format!("{sink}[sinks.config]\na = [\n1.5,\n-inf]\n"),
        &["8: sinks[0].config.a[1]: the plugin reads JSON, which has no number -inf"],
    );
}

#[test]
fn a_misspelt_key_is_not_reported_as_missing_too() {
    check(
        "[[streams]]\nnam = \"orders\"\n",
        &[r#"2: streams[0].nam: unknown key; did you mean "name"?"#],
    );
    check(
        &key("name = \"main\"\nstream = \"orders\"\nsecrte = \"ik_live_0123456789abcdef\"\n"),
        &[r#"9: connectors[0].keys[0].secrte: unknown key; did you mean "secret"?"#],
    );
}

#[test]
fn wrong_types_say_what_was_found_and_what_is_wanted() {
    check(
        r#"streams = "orders"
[server]
listen = 8080
shutdown_seconds = "30"
connections_max = 1.5
[admin]
token = 1979-05-27
[log]
requests = "yes"
level = true
[limits]
burst = [1]
"#,
        &[
            "1: streams: expected a list of tables, found a string",
            "3: server.listen: expected a string, found the integer 8080",
            "4: server.shutdown_seconds: expected an integer, found a string",
            "5: server.connections_max: expected an integer, found the number 1.5",
            "7: admin.token: expected a string, { file = \"…\" } or { env = \"…\" }, found a date or time",
            "9: log.requests: expected true or false, found a string",
            "10: log.level: expected a string, found the boolean true",
            "12: limits.burst: expected an integer, found a list",
        ],
    );
    check(
        "log = 3\n",
        &["1: log: expected a table, found the integer 3"],
    );
    check(
        "streams = [3]\n",
        &["1: streams[0]: expected a table, found the integer 3"],
    );
    check(
        "[streams]\nname = \"orders\"\n",
        &[
            "1: streams: expected a list of tables, found a table; write [[streams]] for each, or streams = [{ … }]",
        ],
    );
    check(
        "[[sinks]]\nname = \"a\"\nplugin = \"pool\"\nstreams = [\n  \"*\",\n  3,\n]\n",
        &["6: sinks[0].streams[1]: expected a string, found the integer 3"],
    );
}

#[test]
fn missing_keys_name_the_line_of_their_table() {
    check(
        "\n[[sinks]]\n\n[[connectors]]\nname = \"shop\"\n",
        &[
            "2: sinks[0].name: missing; expected a string",
            "2: sinks[0].plugin: missing; expected a string",
            "2: sinks[0].streams: missing; expected a list of strings",
            "4: connectors[0].kind: missing; expected \"ingest\" or \"webhook\"",
        ],
    );
}

#[test]
fn numbers_have_a_range() {
    check(
        r#"[limits]
max_body_bytes = 67_108_865
requests_per_second = 0
burst = -1
[runtime]
worker_threads = 1000
[[connectors]]
name = "shop"
kind = "ingest"
burst = 0
requests_per_second = 0
bytes_per_day = -1
bytes_per_second = 0
"#,
        &[
            "2: limits.max_body_bytes: 67108865 is out of range; expected 1 to 67108864",
            "3: limits.requests_per_second: 0 is out of range; expected 1 to 1000000000",
            "4: limits.burst: -1 is out of range; expected 1 to 1000000000",
            "6: runtime.worker_threads: 1000 is out of range; expected 0 to 256",
            "10: connectors[0].burst: 0 is out of range; expected 1 to 1000000000",
            "11: connectors[0].requests_per_second: 0 is out of range; expected 1 to 1000000000",
            "12: connectors[0].bytes_per_day: -1 is out of range; expected 0 to 8796093022208",
        ],
    );
    check("[limits]\nmax_body_bytes = 67108864\n", &[]);
}

#[test]
fn choices_name_the_nearest() {
    check(
        "[storage]\ndurability = \"fsnyc\"\n[log]\nformat = \"xml\"\n",
        &[
            r#"2: storage.durability: unknown value "fsnyc"; did you mean "fsync"?"#,
            r#"4: log.format: unknown value "xml"; expected "text" or "json""#,
        ],
    );
}

#[test]
fn syntax_errors_have_line_and_column() {
    check(
        "[server]\nlisten = \"127.0.0.1:8080\"\nshutdown_seconds = = 3\n",
        &["3:20: not valid TOML: extra `=`, expected nothing"],
    );
    check("[log]\n[log]\n", &["2:2: not valid TOML: duplicate key"]);
}

#[test]
fn a_file_that_is_no_toml_does_not_hide_the_problems_of_others() {
    let place = Place::with("[log]\nlevel = \"loud\"\n").file("config/default.toml", "x = \n");
    assert_eq!(
        place.problems(),
        "config/default.toml:1:5: not valid TOML: string values must be quoted, expected literal string\n\
         site.toml:2: log.level: unknown log level \"loud\"; known here: off, error, warn, info, debug, trace"
    );
}

#[test]
fn log_filters_have_known_levels() {
    check(
        "[log]\nlevel = \"info,headgate=debgu\"\n",
        &[r#"2: log.level: unknown log level "debgu"; did you mean "debug"?"#],
    );
    check(
        "[log]\nlevel = \"info,=debug\"\n",
        &[
            r#"2: log.level: bad filter "=debug"; expected a level, or target=level as in "info,headgate=debug""#,
        ],
    );
    check("[log]\nlevel = \"WARN, headgate::http=trace\"\n", &[]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    assert_eq!(
        Place::empty().config("gone.toml").problems(),
        "gone.toml: cannot be read: No such file or directory (os error 2)"
    );
    let place = Place::empty().file("config/default.toml/x", "");
    assert_eq!(
        place.problems(),
        "config/default.toml: cannot be read: Is a directory (os error 21)"
    );
}

#[test]
fn problems_of_all_sources_come_together_in_order() {
    let place = Place::with("[log]\nformat = \"jsn\"\n")
        .file(
            "config/default.toml",
            "[storage]\n\ndurability = \"o\"\nx = 1\n",
        )
        .var("HEADGATE_LIMITS__BURST", "0")
        .var("HEADGATE_ADMIN__LISTEN", "127.0.0.1:8080");
    assert_eq!(
        place.problems(),
        r#"config/default.toml:3: storage.durability: unknown value "o"; did you mean "os"?
config/default.toml:4: storage.x: unknown key; known here: engine, data_dir, durability, trust_clock, pool_mode, min_free_bytes, log_retention_days, log_retention_bytes, payload_retention_minutes, payload_retention_bytes, rejected_retention_minutes, rejected_retention_bytes
site.toml:2: log.format: unknown value "jsn"; did you mean "json"?
environment variable HEADGATE_ADMIN__LISTEN: admin.listen: "127.0.0.1:8080" collides with server.listen, "127.0.0.1:8080"; each needs its own address
environment variable HEADGATE_LIMITS__BURST: limits.burst: 0 is out of range; expected 1 to 1000000000"#
    );
}
