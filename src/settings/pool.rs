//! The sink `pool`, which is there without anybody declaring it.
//!
//! Called by [`load`](super::load).
//!
//! **Invariant**: nothing but `[pool] enabled = false` keeps it from being among the sinks.

use super::Settings;
use super::merge::{Layer, Origins};
use super::routing_gaps;
use base::tree::{self, Data, Entry, Node};

/// What the sink and its origin are called.
pub(super) const NAME: &str = "pool";
const SOURCE: &str = "default";
/// What others change by its name.
const SINKS: &str = r#"[{ name = "pool", plugin = "pool", streams = ["*"] }]"#;
const EXCEPT: &str = "sinks[0].except";

/// The source before all others, whose sinks are `pool` alone, or none if one of the others says that it is not wanted.
/// If they declare it nevertheless it is there: which of the two is meant is a question for the validator.
pub(super) fn declared(layers: &[Layer]) -> Option<Layer> {
    let enabled = |layer: &Layer| match layer.node.get("pool")?.get("enabled")?.data {
        Data::Boolean(enabled) => Some(enabled),
        _ => None,
    };
    let named = |layer: &Layer| match layer.node.get("sinks").map(|sinks| &sinks.data) {
        Some(Data::List(sinks)) => sinks.iter().any(|sink| sink.name() == Some(NAME)),
        _ => false,
    };
    let is_wanted = layers.iter().rev().find_map(enabled) != Some(false);
    // An empty list is not nothing: without any, the settings' own default would count.
    let is_there = is_wanted || layers.iter().any(named);
    let sinks = tree::parse_value(if is_there { SINKS } else { "[]" }).ok()?;
    Some(Layer {
        rank: 0,
        source: SOURCE.into(),
        node: Node::bare(Data::Table(vec![Entry {
            name: "sinks".to_owned(),
            line: None,
            node: Node::bare(sinks),
        }])),
    })
}

/// What a filter writes in its place is the filter's, unless somebody says which streams are whose.
pub(super) fn leave_to_filters(settings: &mut Settings, origins: &mut Origins) {
    let untouched = origins
        .of("sinks[0].streams")
        .is_some_and(|origin| origin.source() == SOURCE);
    if !untouched || origins.of(EXCEPT).is_some() {
        return;
    }
    let Some((pool, others)) = settings.sinks.split_first_mut() else {
        return;
    };
    for (index, sink) in others.iter().enumerate() {
        if sink.plugin == routing_gaps::FILTER {
            origins.follow(EXCEPT, &format!("sinks[{}].streams", index + 1));
            pool.except.extend(sink.streams.iter().cloned());
        }
    }
}
