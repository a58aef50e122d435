//! Unit tests of `redact.rs`.

use super::*;
use settings::{Http, Postgres, Sink};

#[test]
fn secrets_are_covered_whole_cut_off_and_next_to_each_other() {
    let secret = |text: &str| Secret::new(text);
    let http = Http {
        headers: [
            (
                "authorization".to_owned(),
                secret("Bearer the-long-token-of-it"),
            ),
            ("x-short".to_owned(), secret("abc")),
        ]
        .into(),
        ..Http::default()
    };
    let postgres = Postgres {
        url: secret("postgresql://me:pass:w@rd@db/x"),
        ..Postgres::default()
    };
    let sink = Sink {
        http: Some(http),
        postgres: Some(postgres),
        secrets: [("signing".to_owned(), secret("größe-und-länge-zählen"))].into(),
        config: serde_json::json!({
            "url": "https://me:in-a-url@a.example/",
            "headers": {"x-api-key": "in-a-header", "x-team": "blue team"},
        }),
        ..Sink::default()
    };
    let redactor = Redactor::of(&sink);
    let check = |text: &str, expected: &str| {
        assert_eq!(redactor.redact(text.to_owned()), expected, "{text}");
    };
    check("Bearer the-long-token-of-it.", "Bearer ********.");
    check("the-long-token-of", "********");
    check(
        "the-long-token-of-itthe-long-token-of-it",
        "****************",
    );
    check("the-long-", "the-long-");
    check("größe-und-länge-zä", "********");
    check("at postgresql://me:pass:w@rd@db/x", "at ********");
    check("no password pass:w@rd", "no password ********");
    check(
        "me:in-a-url@a and in-a-header",
        "me:********@a and ********",
    );
    check("blue team", "blue team");
    check("abc Bearer größe", "abc Bearer größe");
    assert_eq!(format!("{redactor:?}"), "Redactor(6)");
}
