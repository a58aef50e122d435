//! `[cluster]`: what it needs, how its URLs can be given, and that none is shown.

use serde_json::json;

use super::super::{ClusterDurability, ClusterHints, Engine, Settings, explain, render_text};
use super::{Place, check};

#[test]
fn the_engine_postgres_needs_a_url() {
    check(
        "[storage]\nengine = \"postgres\"\n",
        &[
            "2: storage.engine: \"postgres\" requires the URL of the database; set cluster.urls = [\"postgresql://user:password@host:5432/database\"], or cluster.urls = { env = \"…\" }",
        ],
    );
    let text = "[storage]\nengine = \"postgres\"\n[cluster]\nurls = 3\n";
    check(
        text,
        &[
            "4: cluster.urls: expected a list of strings, a string, { file = \"…\" } or { env = \"…\" }, found the integer 3",
        ],
    );
    check("[cluster]\nurls = []\nsinks = false\n", &[]);
    let settings = Place::empty().settings();
    assert_eq!(settings.storage.engine, Engine::File);
    assert_eq!(settings.cluster.durability, ClusterDurability::Standby);
    assert_eq!(settings.cluster.hints, ClusterHints::Notify);
    assert!(!settings.cluster.node.is_empty());
    assert_eq!(Settings::default().cluster.urls(), Vec::<String>::new());
}

#[test]
fn urls_are_a_list_or_one_secret_with_several() {
    let both = [
        "postgres:///a?host=/run/postgresql",
        "postgresql://u:hush@b/a",
    ];
    let list = format!("[cluster]\nurls = [{:?}, {:?}]\n", both[0], both[1]);
    let text = format!("[cluster]\nurls = \"{} {}\"\n", both[0], both[1]);
    let file = "[cluster]\nurls = { file = \"urls\" }\n";
    let env = "[cluster]\nurls = { env = \"URLS\" }\n";
    let mixed = format!(
        "[cluster]\nurls = [{:?}, {{ env = \"SECOND\" }}]\n",
        both[0]
    );
    for config in [&*list, &text, file, env, &mixed] {
        let place = Place::with(config)
            .file("urls", &both.join("\n"))
            .var("URLS", &both.join("  "))
            .var("SECOND", both[1]);
        assert_eq!(place.settings().cluster.urls(), both, "{config}");
        let shown = render_text(&explain(&place.load()));
        assert!(
            !shown.contains("hush") && !shown.contains("/run/postgresql"),
            "{shown}"
        );
    }
    for variable in [both.join(" "), format!("{both:?}")] {
        let place = Place::with(env).var("HEADGATE_CLUSTER__URLS", &variable);
        assert_eq!(place.settings().cluster.urls(), both);
    }
    let rows = explain(&Place::with(&mixed).var("SECOND", both[1]).load());
    let row = rows.iter().find(|row| row.path == "cluster.urls");
    let value = &row.expect("a row").value;
    assert_eq!(*value, json!(["********", { "env": "SECOND" }]));
}

#[test]
fn what_is_wrong_with_a_url_is_told_without_it() {
    check(
        "[cluster]\nurls = [\n\"postgres:///a\",\n\"mysql://me:hush@b\"]\n",
        &["4: cluster.urls[1]: expected postgresql://user:password@host:5432/database"],
    );
    check(
        "[cluster]\nurls = \"postgres:///a b\"\n",
        &["2: cluster.urls: expected postgresql://user:password@host:5432/database"],
    );
    check(
        "[cluster]\nurls = { env = \"NONE_SUCH\" }\n",
        &["2: cluster.urls: the environment variable NONE_SUCH is not set"],
    );
    check(
        "[cluster]\nurls = [\n\"postgres:///a\", { evn = \"A\" }]\n",
        &["3: cluster.urls[1].evn: unknown key; did you mean \"env\"?"],
    );
}

#[test]
fn names_and_schemas_are_plain() {
    check(
        "[cluster]\nname = \"a b\"\nschema = \"Head\"\ncommit_wait_seconds = 0\n",
        &[
            "2: cluster.name: expected 1 to 63 letters, digits, `.`, `_` or `-`; found \"a b\"",
            "3: cluster.schema: expected 1 to 40 characters of a to z, 0 to 9 and _; found \"Head\"",
            "4: cluster.commit_wait_seconds: 0 is out of range; expected 1 to 300",
        ],
    );
    let settings = Place::with("[cluster]\nname = \"node-1\"\n").settings();
    assert_eq!(settings.cluster.node, "node-1");
}
