//! Histories: what is sent and done, as it can be repeated, and cut into less.
//!
//! **Invariant**: an operation says by its number what it is about, so that a history without some of its operations is one,
//! too.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::app::Random;

/// Operations of a history.
const OPERATIONS: usize = 30;
pub(super) const STREAMS: [&str; 3] = ["plain", "versioned", "merged"];
/// Ends of keys. A receiver that is closed refuses items of the last but one, and is away for those of the last.
pub(super) const KEYS: [&str; 5] = ["0", "1", "2", "refused", "away"];
const VERSIONS: u64 = 6;
const FIELDS: u64 = 3;
/// IDs and bodies of signed deliveries: few, so that one often has the ID of a delivery and the body of another one.
const DELIVERIES: usize = 3;
/// How many streams get signed deliveries.
const SIGNED_STREAMS: usize = 2;

/// One operation, and the node of the cluster that it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) number: usize,
    pub(super) node: usize,
    pub(super) act: Act,
}

/// What is sent or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// An item alone, or an array of them.
    Send {
        stream: usize,
        items: Vec<Change>,
    },
    Remove {
        stream: usize,
        key: usize,
    },
    /// What a provider signs, which has two claims: the ID of the delivery and the body.
    Deliver {
        stream: usize,
        id: usize,
        body: usize,
    },
    /// What another operation sent, with its idempotency key, and with the same body or another one.
    Repeat {
        of: usize,
        is_other: bool,
    },
    /// The key of a stream is deleted, used, and another one is made.
    NewKey {
        stream: usize,
    },
    /// The receiver takes everything for a while, and what waits for a retry is tried.
    Recover,
    /// What waits for a retry becomes dead letters.
    GiveUp,
    /// Dead letters of an operation, or all of them, are sent again to a receiver that takes everything.
    SendAgain {
        of: Option<usize>,
    },
    Discard {
        of: usize,
    },
    /// Nothing is done until every item has expired.
    Lapse,
}

/// What is asked of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    key: usize,
    version: Option<u64>,
    removes: bool,
    field: u64,
}

impl Act {
    /// Whether it removes an item.
    pub(super) fn removes(&self) -> bool {
        match self {
            Self::Send { items, .. } => items.iter().any(|item| item.removes),
            Self::Remove { .. } => true,
            _ => false,
        }
    }

    /// The body of a request, whose keys begin with `prefix`; none: it is no request with a body.
    pub(super) fn body(&self, number: usize, prefix: &str, is_other: bool) -> Option<String> {
        let Self::Send { items, .. } = self else {
            return None;
        };
        let item = |(at, change): (usize, &Change)| {
            let mut item = json!({ "id": format!("{prefix}{}", KEYS[change.key]) });
            if let Some(version) = change.version {
                item["rev"] = version.into();
            }
            match change.removes {
                true => item["op"] = "del".into(),
                false => item[format!("f{}", change.field)] = (number * 10 + at).into(),
            }
            if is_other {
                item["other"] = true.into();
            }
            item
        };
        let mut items: Vec<Value> = items.iter().enumerate().map(item).collect();
        Some(match items.len() {
            1 => items.remove(0).to_string(),
            _ => Value::Array(items).to_string(),
        })
    }
}

/// The body of a signed delivery: the same text for the same number.
pub(super) fn delivered(stream: usize, body: usize, prefix: &str) -> String {
    let mut item = json!({ "id": format!("{prefix}{}", KEYS[(body + 1) % KEYS.len()]) });
    item[format!("f{}", body as u64 % FIELDS)] = (10_000 + body).into();
    // The first stream has no versions.
    if stream > 0 {
        item["rev"] = body.into();
    }
    item.to_string()
}

/// Any history.
pub(super) fn history(random: &mut Random, nodes: usize) -> Vec<Op> {
    let op = |number| Op {
        number,
        node: below(random, nodes),
        act: match random.once_in(4) {
            true => delivery(random),
            false => act(random, number),
        },
    };
    (0..OPERATIONS).map(op).collect()
}

fn delivery(random: &mut Random) -> Act {
    Act::Deliver {
        stream: below(random, SIGNED_STREAMS),
        id: below(random, DELIVERIES),
        body: below(random, DELIVERIES),
    }
}

/// Keys of each stream whose items expire, by their places in [`KEYS`]: where two streams have a key, one of the items waits
/// until the removal of the other one is settled.
const EXPIRING: [[usize; 2]; 3] = [[0, 3], [1, 4], [2, 2]];
/// Operations of a history of items that expire, before everything expires for the first time in its end, and after.
const BEFORE: usize = 12;
const AFTER: usize = 4;

/// Any history of items that expire. The last of its operations come shortly after everything has expired.
pub(super) fn expiring(random: &mut Random, nodes: usize) -> Vec<Op> {
    let op = |number| Op {
        number,
        node: below(random, nodes),
        act: match number {
            BEFORE => Act::Lapse,
            _ => expiring_act(random, number),
        },
    };
    (0..BEFORE + 1 + AFTER).map(op).collect()
}

fn expiring_act(random: &mut Random, number: usize) -> Act {
    let act = match random.within(0..12) {
        0 if number < BEFORE => Act::Lapse,
        _ => act(random, number),
    };
    match act {
        Act::Send { stream, mut items } => {
            for item in &mut items {
                item.key = EXPIRING[stream][item.key % 2];
                // As the removal by itself does that is among the acts: one of a request may remove what the request has sent.
                item.removes = false;
            }
            Act::Send { stream, items }
        }
        Act::Remove { stream, key } => Act::Remove {
            stream,
            key: EXPIRING[stream][key % 2],
        },
        Act::NewKey { .. } => Act::Recover,
        act => act,
    }
}

/// A history in which items of each kind expire.
pub(super) fn of_each_kind() -> Vec<Op> {
    let [zero, one, two, refused, away] = [0, 1, 2, 3, 4];
    let send = |stream, key, version| Act::Send {
        stream,
        items: vec![Change {
            key,
            version,
            removes: false,
            field: version.unwrap_or(0) % FIELDS,
        }],
    };
    let acts = vec![
        send(0, zero, None),
        send(0, refused, None),
        send(1, one, Some(4)),
        send(1, away, Some(2)),
        send(2, two, Some(1)),
        // It is gone before its time.
        Act::Remove {
            stream: 0,
            key: zero,
        },
        // A retry of a sink that does not write the pool waits on, and the removal behind it.
        Act::Lapse,
        // Older than what has expired, and newer.
        send(1, one, Some(3)),
        send(1, one, Some(5)),
        // Nothing of what has expired is merged.
        send(2, two, Some(2)),
        // It comes behind the removal.
        send(1, away, Some(3)),
        Act::Lapse,
        Act::Recover,
        send(1, away, Some(1)),
        Act::GiveUp,
        Act::SendAgain { of: None },
        Act::Lapse,
        send(1, one, Some(5)),
        send(2, two, None),
        Act::Repeat {
            of: 2,
            is_other: false,
        },
    ];
    let ops = acts.into_iter().enumerate();
    ops.map(|(number, act)| Op {
        number,
        node: number % 3,
        act,
    })
    .collect()
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.within(0..end as u64)).expect("small")
}

fn act(random: &mut Random, number: usize) -> Act {
    let stream = below(random, STREAMS.len());
    let earlier = below(random, number.max(1));
    match random.within(0..28) {
        0..14 => Act::Send {
            stream,
            items: changes(random, stream),
        },
        14..17 => Act::Remove {
            stream,
            key: below(random, KEYS.len()),
        },
        17..22 => Act::Repeat {
            of: earlier,
            is_other: random.once_in(3),
        },
        22 => Act::NewKey { stream },
        23 => Act::Recover,
        24 => Act::GiveUp,
        25 | 26 => Act::SendAgain {
            of: (!random.once_in(2)).then_some(earlier),
        },
        _ => Act::Discard { of: earlier },
    }
}

/// Some changes, of which none removes what one before it has sent.
fn changes(random: &mut Random, stream: usize) -> Vec<Change> {
    let mut items: Vec<Change> = Vec::new();
    for _ in 0..random.within(1..5) {
        let mut next = change(random, stream);
        next.removes &= items.iter().all(|one| one.key != next.key);
        items.push(next);
    }
    items
}

fn change(random: &mut Random, stream: usize) -> Change {
    // The first stream has neither versions nor a rule for removals.
    let has_rules = stream > 0;
    Change {
        key: below(random, KEYS.len()),
        version: (has_rules && !random.once_in(3)).then(|| random.within(0..VERSIONS)),
        removes: has_rules && random.once_in(5),
        field: random.within(0..FIELDS),
    }
}

/// A shorter history that fails, too, with what it fails with: parts are left out, large ones first, within so many tries.
pub(super) fn shortened(
    ops: Vec<Op>,
    differences: Vec<String>,
    tries: usize,
    mut play: impl FnMut(&[Op]) -> Vec<String>,
) -> (Vec<Op>, Vec<String>) {
    let (mut ops, mut differences, mut left) = (ops, differences, tries);
    let mut size = ops.len() / 2;
    while size > 0 {
        let (mut start, mut is_shorter) = (0, false);
        while start < ops.len() && ops.len() > 1 {
            if left == 0 {
                return (ops, differences);
            }
            left -= 1;
            let mut fewer = ops.clone();
            fewer.drain(start..(start + size).min(ops.len()));
            match play(&fewer) {
                found if found.is_empty() || fewer.is_empty() => start += size,
                found => (ops, differences, is_shorter) = (fewer, found, true),
            }
        }
        if !is_shorter {
            size /= 2;
        }
    }
    (ops, differences)
}

#[test]
fn a_history_is_the_same_for_the_same_seed_and_has_everything() {
    let histories = |seed| {
        let mut random = Random(seed);
        (0..40).map(|_| history(&mut random, 3)).collect::<Vec<_>>()
    };
    assert_eq!(histories(7), histories(7));
    assert_ne!(histories(7), histories(8));
    let all = histories(7).concat();
    let has = |is_it: fn(&Act) -> bool| all.iter().filter(|op| is_it(&op.act)).count();
    for is_it in [
        (|act| matches!(act, Act::Send { items, .. } if items.len() > 1)) as fn(&Act) -> bool,
        |act| matches!(act, Act::Remove { .. }),
        |act| matches!(act, Act::Deliver { .. }),
        |act| matches!(act, Act::Repeat { is_other: true, .. }),
        |act| {
            matches!(
                act,
                Act::Repeat {
                    is_other: false,
                    ..
                }
            )
        },
        |act| matches!(act, Act::NewKey { .. }),
        |act| matches!(act, Act::Recover),
        |act| matches!(act, Act::GiveUp),
        |act| matches!(act, Act::SendAgain { of: Some(_) }),
        |act| matches!(act, Act::SendAgain { of: None }),
        |act| matches!(act, Act::Discard { .. }),
    ] {
        assert!(has(is_it) > 3);
    }
    let meets = histories(7).iter().filter(|ops| meets_two(ops)).count();
    assert!(meets > 3, "{meets}");
}

/// Whether a delivery has the ID of one before it and the body of another one, both of which were new.
fn meets_two(ops: &[Op]) -> bool {
    let (mut ids, mut bodies) = (HashMap::new(), HashMap::new());
    let mut meets = false;
    for op in ops {
        let Act::Deliver { stream, id, body } = op.act else {
            continue;
        };
        match (ids.get(&(stream, id)), bodies.get(&(stream, body))) {
            (Some(one), Some(other)) => meets |= one != other,
            (None, None) => {
                ids.insert((stream, id), op.number);
                bodies.insert((stream, body), op.number);
            }
            _ => {}
        }
    }
    meets
}

#[test]
fn a_history_of_items_that_expire_has_each_key_in_one_stream() {
    let histories = |seed| {
        let mut random = Random(seed);
        (0..40)
            .map(|_| expiring(&mut random, 3))
            .collect::<Vec<_>>()
    };
    assert_eq!(histories(7), histories(7));
    let all = histories(7).into_iter().chain([of_each_kind()]);
    for op in all.flatten() {
        let keys = match op.act {
            Act::Send { stream, items } => {
                let keys = items.iter().map(|item| item.key);
                keys.map(|key| (stream, key)).collect()
            }
            Act::Remove { stream, key } => vec![(stream, key)],
            Act::NewKey { .. } | Act::Deliver { .. } => panic!("the keys of streams stay"),
            _ => Vec::new(),
        };
        let is_its_own = |(stream, key): &(usize, usize)| EXPIRING[*stream].contains(key);
        assert!(keys.iter().all(is_its_own), "{keys:?}");
    }
}

#[test]
fn a_history_that_fails_is_cut_to_what_it_fails_by() {
    let whole = history(&mut Random(1), 3);
    let fails = |ops: &[Op]| -> Vec<String> {
        let has = |number| ops.iter().any(|op| op.number == number);
        match has(4) && has(23) {
            true => vec!["differs".to_owned()],
            false => Vec::new(),
        }
    };
    let (short, differences) = shortened(whole.clone(), fails(&whole), 1_000, fails);
    let numbers: Vec<usize> = short.iter().map(|op| op.number).collect();
    assert_eq!(numbers, [4, 23]);
    assert_eq!(differences, ["differs"]);
    let (none, _) = shortened(whole.clone(), fails(&whole), 0, fails);
    assert_eq!(none, whole);
}
