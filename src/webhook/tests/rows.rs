//! The table itself.

use std::collections::BTreeSet;

use crate::format::{Draft, resolve_all};
use crate::place::Place;
use crate::presets::FILES;
use crate::{KeyFields, Preset, PresetOrigin, preset, presets};

#[test]
fn every_embedded_file_is_a_preset() {
    let drafts: Vec<Draft> = FILES
        .iter()
        .map(|(name, text)| {
            Draft::parse(name, PresetOrigin::BuiltIn, text)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        })
        .collect();
    let all =
        resolve_all(&drafts, |_| None).unwrap_or_else(|(name, error)| panic!("{name}: {error}"));
    assert_eq!(all.len(), 114);
    assert_eq!(presets().len(), all.len());
}

#[test]
fn names_are_unique_and_found() {
    let names: BTreeSet<&str> = presets()
        .iter()
        .map(|preset| preset.name.as_str())
        .collect();
    assert_eq!(names.len(), presets().len());
    for name in names {
        assert_eq!(preset(name).map(|preset| preset.name.as_str()), Some(name));
    }
    assert!(preset("").is_none() && preset("GitHub").is_none());
}

#[test]
fn every_preset_is_complete() {
    for row in presets() {
        let name = &row.name;
        assert!(!row.title.is_empty(), "{name}");
        let keyed_tool = !row.signed() && row.setup.is_some();
        assert!(
            row.secret_hint.ends_with('.') || row.secret_hint.is_empty(),
            "{name}"
        );
        assert!(
            !row.secret_hint.is_empty() || !row.signed(),
            "{name} {keyed_tool}"
        );
        assert!(
            !row.samples.is_empty() || matches!(name.as_str(), "sns" | "paypal" | "pubsub"),
            "{name}"
        );
        for option in &row.options {
            assert!(option.hint.ends_with('.'), "{name}");
        }
        if row
            .item_key
            .as_ref()
            .is_some_and(|key| key.0 == [KeyFields::Delivery])
            && row.signed()
        {
            assert!(row.id.is_some(), "{name}");
        }
        if let Some(by_secret) = row.verify.as_ref().map(|verify| &verify.by_secret) {
            for (_, other) in by_secret {
                assert!(preset(other).is_some_and(Preset::signed), "{name}");
            }
        }
    }
}

fn names(of: impl Fn(&&Preset) -> bool) -> Vec<&'static str> {
    let all = presets().into_iter().filter(|preset| of(preset));
    all.map(|preset| preset.name.as_str()).collect()
}

#[test]
fn handshakes_ask_with_the_methods_of_the_design() {
    assert_eq!(
        names(|row| row.understands("GET")),
        [
            "meta", "x", "dropbox", "nylas", "okta", "strava", "whatsapp"
        ]
    );
    assert_eq!(names(|row| row.understands("HEAD")), ["trello"]);
    assert_eq!(
        names(|row| row.understands("OPTIONS")),
        ["eventgrid", "cloudevents"]
    );
    assert_eq!(
        names(|row| row.sends_secret().is_some()),
        ["notion", "asana"]
    );
    assert_eq!(names(|row| row.asks_for_word()), ["meta", "whatsapp"]);
}

#[test]
fn what_is_not_signed_and_what_is_not_retried_is_known() {
    assert_eq!(
        names(|row| !row.signed()),
        [
            "eventgrid",
            "cloudevents",
            "alertmanager",
            "fluentbit",
            "grafana",
            "headgate",
            "homeassistant",
            "make",
            "monday_board",
            "n8n",
            "nodered",
            "strava",
            "telegraf",
            "uptimekuma",
            "zapier"
        ]
    );
    assert_eq!(names(|row| !row.retries_4xx), ["zoom"]);
    assert_eq!(
        names(|row| row.replay_body),
        ["github", "shopify", "woocommerce"]
    );
    assert_eq!(names(|row| row.unsigned_event), ["shopify", "woocommerce"]);
    assert_eq!(
        names(|row| row.signed()
            && row.verify.as_ref().is_some_and(|verify| {
                verify
                    .signature
                    .iter()
                    .any(|place| matches!(place, Place::Item(_)))
            })),
        ["graph", "adyen"]
    );
}
