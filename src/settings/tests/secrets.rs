//! Where secrets come from, and that they are shown nowhere.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::super::{Connector, Patch, Stream, explain, load, render_json, render_text};
use super::{FULL, Place};

const KEY: &str = "ik_live_0123456789canary";

/// A key whose secret is given in this way.
fn site(secret: &str) -> String {
    format!(
        "[[streams]]\nname = \"orders\"\n[[connectors]]\nname = \"shop\"\nkind = \"ingest\"\n[[connectors.keys]]\nname = \"main\"\nstream = \"orders\"\nsecret = {secret}\n"
    )
}

fn revealed(place: &Place) -> String {
    let settings = place.settings();
    let secret = settings.connectors[0].keys[0].secret.as_ref();
    secret
        .map(|secret| secret.reveal().to_owned())
        .unwrap_or_default()
}

#[test]
fn secrets_come_as_text_from_files_and_from_variables() {
    assert_eq!(revealed(&Place::with(&site(&format!("{KEY:?}")))), KEY);
    let file = Place::empty()
        .file("etc/site.toml", &site("{ file = \"keys/shop\" }"))
        .file("etc/keys/shop", &format!("{KEY}\n"))
        .config("etc/site.toml");
    assert_eq!(revealed(&file), KEY);
    let variable = Place::with(&site("{ env = \"SHOP_KEY\" }")).var("SHOP_KEY", KEY);
    assert_eq!(revealed(&variable), KEY);
    // A variable that a secret names is no misspelt setting.
    let own = Place::with(&site("{ env = \"HEADGATE_SHOP_KEY\" }")).var("HEADGATE_SHOP_KEY", KEY);
    assert_eq!(revealed(&own), KEY);
}

#[test]
fn the_digest_is_that_of_the_key() {
    let settings = Place::with(FULL).settings();
    let [first, second] = settings.connectors[0].keys.as_slice() else {
        panic!("two keys");
    };
    let hex = |digest: Option<[u8; 32]>| digest.map(|bytes| base::text::hex(&bytes));
    assert_eq!(
        hex(first.digest()).as_deref(),
        Some("9b7dbf589fa75591d653cfba561852e21c372ae83b3f9832bd750dc7c07483c3")
    );
    assert_eq!(hex(second.digest()), second.sha256);
}

#[test]
fn digests_are_lowercase_once_loaded() {
    let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let settings = Place::with(&FULL.replace(sha256, &sha256.to_uppercase())).settings();
    assert_eq!(
        settings.connectors[0].keys[1].sha256.as_deref(),
        Some(sha256)
    );
}

#[test]
fn secrets_that_cannot_be_read_are_problems() {
    let check = |secret: &str, expected: &str| {
        let place = Place::with(&site(secret))
            .file("empty", "\n")
            .file("folder/x", "")
            .var("EMPTY", "");
        assert_eq!(
            place.problems(),
            format!("site.toml:9: connectors[0].keys[0].secret{expected}")
        );
    };
    check(
        "{ file = \"gone\" }",
        ": the secret file DIR/gone does not exist",
    );
    check(
        "{ file = \"folder\" }",
        ": the secret file DIR/folder cannot be read: Is a directory (os error 21)",
    );
    check("{ file = \"empty\" }", ": the secret is empty");
    check(
        "{ env = \"GONE\" }",
        ": the environment variable GONE is not set",
    );
    check("{ env = \"EMPTY\" }", ": the secret is empty");
    check("\"\"", ": the secret is empty");
    check("{}", ": expected either `file` or `env`");
    check(
        "{ file = \"a\", env = \"b\" }",
        ": expected either `file` or `env`",
    );
    check(
        "{ fil = \"a\" }",
        ".fil: unknown key; did you mean \"file\"?",
    );
    check(
        "{ file = 3 }",
        ".file: expected a string, found the integer 3",
    );
    check("{ file = \"\" }", ".file: expected a path");
    check(
        "{ env = \"A=B\" }",
        ".env: expected the name of an environment variable",
    );
    check(
        "{ env = \"ik_live_canary\" }",
        ".env: expected the name of an environment variable, found a key",
    );
}

#[test]
fn the_admin_token_may_be_absent() {
    let token_file = |place: &Place| {
        let admin = place.settings().admin;
        assert_eq!(admin.token, None);
        place.neutral(&admin.token_file.display().to_string())
    };
    assert_eq!(token_file(&Place::empty()), "data/admin.token");
    let elsewhere = Place::empty().var("HEADGATE_STORAGE__DATA_DIR", "/srv/headgate");
    assert_eq!(token_file(&elsewhere), "/srv/headgate/admin.token");
    let named = Place::with("[admin]\ntoken = { file = \"admin.token\" }\n");
    assert_eq!(token_file(&named), "DIR/admin.token");
    let present = named.file("admin.token", "0123456789abcdef01234567\n");
    let token = present.settings().admin.token;
    assert_eq!(
        token.map(|token| token.reveal().to_owned()).as_deref(),
        Some("0123456789abcdef01234567")
    );
}

#[test]
fn a_later_secret_replaces_an_earlier_one_of_another_form() {
    let place = Place::with("[admin]\ntoken = { env = \"TOKEN\" }\n")
        .file(
            "config/default.toml",
            "[admin]\ntoken = { file = \"gone\" }\n",
        )
        .var("TOKEN", "the-token-from-the-variable");
    let token = place.settings().admin.token;
    assert_eq!(
        token.map(|token| token.reveal().to_owned()).as_deref(),
        Some("the-token-from-the-variable")
    );
}

#[test]
fn a_secret_file_that_everybody_can_read_is_a_warning() {
    let place = Place::with(&site("{ file = \"key\" }")).file("key", KEY);
    let mode = |mode| {
        std::fs::set_permissions(place.path().join("key"), Permissions::from_mode(mode))
            .expect("a mode");
        place.warnings()
    };
    assert_eq!(
        mode(0o644),
        [
            "site.toml:9: connectors[0].keys[0].secret: every user of this machine can read DIR/key; chmod 600 DIR/key"
        ]
    );
    assert_eq!(mode(0o600), Vec::<String>::new());
}

#[test]
fn a_configuration_that_others_can_read_and_that_holds_secrets_is_a_warning() {
    let check = |site: &str, mode: u32, expected: &[&str]| {
        let place = Place::with(site).file("key", KEY).var("SHOP_KEY", KEY);
        let file = place.path().join("site.toml");
        std::fs::set_permissions(file, Permissions::from_mode(mode)).expect("a mode");
        assert_eq!(place.warnings(), expected, "{site} {mode:o}");
    };
    let warning = "site.toml: it holds secrets, and every user of this machine can read DIR/site.toml; chmod 600 DIR/site.toml, or name them with { file = \"…\" } or { env = \"…\" }";
    check(&site(&format!("{KEY:?}")), 0o644, &[warning]);
    check(&site(&format!("{KEY:?}")), 0o600, &[]);
    check(&site("{ file = \"key\" }"), 0o644, &[]);
    check(&site("{ env = \"SHOP_KEY\" }"), 0o644, &[]);
    let sink = |config: &str| {
        format!(
            "[[sinks]]\nname = \"a\"\nplugin = \"http-forward\"\nstreams = [\"*\"]\nconfig = {config}\n"
        )
    };
    check(
        &sink("{ url = \"https://me:hush@a.example\" }"),
        0o644,
        &[warning],
    );
    check(&sink("{ url = \"https://a.example\" }"), 0o644, &[]);
}

#[test]
fn secrets_in_the_settings_of_a_plugin_are_masked_and_named() {
    let sink = |config: &str| {
        format!(
            "[[sinks]]\nname = \"a\"\nplugin = \"http-forward\"\nstreams = [\"*\"]\nconfig = {config}\n"
        )
    };
    let place = Place::with(&sink(
        "{ url = \"https://me:canary-1@a.example/?token=canary-2\", headers = { X-Api-Key = \"canary-3\", x-team = \"blue\" } }",
    ));
    let rows = explain(&place.load());
    for shown in [render_text(&rows), render_json(&rows).to_string()] {
        assert!(
            shown.contains("x-team") && shown.contains("blue"),
            "{shown}"
        );
        assert!(shown.contains("https://me:********@a.example"), "{shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }
    assert_eq!(
        place.warnings(),
        [
            "site.toml:5: sinks[0].config.headers.X-Api-Key: its name is that of a secret, and the plugin reads it; `http.headers` and `secrets` of the sink keep secrets in files and variables"
        ]
    );
    let problems = Place::with(&sink(
        "{ url = \"https://a.example\", headers = { Authorization = \"Bearer canary\" } }",
    ))
    .problems();
    assert!(
        problems.starts_with(
            "site.toml:5: sinks[0].config.headers.Authorization: a secret is not allowed in `config`"
        ),
        "{problems}"
    );
    assert!(
        problems.contains("http.headers") && !problems.contains("canary"),
        "{problems}"
    );
}

#[test]
fn what_is_wrong_with_a_url_is_said_without_its_password() {
    for (setting, text) in [
        ("[server]\npublic_url = ", "https://me:canary@a.example/"),
        ("[server]\nlisten = ", "http://me:canary@a.example"),
        ("[live]\norigins = ", "[\"https://me:canary@a.example/\"]"),
    ] {
        let text = match text.starts_with('[') {
            true => text.to_owned(),
            false => format!("{text:?}"),
        };
        let problems = Place::with(&format!("{setting}{text}\n")).problems();
        assert!(
            problems.contains("me:********@a.example") && !problems.contains("canary"),
            "{problems}"
        );
    }
    let sink = "[[sinks]]\nname = \"a\"\nplugin = \"pool\"\nstreams = [\"*\"]\nhttp = { hosts = [\"https://me:canary@a.example\"] }\n";
    let problems = Place::with(sink).problems();
    assert!(
        problems.contains("is not a host") && !problems.contains("canary"),
        "{problems}"
    );
}

#[test]
fn nothing_shows_a_secret() {
    let clean = |text: &str| assert!(!text.contains("canary"), "{text}");
    // In every form, loaded.
    let forms = [
        format!("{KEY:?}"),
        "{ file = \"key\" }".to_owned(),
        "{ env = \"SHOP_KEY\" }".to_owned(),
    ];
    for form in forms {
        let place = Place::with(&site(&form))
            .file("key", KEY)
            .var("SHOP_KEY", KEY)
            .var("HEADGATE_ADMIN__TOKEN", "admin-canary-0123456789ab");
        let loaded = place.load();
        clean(&format!("{loaded:?}"));
        clean(&format!("{:?}", loaded.settings));
        let rows = explain(&loaded);
        clean(&render_text(&rows));
        clean(&render_json(&rows).to_string());
        clean(&serde_json::to_string(&loaded.settings).unwrap_or_default());
        clean(&place.warnings().join("\n"));
    }
    // Every way to get it wrong.
    let mistaken = [
        site("\"canary\""),
        site("\"rk_live_canary_0123456789abcdef\""),
        site("\"ik_live_canary 0123456789abcdef\""),
        site("[\"ik_live_canary_0123456789abcdef\"]"),
        site("{ env = \"ik_live_canary_0123456789\" }"),
        site("{ value = \"ik_live_canary_0123456789\" }"),
        site("\"ik_live_canary_0123456789abcdef"),
        site("ik_live_canary_0123456789abcdef"),
        site(&format!("{KEY:?}")).replace("\nstream = \"orders\"", &format!("\nstream = {KEY:?}")),
        site(&format!("{KEY:?}")).replace("\"ingest\"", &format!("{KEY:?}")),
        site(&format!("{KEY:?}\n{KEY} = 3")),
        site(&format!("{KEY:?}\nexpires_at = {KEY:?}")),
        site(&format!("{KEY:?}\n[server]\nlisten = {KEY:?}")),
        site(&format!("{KEY:?}\nsecrte = {KEY:?}\nstraem = {KEY:?}")),
        site(&format!("{KEY:?}\nsha256 = {KEY:?}")),
        site(&format!(
            "{KEY:?}\n[[connectors.keys]]\nname = \"b\"\nstream = \"orders\"\nsecret = {KEY:?}"
        )),
        site("\"ik_live_0123456789abcdef\"\n[admin]\ntoken = \"canary token\""),
    ];
    for site in mistaken {
        let Err(problems) = load(&Place::with(&site).sources()) else {
            panic!("accepted: {site}");
        };
        clean(&problems.to_string());
        clean(&format!("{problems:?}"));
    }
    let variables = [
        ("HEADGATE_ADMIN__TOKEN", "{ file = canary"),
        ("HEADGATE_ADMIN__TOKN", "canary"),
        ("HEADGATE_CONNECTORS", "[{ keys = [{ secret = canary }] }]"),
        ("HEADGATE_READ_KEYS", "\"canary\""),
    ];
    for (name, value) in variables {
        let Err(problems) = load(&Place::empty().var(name, value).sources()) else {
            panic!("accepted: {name}");
        };
        clean(&problems.to_string());
    }
}

#[test]
fn headers_of_sinks_are_secrets() {
    let site = |headers: &str| {
        format!(
            "[[sinks]]\nname = \"a\"\nplugin = \"pool\"\nstreams = [\"*\"]\n[sinks.http]\nhosts = [\"https://a.example\", \"http://b.example\"]\nheaders = {headers}\n"
        )
    };
    let headers = "{ Authorization = { file = \"key\" }, x-team = \"team canary\", x-env = { env = \"HEADGATE_TEAM\" } }";
    let place = Place::with(&site(headers))
        .file("key", "Bearer canary\n")
        .var("HEADGATE_TEAM", "blue canary");
    let loaded = place.load();
    let http = loaded.settings.sinks[1].http.as_ref().expect("a table");
    let values: Vec<&str> = http.headers.values().map(|one| one.reveal()).collect();
    assert_eq!(values, ["Bearer canary", "blue canary", "team canary"]);
    let rows = explain(&loaded);
    for shown in [
        render_text(&rows),
        render_json(&rows).to_string(),
        format!("{loaded:?}"),
    ] {
        assert!(
            shown.contains("x-team") && !shown.contains("canary"),
            "{shown}"
        );
    }
    let warnings = place.warnings().join("\n");
    assert!(
        warnings.contains("also sent to http://b.example, without encryption"),
        "{warnings}"
    );

    for (headers, words) in [
        (
            "{ Host = \"canary\" }",
            "sinks[0].http.headers.Host: the daemon sets this header for each request; remove it",
        ),
        ("{ \"a b\" = \"canary\" }", "is not the name of a header"),
        ("{ a = 3 }", "sinks[0].http.headers.a: expected a string"),
        ("{ a = { fil = \"canary\" } }", "did you mean \"file\"?"),
        ("{ a = { env = \"NOT_SET\" } }", "NOT_SET is not set"),
        ("{ a = \"canary\\r\\nb: c\" }", "visible ASCII"),
        ("\"canary\"", "expected a table"),
    ] {
        let problems = Place::with(&site(headers)).problems();
        assert!(
            problems.contains(words) && !problems.contains("canary"),
            "{headers}: {problems}"
        );
    }
}

#[test]
fn a_key_in_place_of_a_removal_field_is_refused_in_a_file_and_in_a_body() {
    let rows = [
        ("streams", Stream::FIELDS),
        ("connectors", Connector::FIELDS),
    ];
    for (list, fields) in rows {
        for key in [KEY, "ik_test_01", "rk_live_01", "ok_live_01"] {
            let file = format!(
                "[[{list}]]\nname = \"a\"\nkind = \"ingest\"\ndelete_when = {{ field = {key:?}, is = [\"x\"] }}\n"
            );
            let file = match list {
                "streams" => file.replace("kind = \"ingest\"\n", "\n"),
                _ => file,
            };
            let said = Place::with(&file).problems();
            let expected = format!(
                "4: {list}[0].delete_when.field: expected the name of a field, found text that looks like a key"
            );
            assert!(said.contains(&expected), "{key}: {said}");
            assert!(!said.contains(key), "{said}");

            let body = json!({"delete_when": {"field": key, "is": ["x"]}});
            let Value::Object(body) = body else {
                unreachable!()
            };
            let faults = Patch::of_change(fields, body).expect_err("it is refused");
            let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let expected = "delete_when.field begins like a secret";
            assert!(said[0].starts_with(expected), "{key}: {said:?}");
            assert!(!said.concat().contains(key), "{said:?}");
        }
        // The name of a field can begin in a similar way.
        let file = format!(
            "[[{list}]]\nname = \"a\"\n{}delete_when = {{ field = \"at_home\", is = [\"x\"] }}\n",
            if list == "connectors" {
                "kind = \"ingest\"\n"
            } else {
                ""
            }
        );
        assert_eq!(Place::with(&file).problems(), "");
    }
}
