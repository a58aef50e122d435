//! Batches that wait: their ids, giving them up, and what is kept for sinks that are not there.

use std::num::NonZero;

use super::*;
use crate::resends::Selection;
use crate::transaction::TransactionKind;
use base::clock::Lived;
use item::Version;

const SINK: &str = "pool";

fn retry(seq: u64, items: u32) -> Retry {
    Retry {
        id: 0,
        seqs: (Seq::new(seq), Seq::new(seq)),
        parts: vec![part(seq, 0, items)],
        origin: item::batch::BatchOrigin::Journal,
        attempts: 1,
        earlier: 0,
        due_at: Lived::from_ms(7),
        reason: "later".to_owned(),
    }
}

impl Test {
    fn settled(&self, settlement: Settlement) -> bool {
        let settlement = Settlement {
            sink: SINK.into(),
            ..settlement
        };
        let settled = self.pool.settle(&settlement).expect("it settles");
        settled.is_some()
    }

    fn waits(&self, retries: Vec<Retry>) {
        let settlement = Settlement {
            retries,
            ..Settlement::default()
        };
        assert!(self.settled(settlement));
    }

    fn next(&self) -> Option<Retry> {
        self.pool.next_retry(SINK).expect("it reads")
    }

    async fn ids(&self) -> Vec<i64> {
        let waiting = self.pool.waiting(SINK, 0, 9).await.expect("it reads");
        waiting.iter().map(|one| one.retry.id).collect()
    }
}

#[tokio::test]
async fn what_is_left_of_a_batch_keeps_its_id_and_no_other_ever_has_it() {
    let test = Test::new().await;
    test.waits(vec![retry(1, 4)]);
    let first = test.next().expect("a retry");
    let halves = Settlement {
        retry_done: Some(first.clone()),
        retries: vec![retry(1, 2), retry(2, 1)],
        ..Settlement::default()
    };
    assert!(test.settled(halves));
    let ids = test.ids().await;
    assert_eq!(ids[0], first.id);
    let last = *ids.last().expect("two");
    for id in ids {
        let done = Settlement {
            retry_done: Some(Retry { id, ..retry(1, 1) }),
            ..Settlement::default()
        };
        assert!(test.settled(done));
    }
    let test = test.reopened().await;
    test.waits(vec![retry(3, 1)]);
    assert!(test.ids().await[0] > last);
}

#[tokio::test]
async fn what_was_given_up_while_it_was_tried_is_not_delivered_as_well() {
    let test = Test::new().await;
    test.waits(vec![retry(1, 1)]);
    let tried = test.next().expect("a retry");
    let letters = [super::resends::letter(1, 0, "a")];
    let given_up = test.pool.give_up(SINK, &tried, &letters, "no");
    assert_eq!(given_up.expect("it is given up"), Some(1));
    let delivered = Settlement {
        staged: Staged {
            effects: vec![Effect::Upsert(batch(1, &["a"]))],
            ..Staged::default()
        },
        retry_done: Some(tried.clone()),
        ..Settlement::default()
    };
    assert!(!test.settled(delivered), "nothing of it happens");
    assert!(test.items(STREAM).await.is_empty());
    let undelivered = test.pool.undelivered(SINK).await.expect("it reads");
    assert_eq!((undelivered.retries, undelivered.dead_letters), (0, 1));
    // Nor is what holds other items now.
    test.waits(vec![retry(2, 4)]);
    let before = test.next().expect("a retry");
    let halved = Settlement {
        retry_done: Some(before.clone()),
        retries: vec![retry(2, 2)],
        ..Settlement::default()
    };
    assert!(test.settled(halved));
    let given_up = test.pool.give_up(SINK, &before, &letters, "no");
    assert_eq!(given_up.expect("it reads"), None);
    assert_eq!(test.ids().await, [before.id]);
}

#[tokio::test]
async fn dead_letters_that_are_sent_again_become_dead_letters_again() {
    let test = Test::new().await;
    let in_full = ItemMeta {
        version: Version::parse("9"),
        expire_after_seconds: NonZero::new(60),
        ..ItemMeta::default()
    };
    let buried = Settlement {
        dead_letters: vec![
            super::resends::letter(1, 0, "a"),
            DeadLetter {
                meta: in_full,
                ..super::resends::letter(1, 2, "b")
            },
        ],
        ..Settlement::default()
    };
    assert!(test.settled(buried));
    let limits = ResendLimits {
        items_max: 9,
        bytes_max: 999,
    };
    let sent = test.pool.send_again(
        SINK,
        &Selection::All,
        i64::MAX,
        limits,
        LaterChanges::Overwritten,
    );
    assert_eq!(sent.expect("it is sent"), 2);
    let waiting = test.pool.waiting(SINK, 0, 9).await.expect("it reads");
    assert_eq!(waiting[0].items, Some(2));
    let given_up = test.pool.give_up(SINK, &waiting[0].retry, &[], "not now");
    assert_eq!(given_up.expect("it is given up"), Some(2));
    let letters = test.pool.dead_letters(SINK, None, 9).await;
    let letters = letters.expect("it reads");
    let keys: Vec<_> = letters
        .iter()
        .map(|one| (&*one.key, &*one.reason, one.meta))
        .collect();
    let bare = ItemMeta::default();
    assert_eq!(keys, [("b", "not now", in_full), ("a", "not now", bare)]);
    assert!(test.ids().await.is_empty());
}

#[tokio::test]
async fn a_damaged_list_of_items_is_found() {
    let test = Test::new().await;
    test.waits(vec![retry(5, 1)]);
    for damage in ["'[[5,0'", "'[[5,1,0]]'", "x'ff00'", "7"] {
        let sql = format!("UPDATE retries SET parts = {damage}");
        test.pool
            .lock()
            .connection
            .execute(&sql, [])
            .expect("it writes");
        let retry = test.next().expect("it is there");
        assert_eq!(
            (retry.parts.len(), retry.seqs),
            (0, (Seq::new(5), Seq::new(5))),
            "{damage}"
        );
        let waiting = test.pool.waiting(SINK, 0, 9).await.expect("it reads");
        assert_eq!((waiting.len(), waiting[0].items), (1, None), "{damage}");
        let states = test.pool.sink_states(SINK, &[5].map(Seq::new)).await;
        assert_eq!(states.expect("it reads").len(), 1, "{damage}");
    }
}

#[tokio::test]
async fn items_are_added_to_a_retry_that_nobody_has_tried_and_to_no_other() {
    let test = Test::new().await;
    let behind = |id: i64, seq: u64| Retry {
        id,
        attempts: 0,
        ..retry(seq, 2)
    };
    let stores = |retries: Vec<Retry>| {
        let settlement = Settlement {
            sink: SINK.into(),
            retries,
            ..Settlement::default()
        };
        let ids = test.pool.settle(&settlement).expect("it settles");
        ids.expect("no batch waits for a retry")
    };
    let ids = stores(vec![retry(1, 1), behind(0, 2)]);
    assert_eq!(stores(vec![behind(ids[1], 3)]), [ids[1]]);
    let joined = test.pool.retry(SINK, ids[1]).expect("it reads");
    let joined = joined.expect("it is there");
    assert_eq!(joined.parts, [part(2, 0, 2), part(3, 0, 2)]);
    assert_eq!(joined.seqs, (Seq::new(2), Seq::new(3)));
    // Not to one that was tried, is gone, or is another sink's.
    let tried = stores(vec![behind(ids[0], 4)])[0];
    assert!(!ids.contains(&tried));
    let gone = Settlement {
        retry_done: Some(joined.clone()),
        ..Settlement::default()
    };
    assert!(test.settled(gone));
    let next = stores(vec![behind(joined.id, 5)])[0];
    assert!(next > tried, "{next}");
    assert_eq!(test.pool.retry("other", next).expect("it reads"), None);
}

#[tokio::test]
async fn a_call_is_there_until_the_cursor_has_passed_it() {
    let mut test = Test::new().await;
    let one = vec![part(3, 0, 2), part(4, 0, 1)];
    for batches in [vec![one.clone(), vec![part(3, 2, 3)]], vec![one]] {
        let call = Call {
            batches,
            through: Seq::new(6),
        };
        let calling = Settlement {
            calling: Some(call.clone()),
            ..Settlement::default()
        };
        assert!(test.settled(calling));
        test = test.reopened().await;
        assert_eq!(test.pool.call(SINK).expect("it reads"), Some(call));
    }
    assert_eq!(test.pool.call("other").expect("it reads"), None);
    let settled = Settlement {
        cursor: Some(Seq::new(6)),
        called: true,
        ..Settlement::default()
    };
    assert!(test.settled(settled));
    assert_eq!(test.pool.call(SINK).expect("it reads"), None);
}

#[tokio::test]
async fn every_sink_that_the_file_knows_holds_what_it_has_not_behind_it() {
    let test = Test::new().await;
    let low_water = || test.pool.low_water().expect("it reads");
    test.pool.add_sink("gone", Seq::new(4)).expect("it writes");
    let settled = |sink: &str, cursor: u64, retries: Vec<Retry>| {
        let settlement = Settlement {
            sink: sink.into(),
            cursor: Some(Seq::new(cursor)),
            retries,
            dead_letters: vec![super::resends::letter(2, 0, "a")],
            ..Settlement::default()
        };
        let settled = test.pool.settle(&settlement).expect("it settles");
        assert!(settled.is_some());
    };
    settled(SINK, 9, Vec::new());
    assert_eq!(low_water(), Seq::new(4));
    settled("gone", 8, vec![retry(3, 1)]);
    assert_eq!(low_water(), Seq::new(2));
    let known = test.pool.known_sinks().await.expect("it reads");
    let known: Vec<_> = known.iter().map(|one| (&*one.name, one.cursor)).collect();
    assert_eq!(known, [("gone", Seq::new(8)), (SINK, Seq::new(9))]);
    let forgotten = test.pool.forget_sink("gone").expect("it writes");
    let forgotten = forgotten.expect("it was known");
    assert_eq!((forgotten.retries, forgotten.dead_letters), (1, 1));
    assert_eq!(low_water(), Seq::new(9));
    assert_eq!(test.pool.forget_sink("gone").expect("it reads"), None);
    let kept = test.pool.undelivered(SINK).await.expect("it reads");
    assert_eq!(kept.dead_letters, 1, "only the one sink is forgotten");
}

#[tokio::test]
async fn a_panic_in_a_transaction_costs_that_transaction_only() {
    let test = Test::new().await;
    let panicking = std::panic::AssertUnwindSafe(|| {
        let mut writer = test.pool.lock();
        let _ = writer.in_transaction(
            TransactionKind::Other,
            &mut |writer: &mut Writer| -> Result<(), rusqlite::Error> {
                writer.connection.execute("DELETE FROM cursors", [])?;
                panic!("a defect");
            },
        );
    });
    assert!(std::panic::catch_unwind(panicking).is_err());
    test.upsert(&batch(1, &["a"]), true);
    test.waits(vec![retry(1, 1)]);
    assert_eq!(test.pool.retry_now(SINK).expect("it writes"), 1);
    let test = test.reopened().await;
    assert_eq!(test.items(STREAM).await.len(), 1);
    assert_eq!(test.ids().await.len(), 1);
    assert_eq!(test.pool.known_sinks().await.expect("it reads").len(), 1);
}

#[tokio::test]
async fn what_waits_as_a_removal_does_so_after_a_restart_and_older_lists_are_read() {
    let test = Test::new().await;
    let Part(seq, start, end, _) = part(7, 0, 2);
    let parts = vec![Part(seq, start, end, true), part(7, 2, 3), part(9, 0, 1)];
    let mut waits = retry(7, 3);
    waits.parts = parts.clone();
    test.waits(vec![waits]);
    let call = Call {
        batches: vec![parts.clone()],
        through: Seq::new(9),
    };
    let settlement = Settlement {
        calling: Some(call.clone()),
        ..Settlement::default()
    };
    assert!(test.settled(settlement));
    let test = test.reopened().await;
    let found = test.pool.waiting(SINK, 0, 9).await.expect("it reads");
    assert_eq!(found[0].retry.parts, parts);
    assert_eq!(test.pool.call(SINK).expect("it reads"), Some(call));
    // As files had it before there were such removals.
    let text = serde_json::to_string(&parts[1..]).expect("JSON");
    assert_eq!(text, "[[7,2,3],[9,0,1]]");
}
