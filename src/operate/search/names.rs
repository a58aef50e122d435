//! The names: streams, connectors, keys, read keys, sinks.
//!
//! **Invariant**: the order is that of the places, which stay the same whatever is created or deleted.

use super::SearchHit;
use crate::Operator;
use base::text::percent_encoded;

/// All objects whose name contains the text, in any letter case, each with its place in the order: exact matches are
/// first.
pub(super) fn found(operator: &Operator, text: &str) -> Vec<(String, SearchHit)> {
    let wanted = text.to_lowercase();
    let has = |name: &str| name.to_lowercase().contains(&wanted);
    let mut found = Vec::new();
    let mut add = |order: u8, hit: SearchHit| {
        let exact = u8::from(hit.key != text);
        let place = format!("{exact}{order}{}\n{}", hit.key, hit.title);
        found.push((place, hit));
    };
    let catalog = &operator.catalog;
    for stream in catalog.streams().iter().filter(|one| has(&one.name)) {
        let page = format!("/streams/{}", percent_encoded(&stream.name));
        let about = stream.description.as_deref().unwrap_or_default();
        add(0, hit("stream", &stream.name, about, page));
    }
    for connector in catalog.connectors() {
        let page = format!("/connectors/{}", percent_encoded(&connector.name));
        for key in &connector.keys {
            if has(&key.name) || has(&key.prefix()) {
                // What a configuration declares has no page of its own.
                let page = match key.created_at {
                    Some(_) => format!("{page}/keys/{}", percent_encoded(&key.name)),
                    None => format!("{page}?tab=keys"),
                };
                let title = format!("{}: {}", connector.name, key.prefix());
                let found = hit("key", &key.name, &title, page);
                let stream = Some(key.stream.to_string());
                add(2, SearchHit { stream, ..found });
            }
        }
        if has(&connector.name) {
            let about = connector.settings.description.as_deref();
            let about = about.unwrap_or_default();
            add(1, hit("connector", &connector.name, about, page));
        }
    }
    for key in catalog.read_keys() {
        let prefix = key.prefix.as_deref().unwrap_or_default();
        if has(&key.name) || has(prefix) {
            let page = format!("/read-keys/{}", percent_encoded(&key.name));
            add(3, hit("read_key", &key.name, prefix, page));
        }
    }
    for sink in catalog.sinks().iter().filter(|one| has(one.name())) {
        let page = format!("/sinks/{}", percent_encoded(sink.name()));
        add(4, hit("sink", sink.name(), &sink.settings.plugin, page));
    }
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    found
}

fn hit(kind: &'static str, name: &str, title: &str, page: String) -> SearchHit {
    SearchHit {
        kind,
        stream: None,
        key: name.to_owned(),
        title: title.to_owned(),
        at: None,
        page,
    }
}
