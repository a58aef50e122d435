//! `config show`: what is shown for each setting, and where it says that it came from.

use super::super::{DEFAULT_TOML, explain, render_json, render_text};
use super::{FULL, Place, default_origin};

fn shown(place: &Place) -> String {
    place.neutral(&render_text(&explain(&place.load())))
}

fn check(place: &Place, expected: &[&str]) {
    let text = shown(place);
    for line in expected {
        assert!(
            text.lines().any(|shown| shown == *line),
            "no line {line}\n{text}"
        );
    }
}

#[test]
fn every_setting_names_its_source() {
    let place = Place::with(FULL)
        .file("config/production.toml", "[log]\n\nlevel = \"warn\"\n")
        .var("HEADGATE_PROFILE", "production")
        .var("HEADGATE_LIMITS__BURST", "7");
    check(
        &place,
        &[
            r#"server.listen = "0.0.0.0:9000"    # site.toml:3"#,
            &format!(
                "server.shutdown_seconds = 30    # {}",
                default_origin("shutdown_seconds = ")
            ),
            r#"admin.token = "********"    # site.toml:6"#,
            r#"log.level = "warn"    # config/production.toml:3"#,
            r#"log.format = "json"    # built-in production.toml:5"#,
            r#"limits.burst = 7    # environment variable HEADGATE_LIMITS__BURST"#,
            r#"connectors[0].keys[0].secret = "********"    # site.toml:19"#,
            r#"connectors[0].keys[0].expires_at = "2030-01-31T00:00:00Z"    # site.toml:20"#,
            r#"sinks[0].streams = ["orders", "other-*"]    # site.toml:32"#,
            r#"sinks[0].retry.first_ms = 100    # site.toml:33"#,
            r#"sinks[0].retry.max_ms = 60000    # default"#,
        ],
    );
}

#[test]
fn references_to_secrets_are_shown_and_their_values_are_not() {
    let place = Place::with("[admin]\ntoken = { env = \"TOKEN\" }\n")
        .var("TOKEN", "012345678901234567890123");
    check(
        &place,
        &[r#"admin.token = { env = "TOKEN" }    # site.toml:2"#],
    );
    let place = Place::with("[admin]\ntoken = { file = \"token\" }\n");
    check(
        &place,
        &[r#"admin.token = { file = "DIR/token" }    # site.toml:2"#],
    );
    check(
        &Place::empty(),
        &[r#"admin.token = { file = "data/admin.token" }    # default"#],
    );
}

#[test]
fn a_copy_of_an_embedded_file_is_named_in_its_place() {
    let place = Place::empty().file("config/default.toml", DEFAULT_TOML);
    let origin = default_origin("listen = ").replace("built-in ", "config/");
    check(
        &place,
        &[
            &format!("server.listen = \"127.0.0.1:8080\"    # {origin}"),
            r#"log.level = "info,headgate=debug"    # built-in development.toml:4"#,
        ],
    );
}

#[test]
fn the_text_is_toml_and_says_the_same_as_the_json() {
    let place = Place::with("[[streams]]\nname = \"\\\"\\\\ \\u00adé\"\n");
    let rows = explain(&place.load());
    for row in &rows {
        let text = format!("value = {}", row.toml());
        let parsed = base::tree::parse(&text).map(|_| ());
        assert_eq!(parsed, Ok(()), "{text}");
    }
    let json = render_json(&rows);
    assert_eq!(json[0]["path"], "server.listen");
    assert_eq!(json[0]["value"], "127.0.0.1:8080");
    assert_eq!(json[0]["origin"], default_origin("listen = "));
    let stream = rows.iter().find(|row| row.path == "streams[0].name");
    assert_eq!(
        stream.map(super::super::Row::toml).as_deref(),
        Some("'\"\\ \u{ad}é'")
    );
    assert_eq!(
        json.as_array().map(Vec::len),
        Some(shown(&place).lines().count())
    );
}
