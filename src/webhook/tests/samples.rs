//! Samples hold what their presets look for.

use serde_json::Value;

use super::MOMENT;
use crate::{Preset, Sample, preset, presets};
use base::clock::Unix;

const ID: &str = "7f0c1e8a-3b7d-4a52";

fn parsed(sample: &Sample) -> Value {
    serde_json::from_str(&sample.fill(ID, MOMENT)).expect(&sample.event)
}

fn all() -> impl Iterator<Item = (&'static Preset, &'static Sample)> {
    let of = |preset: &'static Preset| preset.samples.iter().map(move |sample| (preset, sample));
    presets().into_iter().flat_map(of)
}

#[test]
fn events_of_samples_are_unique() {
    for preset in presets() {
        let mut events: Vec<_> = preset.samples.iter().map(|sample| &sample.event).collect();
        events.sort_unstable();
        events.dedup();
        assert_eq!(events.len(), preset.samples.len(), "{}", preset.name);
    }
}

#[test]
fn samples_are_filled() {
    for (preset, sample) in all() {
        for place in ["{id}", "{now", "\n}\n"] {
            assert!(
                !sample.fill(ID, MOMENT).contains(place),
                "{} {}",
                preset.name,
                sample.event
            );
        }
    }
}

#[test]
fn orders_of_shopify_are_one_order() {
    let samples = &preset("shopify").expect("a row").samples;
    let events: Vec<_> = samples.iter().map(|sample| sample.event.as_str()).collect();
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
        body: "{id} {now} {now_s}\n".to_owned(),
        ..preset("github").expect("a row").samples[0].clone()
    };
    let filled = sample.fill("{now}", MOMENT);
    assert_eq!(filled, "{now} 2027-01-15T08:00:00Z 1800000000");
    let end_of_time = sample.fill("a", Unix::MAX);
    assert!(end_of_time.starts_with("a 9999-12-31T23:59:59.999Z"));
}
