//! The schema, the structs and `default.toml` name the same settings; nothing that is written can cause a panic.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::super::schema::{Field, ROOT, Shape};
use super::super::{
    Admin, AdminToken, Connector, DEFAULT_TOML, DeleteWhen, Folder, Http, Key, Postgres, ReadKey,
    Role, Secret, Server, Settings, Sink, Stream, Tls, Verify, Wire, environment, explain, load,
    render_text,
};
use super::{FULL, Place};
use webhook::{Options, Timestamp};

/// Every path of the schema, with `[]` for elements.
fn schema_paths(path: &str, fields: &[Field], paths: &mut BTreeSet<String>) {
    for field in fields {
        let path = format!("{path}{}", field.name);
        match &field.shape {
            Shape::Table(fields) => schema_paths(&format!("{path}."), fields, paths),
            Shape::Tables(element) => schema_paths(&format!("{path}[]."), element.fields, paths),
            _ => {
                paths.insert(path);
            }
        }
    }
}

/// Every path of serialised settings, in the same form.
fn value_paths(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
    match value {
        // An empty object is a free table, and so are the options of presets.
        Value::Object(members) if !members.is_empty() && !path.ends_with(".verify.options") => {
            for (name, value) in members {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                value_paths(&path, value, paths);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for value in values {
                value_paths(&format!("{path}[]"), value, paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

/// A verification with all that can be set of one.
fn every_option() -> Verify {
    let text = || Some("x".to_owned());
    Verify {
        options: Options {
            algorithm: text(),
            signature: text(),
            unsigned_body: Some(true),
            options: [("api_key".to_owned(), "x".to_owned())].into(),
            scheme: "hmac".to_owned(),
            tolerance_seconds: Some(1),
            url: text(),
            answer: Some(200),
            header: text(),
            prefix: text(),
            separator: text(),
            signed: text(),
            hash: text(),
            encoding: text(),
            secret_encoding: text(),
            timestamp: Some(Timestamp {
                header: text(),
                part: text(),
                body: text(),
                unit: text(),
            }),
            id: text(),
            event: text(),
            topic: text(),
            webhook_id: text(),
            audience: text(),
            email: text(),
        },
        ..Verify::default()
    }
}

#[test]
fn the_schema_names_what_the_settings_have() {
    let tls = || Some(Tls::default());
    let settings = Settings {
        server: Server {
            tls: tls(),
            ..Server::default()
        },
        streams: vec![Stream {
            delete_when: Some(DeleteWhen::default()),
            ..Stream::default()
        }],
        connectors: vec![Connector {
            keys: vec![Key {
                secret: Some(Secret::new("x")),
                verify: Some(every_option()),
                ..Key::default()
            }],
            delete_when: Some(DeleteWhen::default()),
            ..Connector::default()
        }],
        admin: Admin {
            tokens: vec![AdminToken {
                secret: Some(Secret::new("x")),
                ..AdminToken::default()
            }],
            tls: tls(),
            ..Admin::default()
        },
        read_keys: vec![ReadKey::default()],
        sinks: vec![Sink {
            http: Some(Http::default()),
            postgres: Some(Postgres::default()),
            folder: Some(Folder::default()),
            wire: Some(Wire::default()),
            ..Sink::default()
        }],
        ..Settings::default()
    };
    let mut expected = BTreeSet::new();
    schema_paths("", ROOT, &mut expected);
    let mut found = BTreeSet::new();
    value_paths(
        "",
        &serde_json::to_value(settings).unwrap_or_default(),
        &mut found,
    );
    assert_eq!(found, expected);
}

#[test]
fn default_toml_shows_every_setting() {
    // Examples are commented out: what stands after "# " counts as well.
    let plain: Vec<&str> = DEFAULT_TOML
        .lines()
        .map(|line| line.trim_start_matches(['#', ' ']))
        .collect();
    let mut paths = BTreeSet::new();
    schema_paths("", ROOT, &mut paths);
    for path in paths {
        let name = path.rsplit('.').next().unwrap_or(&path);
        let assignment = format!("{name} = ");
        assert!(
            plain.iter().any(|line| line.contains(&assignment)),
            "{path}"
        );
    }
}

#[test]
fn the_examples_in_default_toml_are_sound() {
    // Uncommented, every example must load, but for files of certificates. What excludes another is commented out twice.
    let text: String = DEFAULT_TOML
        .lines()
        .filter(|line| !line.starts_with("# tls = "))
        .map(|line| {
            let example = line.strip_prefix("# ").filter(|rest| {
                rest.starts_with('[')
                    || rest.split_once(" = ").is_some_and(|(name, _)| {
                        name.bytes()
                            .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'2')
                    })
            });
            format!("{}\n", example.unwrap_or(line))
        })
        .collect();
    let place = Place::with(&text)
        .file("lobby-screen.key", "rk_live_0123456789abcdef")
        .var("GRAFANA_TOKEN", "at_0123456789abcdef01234567")
        .var("SHOP_KEY", "ik_live_0123456789abcdef")
        .var("TEAM_AUTHORIZATION", "Bearer 0123456789")
        .var("COLLECTOR_AUTHORIZATION", "Bearer 0123456789")
        .var("SIGNING_SECRET", "whsec_0123456789")
        .var("SHOP_DATABASE", "postgresql://shop:0123456789@db/shop");
    let settings = place.settings();
    assert_eq!(settings.connectors[0].keys[0].stream, "orders");
    assert_eq!(settings.read_keys[0].streams, ["orders"]);
    assert_eq!(settings.admin.tokens[0].role, Role::Metrics);
    assert_eq!(settings.sinks[..1], Settings::default().sinks);
    let http = settings.sinks[1].http.as_ref().expect("an example");
    assert_eq!(http.headers["authorization"].reveal(), "Bearer 0123456789");
    let emptied = Http {
        hosts: Vec::new(),
        networks: Vec::new(),
        headers: Default::default(),
        ..http.clone()
    };
    assert_eq!(emptied, Http::default(), "the example shows the defaults");
    let server = Server {
        public_url: None,
        ..settings.server
    };
    assert_eq!(server, Settings::default().server);
}

#[test]
fn every_choice_of_the_schema_loads() {
    fn check(path: &str, fields: &[Field]) {
        for field in fields {
            let path = format!("{path}.{}", field.name);
            match &field.shape {
                // A table inside of a section is one variable.
                Shape::Table(fields) if path.matches('.').count() == 1 => check(&path, fields),
                Shape::Choice(choices) => {
                    for choice in *choices {
                        let variable =
                            format!("HEADGATE{}", path.replace('.', "__").to_uppercase());
                        let variable = variable.replacen("HEADGATE__", "HEADGATE_", 1);
                        let urls = "postgres:///headgate";
                        let place = Place::empty().var("HEADGATE_CLUSTER__URLS", urls);
                        assert_eq!(place.var(&variable, choice).problems(), "");
                    }
                }
                _ => {}
            }
        }
    }
    check("", ROOT);
    for kind in ["ingest", "webhook"] {
        for on_update in ["replace", "merge"] {
            let text = FULL
                .replace("\"webhook\"", &format!("{kind:?}"))
                .replace("\"merge\"", &format!("{on_update:?}"));
            assert_eq!(Place::with(&text).problems(), "");
        }
    }
}

#[test]
fn limits_of_the_schema_fit_the_structs() {
    // Both ends of every range must deserialise, or the checker promises too much.
    for variable in environment::known_variables() {
        let Some((section, key)) = variable["HEADGATE_".len()..].split_once("__") else {
            continue;
        };
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        let section = ROOT
            .iter()
            .find(|field| field.name == section)
            .map(|field| &field.shape);
        let Some(Shape::Table(fields)) = section else {
            panic!("{variable} has no section");
        };
        if let Some(Shape::Integer(min, max)) = fields
            .iter()
            .find(|field| field.name == key)
            .map(|field| &field.shape)
        {
            for number in [min, max] {
                let place = Place::empty().var(&variable, &number.to_string());
                assert_eq!(place.problems(), "", "{variable}={number}");
            }
        }
    }
}

/// A mutation: where (of 10,000), how much is cut, what is put there.
fn mutations() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    let pieces = prop_oneof![
        Just(String::new()),
        Just("[".to_owned()),
        Just("\n[[streams]]\n".to_owned()),
        Just("\n[[connectors.keys]]\n".to_owned()),
        Just(" = { file = 3 }\n".to_owned()),
        Just("-1".to_owned()),
        Just("2030-01-31".to_owned()),
        Just("\"\\u0000\"".to_owned()),
        "[ -~]{0,8}",
        "\\PC{0,4}",
    ];
    prop::collection::vec((0..10_000usize, 0..40usize, pieces), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_file_never_panics(mutations in mutations()) {
        let mut text: Vec<char> = FULL.chars().collect();
        for (at, cut, piece) in mutations {
            let at = at * text.len() / 10_000;
            let end = (at + cut).min(text.len());
            text.splice(at..end, piece.chars());
        }
        let text: String = text.into_iter().collect();
        match load(&Place::with(&text).sources()) {
            Ok(loaded) => prop_assert!(!render_text(&explain(&loaded)).is_empty()),
            Err(problems) => {
                prop_assert!(!problems.0.is_empty());
                for problem in &problems.0 {
                    prop_assert!(!problem.message.contains("does not fit the settings"), "{text}\n{problem}");
                }
            }
        }
    }

    #[test]
    fn any_variable_never_panics(name in "(SERVER|ADMIN|STREAMS|SINKS|LOG|LIMITS)(__(LISTEN|TOKEN|BURST|LEVEL))?", value in "\\PC{0,20}|\\[\\{.{0,20}\\}\\]") {
        let place = Place::empty().var(&format!("HEADGATE_{name}"), &value);
        if let Err(problems) = load(&place.sources()) {
            for problem in &problems.0 {
                prop_assert!(!problem.message.contains("does not fit the settings"), "{problem}");
            }
        }
    }
}
