//! Tokens of the admin listener: merged by name, each with a name, a role and a secret of its own.

use super::Place;
use crate::{AdminToken, Role};

const GRAFANA: &str = "[[admin.tokens]]\nname = \"grafana\"\nrole = \"metrics\"\nsecret = \"grafana-0123456789abcdef\"\n";

fn tokens(place: Place) -> Vec<AdminToken> {
    place.settings().admin.tokens
}

#[test]
fn tokens_have_a_role_and_a_secret_or_its_digest() {
    let text = format!(
        "{GRAFANA}[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\nexpires_at = 2030-01-31T00:00:00Z\n\
         sha256 = \"9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\n"
    );
    let found = tokens(Place::with(&text));
    assert_eq!(found[0].role, Role::Metrics);
    assert_eq!((&*found[1].name, found[1].role), ("ops", Role::Operator));
    assert_eq!(found[1].expires_at.as_deref(), Some("2030-01-31T00:00:00Z"));
    assert!(found.iter().all(|token| token.digest().is_some()));
}

#[test]
fn a_later_source_adds_tokens_and_changes_what_it_names() {
    let more = r#"[{ name = "ops", role = "operator", secret = "operator-0123456789abcdef" }, { name = "grafana", role = "viewer" }]"#;
    let found = tokens(Place::with(GRAFANA).var("HEADGATE_ADMIN__TOKENS", more));
    let shown: Vec<_> = found
        .iter()
        .map(|token| (&*token.name, token.role))
        .collect();
    assert_eq!(shown, [("grafana", Role::Viewer), ("ops", Role::Operator)]);
    let secret = found[0].secret.as_ref().expect("the earlier one");
    assert_eq!(secret.reveal(), "grafana-0123456789abcdef");
}

#[test]
fn what_is_wrong_with_a_token_is_said_and_no_secret_with_it() {
    let check = |text: &str, says: &str| {
        let problems = Place::with(text).problems();
        assert!(problems.contains(says), "{text}: {problems}");
        assert!(!problems.contains("0123456789"), "{problems}");
    };
    let token = |lines: &str| format!("[[admin.tokens]]\n{lines}\n");
    let secret = "secret = \"grafana-0123456789abcdef\"";
    check(
        &token(&format!("name = \"a\"\n{secret}")),
        "admin.tokens[0].role: missing",
    );
    check(
        &token(&format!("role = \"viewer\"\n{secret}")),
        "admin.tokens[0].name: missing",
    );
    check(
        &token("name = \"a\"\nrole = \"viewer\""),
        "expected `secret`, `sha256` or `certificate`",
    );
    check(
        &token(&format!("name = \"a\"\nrole = \"root\"\n{secret}")),
        "\"viewer\"",
    );
    check(
        &token(&format!("name = \"admin\"\nrole = \"admin\"\n{secret}")),
        "is the name of admin.token",
    );
    check(
        &token("name = \"a\"\nrole = \"viewer\"\nsecret = \"short-0123456789\""),
        "at least 24 characters",
    );
    check(
        &token("name = \"a\"\nrole = \"viewer\"\nsha256 = \"short\""),
        "SHA-256 of the token",
    );
    check(
        &format!("{GRAFANA}{}", GRAFANA.replace("\"grafana\"", "\"other\"")),
        "the same token as admin.tokens[0] (\"grafana\")",
    );
    check(
        &format!("[admin]\ntoken = \"grafana-0123456789abcdef\"\n{GRAFANA}"),
        "the same token as admin.token;",
    );
}
