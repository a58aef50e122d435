//! What renderers hold, and what they should hold.
//!
//! **Invariant**: every difference is told, or how many there are.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a renderer holds: the items of each stream by key, as they came.
pub(crate) type Content = BTreeMap<String, BTreeMap<String, Value>>;

/// What two contents differ in, in a line.
pub(super) fn difference(found: &Content, expected: &Content) -> String {
    let mut all: Vec<String> = Vec::new();
    for (stream, items) in expected {
        let none = BTreeMap::new();
        let held = found.get(stream).unwrap_or(&none);
        for (key, item) in items {
            if held.get(key) != Some(item) {
                all.push(format!("{stream}/{key} is {:?}, not {item}", held.get(key)));
            }
        }
        let more = held.iter().filter(|(key, _)| !items.contains_key(*key));
        all.extend(more.map(|(key, item)| format!("{stream}/{key} is still there: {item}")));
    }
    for stream in found
        .keys()
        .filter(|stream| !expected.contains_key(*stream))
    {
        all.push(format!("{stream} is not expected"));
    }
    let count = all.len();
    all.truncate(5);
    format!("{count} differences: {}", all.join("; "))
}
