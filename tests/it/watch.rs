//! What watches a daemon: its metrics, the alert rules and the dashboard for them, and the guide's table of all.
//!
//! **Invariant**: nobody is told of a metric that a running daemon does not print, or of none that it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use observe::metrics::SINK_STATES;
use operate::ProblemKind;
use postgres::DatabaseCall;
use reqwest::Method;
use serde_json::{Value, json};

use crate::command_line::finish;
use crate::process::skipped;
use crate::program::output;
use crate::setup::Setup;
use crate::wait::eventually_async;

/// A metric as a daemon prints it: its type, and the values that each of its labels has.
type Printed = BTreeMap<String, (String, BTreeMap<String, BTreeSet<String>>)>;

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Everything that a daemon prints; counters end in `_total`.
async fn printed() -> Printed {
    let expected = Setup::shop().read_key("screen", &["orders"], "expect = true");
    let app = expected.start().await;
    app.caller("shop").ingest("{}").await.receipt();
    app.drain().await;
    // What plugins count comes and goes with them.
    let (plugins, sink) = (&app.parts.metrics.plugins, Arc::from("pool"));
    plugins.count(&sink, "rows", 1).expect("a name");
    plugins.set(&sink, "lag", 1.0).expect("a name");
    // Nodes of a cluster print how long each kind of call takes, from their start.
    for call in DatabaseCall::ALL {
        let _ = app.parts.metrics.postgres_call(call.as_str());
    }
    // What operators do to streams does so too.
    let held = "/api/admin/streams/orders/hold";
    let held = app.admin().send(Method::POST, held, &json!({})).await;
    assert_eq!(held.status, 202, "{}", held.text());
    let text = app.admin().get("/metrics").await.text();
    let mut printed = Printed::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            let end = if kind == "counter" { "_total" } else { "" };
            last = format!("{name}{end}");
            printed.insert(last.clone(), (kind.to_owned(), BTreeMap::new()));
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&last), "{line}");
            let (_, labels) = &mut printed.get_mut(&last).expect("its type came before");
            let inside = line
                .split_once('{')
                .and_then(|(_, rest)| rest.rsplit_once('}'));
            for label in inside.map_or("", |(inside, _)| inside).split(',') {
                if let Some((name, value)) = label.split_once('=')
                    && name != "le"
                {
                    let values = labels.entry(name.to_owned()).or_default();
                    values.insert(value.trim_matches('"').to_owned());
                }
            }
        }
    }
    printed
}

/// The names of metrics in an expression.
fn names(expression: &str) -> BTreeSet<String> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let words = expression.split(|byte| !is_part(byte));
    let own = words.filter(|word| word.starts_with("headgate_"));
    own.map(|word| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter();
        let base = of_histogram.filter_map(|end| word.strip_suffix(end)).next();
        base.unwrap_or(word).to_owned()
    })
    .collect()
}

/// The expressions of the rules.
fn rules() -> Vec<String> {
    let text = read("examples/deploy/prometheus/alerts.yml");
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let rules: Vec<String> = lines.map(str::to_owned).collect();
    assert!(rules.len() > 30, "{rules:#?}");
    rules
}

fn dashboard() -> Value {
    serde_json::from_str(&read("examples/deploy/grafana/headgate.json")).expect("JSON")
}

/// The expressions of the dashboard, with a value for each of Grafana's variables.
fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let annotations = dashboard["annotations"]["list"].as_array().expect("a list");
    let expressions = targets.flatten().chain(annotations);
    let expressions = expressions.map(|one| one["expr"].as_str().expect("an expression"));
    let known = [
        ("$__rate_interval", "1m"),
        ("$job", "headgate"),
        ("$instance", ".*"),
    ];
    let filled = expressions.map(|text| {
        let known = known.iter();
        let text = known.fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        });
        assert!(!text.contains('$'), "{text}");
        text
    });
    filled.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_guide_describes_every_metric_and_no_other() {
    let page = read("src/guide/watch.md");
    let mut described = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `headgate_")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, labels, _unit, meaning] = cells[..] else {
            panic!("not a row: {row}");
        };
        assert!(!meaning.is_empty(), "{row}");
        let name = name.trim_matches('`').to_owned();
        described.insert(name, (kind.to_owned(), labels.to_owned()));
    }
    let printed = printed().await;
    let names: Vec<_> = printed.keys().collect();
    assert_eq!(described.keys().collect::<Vec<_>>(), names);
    for (name, (kind, labels)) in &printed {
        let (described_kind, cell) = &described[name];
        assert_eq!(described_kind, kind, "{name}");
        let told: BTreeSet<&str> = cell.split('`').skip(1).step_by(2).collect();
        let mut expected: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
        // The values of the others are names that operators and plugins give.
        let fixed = ["outcome", "kind", "state", "listener", "call"];
        for label in fixed.iter().filter_map(|label| labels.get(*label)) {
            expected.extend(label.iter().map(String::as_str));
        }
        assert_eq!(told, expected, "{name}");
    }
    let states = &printed["headgate_sink_state"].1["state"];
    assert_eq!(*states, SINK_STATES.map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rules_and_dashboard_speak_of_metrics_that_a_daemon_prints() {
    let printed = printed().await;
    for expression in rules().iter().chain(&queries()) {
        let names = names(expression);
        assert!(
            !names.is_empty() || expression.contains("up{"),
            "{expression}"
        );
        for name in &names {
            let (_, labels) = printed
                .get(name)
                .unwrap_or_else(|| panic!("no daemon prints {name}: {expression}"));
            // Labels that select: `name="value"` or `name=~"value"`.
            for part in expression.split(['{', ',']).filter(|_| names.len() == 1) {
                let Some((label, value)) = part.split_once(['=', '!']) else {
                    continue;
                };
                let label = label.trim();
                if matches!(label, "job" | "instance") {
                    continue;
                }
                if label.bytes().all(|byte| byte.is_ascii_lowercase()) && value.contains('"') {
                    assert!(labels.contains_key(label), "{label}: {expression}");
                }
            }
        }
    }
    // The dashboard leaves out nothing.
    let shown: BTreeSet<String> = queries().iter().flat_map(|query| names(query)).collect();
    let missing: Vec<_> = printed
        .keys()
        .filter(|name| !shown.contains(*name))
        .collect();
    assert!(missing.is_empty(), "not on the dashboard: {missing:?}");
    let variables = dashboard()["templating"]["list"].clone();
    assert_eq!(variables[0]["type"], "datasource");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn there_is_a_rule_for_every_kind_of_problem() {
    let text = read("examples/deploy/prometheus/alerts.yml");
    let kinds = text.split("problem: ").skip(1);
    let kinds: BTreeSet<&str> = kinds
        .filter_map(|rest| rest.split_once(" }").map(|(kind, _)| kind))
        .collect();
    let all = ProblemKind::ALL.iter().map(|kind| kind.as_str());
    let all: BTreeSet<&str> = all.collect();
    assert_eq!(kinds, all);
    // And each is a number that is there from the start, so that an alert ends.
    let printed = printed().await;
    let counted = &printed["headgate_problems"].1["kind"];
    let old = ProblemKind::OLD_NAMES.map(|(name, _)| name);
    let names = all.into_iter().chain(old).map(str::to_owned);
    assert_eq!(*counted, names.collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_problem_is_counted_by_its_kind_as_long_as_it_is_there() {
    let setup = Setup::shop().sink("crm", "pool", "nothing", "");
    let app = setup.start().await;
    let none = app
        .admin()
        .metric("headgate_problems{kind=\"no_sink\"}")
        .await;
    let problems = app.admin().get("/api/admin/status").await.data();
    assert_eq!(none, 1.0, "{}", problems["problems"]);
    let all: f64 = {
        let text = app.admin().get("/metrics").await.text();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("headgate_problems{"))
            .filter(|line| !line.contains("\"strangers\""));
        lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    };
    let told = problems["problems"].as_array().expect("a list").len();
    assert_eq!(all, told as f64, "{}", problems["problems"]);
    let state = |state: &str| format!("headgate_sink_state{{sink=\"crm\",state=\"{state}\"}}");
    eventually_async("the sink runs", async || {
        (app.admin().metric(&state("running")).await == 1.0).then_some(())
    })
    .await;
    assert_eq!(app.admin().metric(&state("starting")).await, 0.0);
}

#[test]
fn promtool_accepts_rules_and_dashboard() {
    let test = "promtool_accepts_rules_and_dashboard";
    if output(Command::new("promtool").arg("--version")).is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "promtool is needed under CI"
        );
        skipped(test, "there is no promtool");
        return;
    }
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        let done = finish(command.args(arguments), "");
        assert_eq!(
            done.code,
            Some(0),
            "{arguments:?}\n{}{}",
            done.out,
            done.err
        );
        done
    };
    let rules = file("examples/deploy/prometheus/alerts.yml");
    let rules = rules.to_str().expect("a path");
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", rules]);
    let tests = rules.replace("alerts.yml", "alerts.test.yml");
    promtool(&["test", "rules", &tests]);

    // The dashboard's expressions as recording rules: promtool reads every one.
    let folder = tempfile::tempdir().expect("a folder");
    let queries = queries();
    let recorded = queries.iter().enumerate().map(
        |(number, query)| json!({"record": format!("dashboard:query:{number}"), "expr": query}),
    );
    let recorded: Vec<Value> = recorded.collect();
    let made = json!({"groups": [{"name": "dashboard", "rules": recorded}]});
    let path = folder.path().join("dashboard.yml");
    fs::write(&path, made.to_string()).expect("a file");
    let path = path.to_str().expect("a path");
    let done = promtool(&["check", "rules", path]);
    assert!(
        done.out.contains(&format!("{} rules found", queries.len())),
        "{}",
        done.out
    );
}

#[test]
fn every_rule_has_a_test_that_it_fires() {
    let read = |name: &str| read(&format!("examples/deploy/prometheus/{name}"));
    let (rules, tests) = (read("alerts.yml"), read("alerts.test.yml"));
    let alerts: BTreeSet<&str> = (rules.lines())
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let cases = tests.split("\n  - name: ").skip(1);
    let fired = cases.filter(|case| case.contains("exp_labels"));
    let fired: BTreeSet<&str> = fired.filter_map(|case| case.lines().next()).collect();
    assert_eq!(fired, alerts);
    let silent = tests.lines().filter(|line| line.contains("exp_alerts: []"));
    assert_eq!(silent.count(), alerts.len());
}
