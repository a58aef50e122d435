//! A message as renderers see it.

use serde_json::Value;

/// A place in the sequence of changes: epoch and number.
pub(super) type Place = (u64, u64);

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Its `type`.
    pub(crate) kind: String,
    /// Its `id`; empty if it has none.
    pub(crate) id: String,
    /// Its `stream`; empty if it is about none.
    pub(crate) stream: String,
    /// All of it.
    pub(crate) json: Value,
    /// As it came.
    pub(crate) text: String,
}

impl Message {
    /// The keys of its items, or of what it removes.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let keys = self.items().iter().map(|item| &item["key"]);
        let removed = self.json["keys"].as_array();
        keys.chain(removed.into_iter().flatten())
            .map(|key| key.as_str().expect("a key is a text"))
            .collect()
    }

    /// Its items.
    pub(crate) fn items(&self) -> &[Value] {
        self.json["items"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether it completes a snapshot.
    pub(crate) fn completes(&self) -> bool {
        self.json["complete"] == true
    }

    /// Its id as a place.
    pub(crate) fn place(&self) -> (u64, u64) {
        place(&self.id)
    }
}

/// Reads `epoch:seq`.
pub(super) fn place(id: &str) -> Place {
    let (epoch, seq) = id.split_once(':').expect("an id is epoch:seq");
    let number = |text: &str| text.parse().expect("a decimal integer");
    (number(epoch), number(seq))
}
