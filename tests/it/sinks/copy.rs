//! A receiver that keeps a copy of streams: the oracle of fillings.
//!
//! **Invariant**: it believes keys. A request with one that it has acknowledged changes nothing, and must have the same body.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};

use crate::process::Process;
use crate::receiver::{Receiver, Reply, Seen, answer};
use crate::setup::Setup;
use crate::wait::{PROCESS_DEADLINE, eventually_within};

/// Items by stream and key.
pub(super) type Table = BTreeMap<(String, String), Value>;

#[derive(Debug, Default)]
struct Copied {
    /// What came under each key.
    bodies: HashMap<String, String>,
    /// Keys of acknowledged requests.
    taken: HashMap<String, u64>,
    table: Table,
    /// Updates replace in every stream.
    replaces: bool,
    /// Of every update that counted: key, and the number of the filling.
    updates: Vec<(String, Option<u64>)>,
}

/// The copy, shared with who answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Copy(Arc<Mutex<Copied>>);

impl Copy {
    /// Somebody who takes everything.
    pub(super) fn content() -> (Receiver, Self) {
        Self::answering(|_, _| None)
    }

    /// Somebody who answers what `says` says, and takes what it says nothing of.
    pub(super) fn answering(
        says: impl Fn(&Seen, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> (Receiver, Self) {
        let copy = Self::default();
        let taker = copy.clone();
        let receiver = Receiver::start(move |seen, number| {
            taker.note(seen);
            says(seen, number).unwrap_or_else(|| {
                taker.take(seen);
                answer(200, "", "")
            })
        });
        (receiver, copy)
    }

    /// One that takes each update as the whole item.
    pub(super) fn replacing() -> Self {
        let copy = Self::default();
        copy.0.lock().expect("no panic while held").replaces = true;
        copy
    }

    /// No key ever has two bodies, whether it was acknowledged or not.
    pub(super) fn note(&self, seen: &Seen) {
        let key = seen.header("idempotency-key").expect("a key");
        let mut copied = self.0.lock().expect("no panic while held");
        let known = copied.bodies.entry(key.to_owned());
        let known = known.or_insert_with(|| seen.body.clone());
        assert_eq!(*known, seen.body, "two bodies under the key {key}");
    }

    /// Takes a request.
    pub(super) fn take(&self, seen: &Seen) {
        let key = seen.header("idempotency-key").expect("a key");
        let mut copied = self.0.lock().expect("no panic while held");
        let times = copied.taken.entry(key.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            return;
        }
        for item in seen.json().as_array().expect("a list") {
            let text = |name: &str| item[name].as_str().expect("a text").to_owned();
            let place = (text("stream"), text("key"));
            if item.get("removed").is_some() {
                copied.table.remove(&place);
                continue;
            }
            copied.updates.push((text("key"), item["fill"].as_u64()));
            let fields = item["fields"].as_object().expect("fields").clone();
            let merges = text("stream").starts_with("merge") && !copied.replaces;
            let row = copied.table.entry(place).or_insert(Value::Null);
            let mut known = match (merges, row.take()) {
                (true, Value::Object(known)) => known,
                _ => Map::new(),
            };
            known.extend(fields);
            *row = Value::Object(known);
        }
    }

    /// It has nothing any more; what it knows of keys stays.
    pub(super) fn lose(&self) {
        self.0.lock().expect("no panic while held").table.clear();
    }

    pub(super) fn table(&self) -> Table {
        self.0.lock().expect("no panic while held").table.clone()
    }

    /// The updates that counted: the key of the item, and the filling that it came in or after.
    pub(super) fn updates(&self) -> Vec<(String, Option<u64>)> {
        self.0.lock().expect("no panic while held").updates.clone()
    }
}

/// What the pool has.
pub(super) fn pool_of(folder: &Setup) -> Table {
    let pool = folder.pool();
    let sql = "SELECT stream, key, fields FROM items";
    let mut rows = pool.prepare(sql).expect("a statement");
    let rows = rows.query_map([], |row| {
        let fields: String = row.get(2)?;
        let fields = serde_json::from_str(&fields).expect("JSON");
        Ok(((row.get(0)?, row.get(1)?), fields))
    });
    rows.expect("rows").collect::<Result<_, _>>().expect("rows")
}

/// The copy has what the pool has, as soon as the sinks have everything.
#[track_caller]
pub(super) fn agree(process: &Process, folder: &Setup, copy: &Copy, about: &str) {
    process.drained();
    let differ = || {
        let (has, pool) = (copy.table(), pool_of(folder));
        let only = |one: &Table, other: &Table| -> Vec<String> {
            let rows = one
                .iter()
                .filter(|(key, row)| other.get(*key) != Some(*row));
            rows.map(|row| format!("{row:?}")).collect()
        };
        (only(&has, &pool), only(&pool, &has))
    };
    let told = || {
        let (more, less) = differ();
        let log = process.log();
        format!("{about}: the receiver has {more:?}, the pool has {less:?}\n{log}")
    };
    // What expires meanwhile is on its way for a moment.
    eventually_within(PROCESS_DEADLINE, told, || {
        let (more, less) = differ();
        (more.is_empty() && less.is_empty()).then_some(())
    });
}
