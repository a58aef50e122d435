//! Who receives what a sink of one side sends, and refuses some of it.
//!
//! **Invariant**: what was taken is noted once, in the order in which it came.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::receiver::{Reply, Seen, answer};

/// What a receiver has taken, in order, each once.
#[derive(Debug, Default)]
pub(super) struct Taken {
    calls: HashSet<String>,
    pub(super) items: Vec<Value>,
}

/// Takes an item, refuses it, or is away for it. A call that it knows changes nothing.
pub(super) fn receive(seen: &Seen, taken: &Mutex<Taken>, is_open: &AtomicBool) -> Reply {
    let items = seen.json();
    let [item] = items.as_array().map_or(&[][..], Vec::as_slice) else {
        return answer(400, "", "one item was expected");
    };
    let key = item["key"].as_str().unwrap_or_default();
    if !is_open.load(Ordering::SeqCst) {
        if key.ends_with("-refused") {
            return answer(400, "", "never");
        }
        if key.ends_with("-away") {
            return answer(503, "", "not now");
        }
    }
    let call = seen.header("idempotency-key").unwrap_or_default();
    let mut taken = taken.lock().expect("no panic while held");
    if taken.calls.insert(call.to_owned()) {
        taken.items.push(item.clone());
    }
    answer(200, "", "")
}
