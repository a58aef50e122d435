//! Unit tests of `docs/search.rs`.

use serde_json::json;

use super::*;
use guide::Section;

#[test]
fn a_hit_has_every_word_in_any_case_and_titles_come_first() {
    const fn section(anchor: &'static str, heading: &'static str, text: &'static str) -> Section {
        let level = if anchor.is_empty() { 1 } else { 2 };
        Section {
            anchor,
            level,
            heading,
            text,
        }
    }
    let pages = [GuidePage {
        name: "send",
        html: "",
        sections: &const {
            [
                section("", "Send", "Bodies <and> Ärger.\n"),
                section("retries", "Retries", "An idempotency key.\n"),
                section("keys", "Keys", "Retries, too: idempotency.\n"),
            ]
        },
    }];
    let document =
        json!({"paths": {"/a": {"get": {"operationId": "get_a", "summary": "Get a retry"}}}});
    let found = |query: &str| results(query, &pages, &document).into_string();
    let retries = found("RETRIES idempotency");
    let titled = retries.find("/docs/send#retries").expect("a hit");
    let other = retries.find("/docs/send#keys").expect("a hit");
    assert!(titled < other, "{retries}");
    assert!(retries.contains("Send: <mark>Retries</mark>"), "{retries}");
    assert!(found("retry").contains("/docs/api#get_a"));
    assert!(found("ÄRGER").contains("&lt;and&gt; <mark>Ärger</mark>"));
    for nothing in ["retries elephant", "<script>"] {
        assert!(found(nothing).contains("No results for"), "{nothing}");
    }
    // Without words, every place matches.
    assert_eq!(found(" ").matches("<li>").count(), 4);
}
