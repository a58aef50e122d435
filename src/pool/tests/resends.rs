//! Dead letters that are sent again: what a retry holds, and that each item stays in one place.

use super::*;
use base::clock::Unix;

const LIMITS: ResendLimits = ResendLimits {
    items_max: 100,
    bytes_max: 1 << 20,
};
const NEWEST: i64 = i64::MAX;

pub(super) fn letter(seq: u64, position: u32, key: &str) -> DeadLetter {
    DeadLetter {
        id: 0,
        seq: Seq::new(seq),
        request_id: Uuid::from_u128(seq.into()).to_string(),
        stream: STREAM.into(),
        position: ItemPosition::new(position),
        key: key.to_owned(),
        fields: format!("{{\"key\":\"{key}\"}}"),
        meta: item::ItemMeta::default(),
        reason: "no".to_owned(),
        attempts: 1,
        at: Unix::from_ms(7),
        received_at: Unix::from_ms(seq * 1_000),
        action: Action::Upsert,
    }
}

impl Test {
    pub(super) fn dead_letter(&self, dead_letters: Vec<DeadLetter>) {
        let settlement = Settlement {
            sink: "pool".into(),
            dead_letters,
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it settles");
    }

    fn send(&self, selection: &Selection, limits: ResendLimits) -> u64 {
        let sent =
            self.pool
                .send_again("pool", selection, NEWEST, limits, LaterChanges::Overwritten);
        sent.expect("it is sent")
    }

    fn next_retry(&self) -> Retry {
        let retry = self.pool.next_retry("pool").expect("it reads");
        retry.expect("a retry")
    }

    /// The sink takes the items of a retry, and writes them.
    fn settle_resent(&self, retry: Retry) {
        let slices = self.pool.resent(retry.id).expect("it reads");
        let effects = vec![Effect::Apply(Batch::of(
            item::batch::BatchOrigin::Letters,
            slices,
            1,
        ))];
        let settlement = Settlement {
            sink: "pool".into(),
            retry_done: Some(retry),
            staged: Staged {
                effects,
                ..Staged::default()
            },
            ..Settlement::default()
        };
        self.pool.settle(&settlement).expect("it settles");
    }

    /// The items of a retry: sequence number, position, key.
    fn items_of(&self, retry: &Retry) -> Vec<(u64, u32, String)> {
        let slices = self.pool.resent(retry.id).expect("it reads");
        let items = slices.iter().flat_map(|slice| {
            let item = |(position, item): (ItemPosition, item::ItemRef<'_>)| {
                (slice.entry.seq.get(), position.get(), item.key.to_owned())
            };
            slice.items().map(item).collect::<Vec<_>>()
        });
        items.collect()
    }

    async fn letters(&self) -> Vec<(i64, String)> {
        let letters = self.pool.dead_letters("pool", None, 1_000).await;
        let letters = letters.expect("it reads").into_iter();
        letters.map(|letter| (letter.id, letter.key)).collect()
    }
}

fn item(seq: u64, position: u32, key: &str) -> (u64, u32, String) {
    (seq, position, key.to_owned())
}

#[tokio::test]
async fn a_retry_holds_the_items_in_order_as_they_were_accepted() {
    let test = Test::new().await;
    test.dead_letter(vec![
        letter(9, 0, "z"),
        letter(4, 6, "d"),
        letter(4, 2, "b"),
        letter(4, 1, "a"),
    ]);
    assert_eq!(test.send(&Selection::All, LIMITS), 4);
    assert_eq!(test.send(&Selection::All, LIMITS), 0);
    let retry = test.next_retry();
    assert_eq!(retry.parts, [part(4, 1, 3), part(4, 6, 7), part(9, 0, 1)]);
    assert_eq!(
        (retry.attempts, retry.origin),
        (0, item::batch::BatchOrigin::Letters)
    );
    let slices = test.pool.resent(retry.id).expect("it reads");
    let entry = &slices[0].entry;
    assert_eq!(entry.request_id, Uuid::from_u128(4));
    assert_eq!(
        (entry.received_at, &*entry.stream),
        (Unix::from_ms(4_000), STREAM)
    );
    assert_eq!(
        test.items_of(&retry),
        [
            item(4, 1, "a"),
            item(4, 2, "b"),
            item(4, 6, "d"),
            item(9, 0, "z")
        ]
    );
    assert_eq!(test.letters().await, []);
}

#[tokio::test]
async fn retries_are_no_larger_than_a_batch_of_the_sink() {
    let test = Test::new().await;
    test.dead_letter((0..5).map(|n| letter(1, n, &n.to_string())).collect());
    let few = ResendLimits {
        items_max: 2,
        ..LIMITS
    };
    assert_eq!(test.send(&Selection::All, few), 2);
    let small = ResendLimits {
        bytes_max: 1,
        ..LIMITS
    };
    assert_eq!(test.send(&Selection::All, small), 1);
    // Two of 12 bytes each.
    let some = ResendLimits {
        bytes_max: 24,
        ..LIMITS
    };
    assert_eq!(test.send(&Selection::All, some), 2);
    assert_eq!(
        test.pool
            .undelivered("pool")
            .await
            .expect("it reads")
            .retries,
        3
    );
}

#[tokio::test]
async fn halves_share_the_items_and_a_settled_retry_leaves_nothing() {
    let test = Test::new().await;
    test.dead_letter((0..4).map(|n| letter(1, n, &n.to_string())).collect());
    test.send(&Selection::All, LIMITS);
    let whole = test.next_retry();
    let half = |start, end| Retry {
        id: 0,
        parts: vec![part(1, start, end)],
        ..whole.clone()
    };
    let replaced = Settlement {
        sink: "pool".into(),
        retry_done: Some(whole.clone()),
        retries: vec![half(0, 1), half(1, 3)],
        // The last item died again meanwhile.
        dead_letters: vec![letter(1, 3, "3")],
        ..Settlement::default()
    };
    test.pool.settle(&replaced).expect("it settles");
    let test = test.reopened().await;
    let left = test.next_retry();
    assert_eq!(test.items_of(&left), [item(1, 0, "0")]);
    let done = |retry| Settlement {
        sink: "pool".into(),
        retry_done: Some(retry),
        ..Settlement::default()
    };
    test.pool.settle(&done(left)).expect("it settles");
    let right = test.next_retry();
    assert_eq!(test.items_of(&right), [item(1, 1, "1"), item(1, 2, "2")]);
    test.pool.settle(&done(right)).expect("it settles");
    assert_eq!(test.pool.next_retry("pool").expect("it reads"), None);
    let rows = test
        .pool
        .lock()
        .connection
        .query_row("SELECT count(*) FROM resends", [], |row| row.get(0));
    assert_eq!(rows, Ok(0));
    // Ids are not given twice.
    assert_eq!(test.letters().await, [(5, "3".to_owned())]);
}

#[tokio::test]
async fn what_fails_meanwhile_and_what_is_not_chosen_stays() {
    let test = Test::new().await;
    test.dead_letter(vec![
        letter(1, 0, "a"),
        letter(2, 0, "b"),
        letter(2, 1, "c"),
    ]);
    let mut nothing = letter(3, 0, "");
    nothing.fields = String::new();
    test.dead_letter(vec![nothing]);
    let found = test.pool.find_letters("pool", &Selection::All).await;
    let found = found.expect("it reads");
    assert_eq!((found.letters, found.unreadable, found.newest), (4, 1, 4));
    test.dead_letter(vec![letter(4, 0, "later")]);
    let request = Selection::Request(Uuid::from_u128(2).to_string());
    let found = test.pool.find_letters("pool", &request).await;
    assert_eq!(found.expect("it reads").letters, 2);
    // Nothing of a sink is another's.
    for selection in [&Selection::All, &Selection::Ids(vec![1, 2]), &request] {
        let found = test.pool.find_letters("other", selection).await;
        assert_eq!(found.expect("it reads").letters, 0, "{selection:?}");
        let sent = (test.pool).send_again(
            "other",
            selection,
            NEWEST,
            LIMITS,
            LaterChanges::Overwritten,
        );
        assert_eq!(sent.expect("it reads"), 0, "{selection:?}");
        let gone = (test.pool).discard_letters("other", selection, NEWEST);
        assert_eq!(gone.expect("it reads"), 0, "{selection:?}");
    }

    assert_eq!(
        test.pool
            .discard_letters("pool", &request, 2)
            .expect("it is gone"),
        1
    );
    assert_eq!(
        test.pool
            .send_again(
                "pool",
                &Selection::All,
                4,
                LIMITS,
                LaterChanges::Overwritten
            )
            .expect("it is sent"),
        2
    );
    assert_eq!(
        test.letters().await,
        [(5, "later".to_owned()), (4, String::new())]
    );
    assert_eq!(test.pool.retry_now("other").expect("it reads"), 0);
    assert_eq!(test.pool.retry_now("pool").expect("it reads"), 1);
    assert_eq!(
        test.pool
            .discard_letters("pool", &Selection::All, NEWEST)
            .expect("gone"),
        2
    );
    assert_eq!(test.letters().await, []);
}

#[tokio::test]
async fn the_journal_need_not_wait_for_what_is_sent_again() {
    let test = Test::new().await;
    test.pool.add_sink("pool", Seq::new(0)).expect("it reads");
    test.dead_letter(vec![letter(2, 0, "a")]);
    test.send(&Selection::All, LIMITS);
    let settlement = Settlement {
        sink: "pool".into(),
        cursor: Some(Seq::new(7)),
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    // Not for halves either, but for other retries.
    let whole = test.next_retry();
    let again = Settlement {
        sink: "pool".into(),
        retries: vec![Retry {
            id: 0,
            attempts: 1,
            ..whole.clone()
        }],
        retry_done: Some(whole.clone()),
        ..Settlement::default()
    };
    test.pool.settle(&again).expect("it settles");
    assert_eq!(test.pool.low_water().expect("it reads"), Seq::new(7));
    let other = Settlement {
        sink: "pool".into(),
        cursor: Some(Seq::new(9)),
        retries: vec![Retry {
            parts: vec![part(9, 0, 1)],
            origin: item::batch::BatchOrigin::Journal,
            ..whole
        }],
        ..Settlement::default()
    };
    test.pool.settle(&other).expect("it settles");
    assert_eq!(test.pool.low_water().expect("it reads"), Seq::new(8));
}

#[tokio::test]
async fn what_is_sent_again_keeps_its_place_within_its_request() {
    let test = Test::new().await;
    let items = [("x", "{}"), ("a", r#"{"n":1}"#), ("b", r#"{"n":1}"#)];
    test.upsert(&batch_of(STREAM, 4, &items), true);
    test.dead_letter(vec![letter(4, 0, "a"), letter(4, 3, "b")]);
    test.send(&Selection::All, LIMITS);
    let slices = test.pool.resent(test.next_retry().id).expect("it reads");
    test.upsert(
        &Batch::of(item::batch::BatchOrigin::Letters, slices, 1),
        true,
    );
    let fields = [
        test.fields(STREAM, "a").await,
        test.fields(STREAM, "b").await,
    ];
    let expected = [r#"{"n":1}"#, r#"{"key":"b"}"#].map(|fields| Some(fields.to_owned()));
    assert_eq!(fields, expected);
}

#[tokio::test]
async fn a_letter_of_a_merged_item_brings_back_the_fields_that_nothing_later_has_written() {
    let test = Test::new().await;
    let of = |seq, key: &str, fields: &str| DeadLetter {
        stream: "merged".into(),
        fields: fields.to_owned(),
        ..letter(seq, 0, key)
    };
    test.dead_letter(vec![
        of(1, "kept", r#"{"a":1,"b":1}"#),
        of(2, "known", r#"{"a":1}"#),
        of(3, "removed", r#"{"a":1}"#),
    ]);
    for (seq, key) in [(4, "kept"), (4, "known"), (6, "removed")] {
        if key == "removed" {
            test.remove("merged", key, 5);
        }
        test.upsert(&batch_of("merged", seq, &[(key, r#"{"a":2}"#)]), true);
    }
    let newer = test.pool.send_again(
        "pool",
        &Selection::All,
        NEWEST,
        LIMITS,
        LaterChanges::Stays {
            in_pool: true,
            unsettled: &HashMap::new(),
        },
    );
    assert_eq!(
        newer.expect("it is sent"),
        1,
        "of the others nothing is left"
    );
    let retry = test.next_retry();
    assert_eq!(test.items_of(&retry), [item(1, 0, "kept")]);
    let slices = test.pool.resent(retry.id).expect("it reads");
    let (_, sent) = slices[0].items().next().expect("an item");
    assert_eq!(sent.fields, r#"{"b":1}"#);

    test.settle_resent(retry);
    // Sent all the same, they change nothing that is newer.
    assert_eq!(test.send(&Selection::All, LIMITS), 2);
    test.settle_resent(test.next_retry());
    let fields = async |key| test.fields("merged", key).await;
    assert_eq!(fields("kept").await.as_deref(), Some(r#"{"a":2,"b":1}"#));
    assert_eq!(fields("known").await.as_deref(), Some(r#"{"a":2}"#));
    assert_eq!(fields("removed").await.as_deref(), Some(r#"{"a":2}"#));
}

#[tokio::test]
async fn a_removal_of_a_merged_item_takes_what_was_there_before_it_however_late_it_comes() {
    let test = Test::new().await;
    let of = |seq, action, fields: &str| DeadLetter {
        stream: "merged".into(),
        fields: fields.to_owned(),
        action,
        ..letter(seq, 0, "k")
    };
    test.upsert(&batch_of("merged", 1, &[("k", r#"{"a":1}"#)]), true);
    test.dead_letter(vec![
        of(2, Action::Upsert, r#"{"b":2}"#),
        of(3, Action::Remove, "{}"),
    ]);
    test.upsert(&batch_of("merged", 4, &[("k", r#"{"c":4}"#)]), true);
    let send = |in_pool| {
        let unsettled = HashMap::new();
        let newer = LaterChanges::Stays {
            in_pool,
            unsettled: &unsettled,
        };
        let sent = (test.pool).send_again("pool", &Selection::All, NEWEST, LIMITS, newer);
        sent.expect("it is sent")
    };
    assert_eq!(send(true), 2);
    test.settle_resent(test.next_retry());
    let fields = test.fields("merged", "k").await;
    assert_eq!(fields.as_deref(), Some(r#"{"c":4}"#));

    // Another sink would remove the whole item.
    test.dead_letter(vec![of(3, Action::Remove, "{}")]);
    assert_eq!(send(false), 0);
}

#[tokio::test]
async fn what_the_pool_does_not_have_yet_is_newer_as_well() {
    let test = Test::new().await;
    test.dead_letter(vec![
        letter(5, 0, "a"),
        letter(5, 1, "b"),
        letter(5, 2, "c"),
    ]);
    let unsettled = [("a", 4), ("b", 5), ("c", 6)];
    let unsettled = unsettled.map(|(key, last)| (key.to_owned(), Seq::new(last)));
    let unsettled = HashMap::from(unsettled);
    let later = LaterChanges::Stays {
        in_pool: false,
        unsettled: &unsettled,
    };
    let sent = (test.pool).send_again("pool", &Selection::All, NEWEST, LIMITS, later);
    assert_eq!(sent.expect("it is sent"), 2);
    let retry = test.next_retry();
    assert_eq!(test.items_of(&retry), [item(5, 0, "a"), item(5, 1, "b")]);
}
