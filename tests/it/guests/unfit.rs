//! Settings that a built-in plugin does not take: `check` names them, and neither a start nor a reload takes them.

use std::path::Path;

use crate::command_line::{Done, run};
use crate::process::BY_ID;
use crate::setup::Setup;
use crate::wait::eventually;

/// The sink `hostile` of a plugin, with its settings in a line of their own.
fn sink(plugin: &str, config: &str) -> Setup {
    let more = format!(
        "http = {{ hosts = [\"https://a.example\"] }}\npostgres = {{ url = \"postgresql://a@a.example/a\" }}\nconfig = {config}\n"
    );
    Setup::with_streams(&["hostile"])
        .compiling()
        .sink("hostile", plugin, "hostile", &more)
}

fn check(setup: &Setup) -> Done {
    setup.write();
    run(&setup.path(""), ["check", "--config", "headgate.toml"])
}

/// The number of the line that begins like this.
fn line_of(file: &Path, begins: &str) -> usize {
    let text = std::fs::read_to_string(file).expect("a file");
    let place = text.lines().position(|line| line.starts_with(begins));
    place.expect("a line") + 1
}

#[test]
fn settings_of_each_built_in_plugin_are_checked_before_a_start() {
    let own = "{ url = \"https://me:hush-hush@a.example/in\" }";
    let headers = "they belong into `http.headers`";
    for (plugin, config, place, says) in [
        ("http-forward", own, "config.url", headers),
        ("webhook", own, "config.url", headers),
        (
            "influx",
            "{ url = \"https://me:hush-hush@a.example\", db = \"a\" }",
            "config.url",
            headers,
        ),
        (
            "influx",
            "{ url = \"https://a.example\", db = \"a\", bucket = \"b\" }",
            "config",
            "either `db`, or `bucket` and `org`",
        ),
        (
            "influx",
            "{ url = \"https://a.example\", db = \"a\", measurement = \"#a\" }",
            "config.measurement",
            "does not match",
        ),
        (
            "influx",
            "{ url = \"https://a.example\", org = \"a\" }",
            "config",
            "bucket",
        ),
        ("postgres", "{ }", "config", "either `table` or `sql`"),
        (
            "postgres",
            "{ table = \"t\", sql = \"SELECT 1\" }",
            "config",
            "either `table` or `sql`",
        ),
        (
            "postgres",
            "{ table = \"t\", key = [\"a\"], columns = [{ name = \"a\", type = \"int); DROP TABLE x\" }] }",
            "config.columns[0].type",
            "does not match",
        ),
        (
            "filter-map",
            "{ rules = [{ drop = 1 }] }",
            "config.rules[0].drop",
            "boolean",
        ),
        ("pool", "{ a = 1 }", "config", "takes no settings"),
    ] {
        let setup = sink(plugin, config);
        let told = check(&setup).failed(2);
        let line = line_of(&setup.path("headgate.toml"), "config = ");
        let named = format!("headgate.toml:{line}");
        assert!(
            told.contains(&named) && told.contains(says),
            "{named}: {told}"
        );
        assert!(told.contains(&format!("sinks[0].{place}: ")), "{told}");
        let ended = setup.try_spawn().expect_err("it starts with {config}");
        assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
        assert!(ended.log.contains(says), "{}", ended.log);
        assert!(!format!("{told}{}", ended.log).contains("hush"), "{told}");
        assert!(!setup.data_dir().exists(), "nothing was made");
    }
}

#[test]
fn a_reload_with_settings_that_do_not_fit_changes_nothing() {
    let good = "config = { rules = [] }";
    let mut setup = sink("filter-map", "{ rules = [] }");
    let process = setup.spawn();
    process.sink_becomes("hostile", "running", |sink| sink["state"] == "running");
    let bad = "config = { rules = [{ drop = 1 }] }";
    setup.change(good, bad);
    eventually("the problem is shown", || {
        let problems = process.problems();
        let says = ["sinks[0].config.rules[0].drop", "boolean"];
        says.iter()
            .all(|words| problems.contains(words))
            .then_some(())
    });
    process.processed("hostile", BY_ID, r#"{"id": "a"}"#);
    setup.change(bad, good);
    eventually("it is gone", || {
        let problems = process.problems();
        (!problems.contains("sinks[0]")).then_some(())
    });
    process.stop();
}
