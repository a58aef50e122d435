//! The table itself.

use std::collections::BTreeSet;

use crate::{Place, Preset, Source, Way, preset, presets};

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<&str> = presets().iter().map(|preset| preset.name).collect();
    assert_eq!(names.len(), presets().len());
    for name in names {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{name}");
        assert_eq!(preset(name).map(|preset| preset.name), Some(name));
    }
    assert!(preset("").is_none() && preset("GitHub").is_none());
}

#[test]
fn every_row_is_complete() {
    for row in presets() {
        let name = row.name;
        assert!(!row.title.is_empty(), "{name}");
        assert!(row.secret_hint.ends_with('.'), "{name}");
        assert!([200, 202, 204].contains(&row.answer), "{name}");
        assert!(!row.event_in_item || is_header(row.event), "{name}");
        let own = matches!(name, "hmac" | "token");
        if row.signed() && !own {
            assert_ne!(row.signature, Source::Header(""), "{name}");
        }
        if row.way == Way::Signature && !own {
            assert!(!row.message.is_empty(), "{name}");
        }
        for detail in row.details {
            assert!(detail.hint.ends_with('.'), "{name}");
        }
        if row.item_key == Some("@delivery") {
            assert!(row.id.is_some(), "{name}");
        }
        if let Some(time) = row.timestamp
            && matches!(time.place, Place::Part(_))
        {
            assert!(row.separator.is_some(), "{name}");
        }
    }
}

fn is_header(source: Option<Source<&str>>) -> bool {
    matches!(source, Some(Source::Header(_) | Source::EitherHeader(..)))
}

fn names(of: impl Fn(&&Preset) -> bool) -> Vec<&'static str> {
    presets()
        .iter()
        .filter(of)
        .map(|preset| preset.name)
        .collect()
}

#[test]
fn handshakes_ask_with_the_methods_of_the_design() {
    assert_eq!(
        names(|row| row.methods() == ["GET"]),
        ["meta", "x", "dropbox"]
    );
    assert_eq!(names(|row| row.methods() == ["HEAD"]), ["trello"]);
    assert_eq!(
        names(|row| row.methods() == ["OPTIONS"]),
        ["eventgrid", "cloudevents"]
    );
    assert_eq!(names(|row| row.methods().len() > 1), [""; 0]);
}

#[test]
fn what_is_not_signed_and_what_is_not_retried_is_known() {
    assert_eq!(names(|row| !row.signed()), ["eventgrid", "cloudevents"]);
    assert_eq!(names(|row| !row.retries_4xx), ["zoom"]);
    assert_eq!(names(|row| row.items.is_some()), ["meta", "graph"]);
    assert_eq!(
        names(|row| !row.ignore.is_empty()),
        ["github", "bitbucket", "intercom"]
    );
    assert_eq!(
        names(|row| row.event_in_item),
        [
            "github",
            "gitlab",
            "shopify",
            "linear",
            "bitbucket",
            "sentry",
            "woocommerce"
        ]
    );
}
