//! Samples hold what their presets look for, and pass once they are signed.

use serde_json::Value;

use super::{MOMENT, PUBLIC_KEYS, verifier, with_signed};
use crate::{Draft, Preset, Sample, Source, field, preset, presets};
use base::clock::Unix;

const ID: &str = "7f0c1e8a-3b7d-4a52";
const FORM: &str = "application/x-www-form-urlencoded";

/// The body as the pipeline reads it.
fn parsed(sample: &Sample) -> Value {
    let body = sample.fill(ID, MOMENT);
    if sample.content_type == FORM {
        let pairs = form_urlencoded::parse(body.as_bytes()).into_owned();
        return pairs
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
    }
    assert_eq!(sample.content_type, "application/json");
    serde_json::from_str(&body).expect(sample.event)
}

fn all() -> impl Iterator<Item = (&'static Preset, &'static Sample)> {
    let of = |preset: &'static Preset| preset.samples().iter().map(move |sample| (preset, sample));
    presets().iter().flat_map(of)
}

#[test]
fn whatever_is_signed_has_samples() {
    for preset in presets() {
        let samples = preset.samples();
        assert_eq!(samples.is_empty(), !preset.signed(), "{}", preset.name);
        let mut events: Vec<_> = samples.iter().map(|sample| sample.event).collect();
        events.sort_unstable();
        events.dedup();
        assert_eq!(events.len(), samples.len(), "{}", preset.name);
    }
    assert_eq!(all().count(), 62);
}

#[test]
fn samples_are_filled_and_name_their_items() {
    for (preset, sample) in all() {
        let name = format!("{} {}", preset.name, sample.event);
        let body = parsed(sample);
        for place in ["{id}", "{now", "\n}\n"] {
            assert!(!sample.fill(ID, MOMENT).contains(place), "{name}");
        }
        let items = preset.items.map_or(&body, |path| &body[path]);
        let items = items
            .as_array()
            .map_or(std::slice::from_ref(items), Vec::as_slice);
        assert!(!items.is_empty(), "{name}");
        let key = preset.item_key.filter(|key| *key != "@delivery");
        for item in items {
            let found = key.map(|key| field::at(item, key));
            assert!(found != Some(None), "{name}: {key:?}");
        }
    }
}

#[test]
fn signed_samples_pass_with_id_and_event() {
    for (preset, sample) in all() {
        if PUBLIC_KEYS.contains(&preset.name) {
            continue;
        }
        let name = format!("{} {}", preset.name, sample.event);
        let body = sample.fill(ID, MOMENT);
        let draft = Draft {
            method: "POST",
            url: "https://hooks.example.com/api/webhook/a/b",
            body: body.as_bytes(),
            content_type: sample.content_type,
            id: ID,
            event: sample.event,
            now: MOMENT,
        };
        let verifier = verifier(preset.name);
        let signed = verifier.sign(draft).expect(&name);
        with_signed(draft, &signed, |delivery| {
            let head = verifier.check_head(delivery.headers, delivery.now);
            assert_eq!(head, Ok(()), "{name}");
            assert_eq!(verifier.check(delivery), Ok(()), "{name}");
            assert!(matches!(verifier.handshake(delivery), Ok(None)), "{name}");
            let find = |source: &Source| {
                let found = source.find(delivery.headers, |path| field::of(delivery.body, path));
                found.expect(&name)
            };
            assert!(verifier.id().is_none_or(|id| find(id) == ID), "{name}");
            let event = verifier.event().map(find);
            assert!(event.is_none_or(|event| event == sample.event), "{name}");
        });
    }
}

#[test]
fn events_of_public_keys_stand_in_their_bodies() {
    for (name, path) in [
        ("discord", "event.type"),
        ("sns", "Type"),
        ("paypal", "event_type"),
    ] {
        let samples = preset(name).expect("a row").samples();
        let event = field::at(&parsed(&samples[0]), path);
        assert_eq!(event.as_deref(), Some(samples[0].event));
    }
}

#[test]
fn orders_of_shopify_are_one_order() {
    let samples = preset("shopify").expect("a row").samples();
    let events: Vec<_> = samples.iter().map(|sample| sample.event).collect();
    assert_eq!(
        events[..3],
        ["orders/create", "orders/updated", "orders/delete"]
    );
    let [create, updated, delete] = [0, 1, 2].map(|at: usize| parsed(&samples[at]));
    assert_eq!(delete, serde_json::json!({"id": create["id"]}));
    assert_eq!(updated["id"], create["id"]);
    for order in [&create, &updated] {
        assert_eq!(order["updated_at"], "2027-01-15T08:00:00Z");
        assert_eq!(order["created_at"], create["created_at"]);
    }
}

#[test]
fn what_an_id_holds_is_no_place() {
    let sample = Sample {
        event: "",
        body: "{id} {now} {now_s}\n",
        content_type: "",
    };
    let filled = sample.fill("{now}", MOMENT);
    assert_eq!(filled, "{now} 2027-01-15T08:00:00Z 1800000000");
    let end_of_time = sample.fill("a", Unix::MAX);
    assert!(end_of_time.starts_with("a 9999-12-31T23:59:59.999Z"));
}
