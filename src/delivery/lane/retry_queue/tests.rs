//! The queue of retries: single cases, and small histories of a lane with failures, halves and crashes, at random.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use base::clock::Unix;
use item::ItemsWriter;
use item::batch::{Batch, Entry};

fn entry(seq: u64, keys: &[u8]) -> Slice {
    let mut items = ItemsWriter::new(1 << 20, 64);
    for key in keys {
        items.push(&key.to_string(), "{}").expect("it fits");
    }
    Slice::whole(Arc::new(Entry {
        seq: Seq::new(seq),
        request_id: uuid::Uuid::nil(),
        stream: "s".into(),
        received_at: Unix::MIN,
        arrived: None,
        items: items.into_items(),
    }))
}

fn ms(number: u16) -> Lived {
    Lived::from_ms(number.into())
}

fn retry(id: i64, slices: &[Slice], attempts: u32, due_at: Lived) -> Retry {
    let parts = slices.iter().map(|one| {
        Part(
            one.entry.seq,
            one.base + one.start,
            one.base + one.end,
            false,
        )
    });
    Retry {
        id,
        seqs: (Seq::MIN, Seq::MIN),
        parts: parts.collect(),
        origin: BatchOrigin::Journal,
        attempts,
        earlier: 0,
        due_at,
        reason: String::new(),
    }
}

fn add(queue: &mut RetryQueue, id: i64, slice: Slice, attempts: u32, due_at: Lived) {
    let slices = [slice];
    let contents = queue.contents(&slices);
    queue.add(id, &retry(id, &slices, attempts, due_at), contents);
}

fn keys(slices: &[Slice]) -> Vec<String> {
    let items = slices.iter().flat_map(Slice::items);
    items.map(|(_, item)| item.key.to_owned()).collect()
}

#[test]
fn what_has_a_key_that_waits_goes_behind_and_the_first_goes_first() {
    let mut queue = RetryQueue::default();
    add(&mut queue, 1, entry(1, &[1, 2]), 1, ms(900));
    let (free, behind) = queue.split_new(vec![entry(2, &[3, 1, 4, 4, 2])]);
    assert_eq!(
        (keys(&free), keys(&behind)),
        (keys(&[entry(9, &[3, 4, 4])]), keys(&[entry(9, &[1, 2])]))
    );
    assert_eq!(free.len(), 2, "runs of items");
    add(&mut queue, 2, entry(2, &[1]), 0, ms(5));
    assert_eq!(
        queue.next(),
        Some((1, ms(900))),
        "the other is due, but blocked"
    );
    assert!(queue.is_alone() && queue.has_behind());
    queue.remove(1);
    assert_eq!(queue.next(), Some((2, ms(5))));
    // What is accepted earlier and comes later goes first all the same.
    add(&mut queue, 3, entry(1, &[1]), 1, ms(7));
    assert_eq!(queue.next(), Some((3, ms(7))));
    queue.remove(3);
    queue.remove(2);
    assert!(queue.is_empty() && !queue.has_behind() && queue.chains.is_empty());
    assert_eq!(queue.split_new(vec![entry(3, &[1])]).1.len(), 0);
}

#[test]
fn a_retry_of_which_some_keys_are_free_is_split() {
    let mut queue = RetryQueue::default();
    add(&mut queue, 1, entry(1, &[1]), 1, ms(900));
    add(&mut queue, 2, entry(2, &[1, 2, 1]), 0, ms(5));
    assert_eq!(queue.next().map(|(id, _)| id), Some(2), "its key 2 is free");
    let (free, blocked) = queue
        .split_retry(2, &[entry(2, &[1, 2, 1])])
        .expect("it is split");
    assert_eq!(
        (keys(&free), keys(&blocked)),
        (vec!["2".to_owned()], vec!["1".to_owned(); 2])
    );
    queue.remove(1);
    assert!(queue.split_retry(2, &[entry(2, &[1, 2, 1])]).is_none());
}

#[test]
fn the_blocked_part_of_a_retry_stays_before_what_came_later() {
    let mut queue = RetryQueue::default();
    add(&mut queue, 1, entry(1, &[9]), 1, ms(900));
    // Of the same batch as the next one, which failed and was halved.
    let early = [entry(2, &[1]), entry(6, &[9])];
    let contents = queue.contents(&early);
    queue.add(2, &retry(2, &early, 0, ms(5)), contents);
    let late = [entry(3, &[2]), entry(7, &[9])];
    let contents = queue.contents(&late);
    queue.add(3, &retry(3, &late, 0, ms(5)), contents);

    let (free, blocked) = queue.split_retry(2, &early).expect("it is split");
    queue.remove(2);
    for (id, part) in [(4, free), (5, blocked)] {
        let contents = queue.contents(&part);
        queue.add(id, &retry(id, &part, 0, ms(5)), contents);
    }
    queue.remove(1);
    let (free, blocked) = queue.split_retry(3, &late).expect("key 9 waits for 6");
    assert_eq!(
        (keys(&free), keys(&blocked)),
        (vec!["2".to_owned()], vec!["9".to_owned()])
    );
    assert!(
        queue.split_retry(5, &[entry(6, &[9])]).is_none(),
        "it is the first"
    );
}

#[test]
fn nothing_joins_a_retry_past_another_with_its_key() {
    let mut queue = RetryQueue::default();
    let limits = BatchSettings::default();
    let early = [entry(2, &[1]), entry(7, &[3])];
    let contents = queue.contents(&early);
    queue.add(1, &retry(1, &early, 0, ms(5)), contents);
    add(&mut queue, 2, entry(6, &[3, 4]), 0, ms(5));
    let joined = |queue: &RetryQueue, keys: &[u8]| {
        let more = queue.contents(&[entry(8, keys)]);
        queue.joined(&more, 1, &limits)
    };
    assert_eq!(joined(&queue, &[3]), None, "7 would come after 8");
    assert_eq!(
        joined(&queue, &[4]),
        Some(2),
        "it has the newest of the key"
    );
    assert_eq!(joined(&queue, &[1]), Some(2), "it has nothing of the key");
}

#[test]
fn a_hot_key_costs_a_retry_for_many_operations() {
    let mut queue = RetryQueue::default();
    let limits = BatchSettings::default();
    add(&mut queue, 1, entry(1, &[1]), 1, ms(900));
    for seq in 2..2_002 {
        let behind = [entry(seq, &[1])];
        let contents = queue.contents(&behind);
        let id = queue
            .joined(&contents, 1, &limits)
            .unwrap_or(seq.cast_signed());
        queue.add(id, &retry(id, &behind, 0, ms(5)), contents);
    }
    assert_eq!((queue.rows.len(), queue.behind), (5, 4));
}

/// A lane over a journal of small requests, whose sink fails now and then and whose daemon dies now and then.
#[derive(Default)]
struct World {
    journal: Vec<Slice>,
    cursor: u64,
    rows: BTreeMap<i64, Retry>,
    next_id: i64,
    queue: RetryQueue,
    /// For each key the places in the order in which they were taken or given up.
    ended: HashMap<String, Vec<(Seq, ItemPosition)>>,
}

impl World {
    fn read(&self, retry: &Retry) -> Vec<Slice> {
        let slice = |Part(seq, start, end, _): &Part| Slice {
            start: start.get(),
            end: end.get(),
            ..self.journal[usize::try_from(seq.get()).expect("small") - 1].clone()
        };
        retry.parts.iter().map(slice).collect()
    }

    fn store(&mut self, slices: &[Slice], attempts: u32, due_at: Lived, joins: Option<i64>) {
        let id = joins.unwrap_or(self.next_id + 1);
        self.next_id = self.next_id.max(id);
        let new = retry(id, slices, attempts, due_at);
        let contents = self.queue.contents(slices);
        self.queue.add(id, &new, contents);
        let row = self
            .rows
            .entry(id)
            .or_insert_with(|| retry(id, &[], attempts, due_at));
        row.parts.extend(new.parts);
    }

    /// A call that the sink takes, refuses, asks to repeat, or after which the batch is halved.
    fn call(&mut self, slices: &[Slice], outcome: u8) {
        let batch = Batch::new(slices.to_vec(), 1);
        match outcome {
            0 => self.store(slices, 1, ms(0), None),
            1 if batch.len() > 1 => {
                let (left, right) = batch.halves().expect("two items");
                self.store(left.slices(), 1, ms(9), None);
                self.store(right.slices(), 1, ms(1), None);
            }
            _ => {
                for slice in slices {
                    for (position, item) in slice.items() {
                        let ended = self.ended.entry(item.key.to_owned()).or_default();
                        ended.push((slice.entry.seq, position));
                    }
                }
            }
        }
    }

    fn take_next(&mut self, count: u64, outcome: u8, joins: bool) {
        let to = (self.cursor + count).min(self.journal.len() as u64);
        let range: Range<usize> =
            usize::try_from(self.cursor).expect("small")..usize::try_from(to).expect("small");
        let (free, behind) = self.queue.split_new(self.journal[range].to_vec());
        self.cursor = to;
        if !behind.is_empty() {
            let contents = self.queue.contents(&behind);
            let limits = BatchSettings {
                items_max: 4,
                ..BatchSettings::default()
            };
            let row = self
                .queue
                .joined(&contents, behind.len(), &limits)
                .filter(|_| joins);
            self.store(&behind, 0, ms(0), row);
        }
        if !free.is_empty() {
            self.call(&free, outcome);
        }
    }

    fn try_again(&mut self, outcome: u8) {
        let Some((id, _)) = self.queue.next() else {
            return;
        };
        let old = self.rows.remove(&id).expect("it is stored");
        let slices = self.read(&old);
        let split = self.queue.split_retry(id, &slices);
        self.queue.remove(id);
        match split {
            Some((free, blocked)) => {
                assert!(!free.is_empty(), "something of it could be tried");
                self.store(&free, old.attempts, ms(0), None);
                self.store(&blocked, old.attempts, ms(0), None);
            }
            None => self.call(&slices, outcome),
        }
    }

    fn crash(&mut self) {
        self.queue = RetryQueue::default();
        for (id, row) in &self.rows {
            let slices = row.parts.iter().map(|Part(seq, start, end, _)| Slice {
                start: start.get(),
                end: end.get(),
                ..self.journal[usize::try_from(seq.get()).expect("small") - 1].clone()
            });
            let contents = self.queue.contents(&slices.collect::<Vec<_>>());
            self.queue.add(*id, row, contents);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn of_one_key_nothing_overtakes_and_nothing_is_lost(
        requests in prop::collection::vec(prop::collection::vec(0_u8..4, 1..4), 1..9),
        steps in prop::collection::vec((0_u8..8, 1_u64..4, 0_u8..4, any::<bool>()), 0..40),
    ) {
        let journal: Vec<Slice> = requests.iter().zip(1..).map(|(keys, seq)| entry(seq, keys)).collect();
        let mut world = World { journal, ..World::default() };
        for (step, count, outcome, joins) in steps {
            match step {
                0..4 => world.take_next(count, outcome, joins),
                4..7 => world.try_again(outcome),
                _ => world.crash(),
            }
        }
        for _ in 0..200 {
            world.take_next(1, 3, true);
            world.try_again(3);
        }
        prop_assert!(world.rows.is_empty() && world.queue.is_empty());
        let mut expected: HashMap<String, Vec<(Seq, ItemPosition)>> = HashMap::new();
        for slice in &world.journal {
            for (position, item) in slice.items() {
                expected.entry(item.key.to_owned()).or_default().push((slice.entry.seq, position));
            }
        }
        prop_assert_eq!(&world.ended, &expected);
    }
}
