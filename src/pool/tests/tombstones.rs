//! How long removals are remembered, and that the order of acceptance decides, whatever the order of delivery.

use super::resends::letter;
use super::*;
use base::clock::Lived;
use item::Version;

#[tokio::test]
async fn a_removal_is_remembered_until_every_sink_has_passed_it() {
    let test = Test::new().await;
    test.pool.add_sink("late", Seq::new(0)).expect("it writes");
    test.passes("pool", 9);
    test.remove(STREAM, "never", 3);
    test.forget();
    assert_eq!(test.tombstones(), "never!", "the other sink has not");
    test.passes("late", 2);
    test.forget();
    assert_eq!(test.tombstones(), "never!");
    let waiting = Settlement {
        sink: "late".into(),
        cursor: Some(Seq::new(9)),
        retries: vec![Retry {
            id: 0,
            seqs: (Seq::new(0), Seq::new(0)),
            parts: vec![part(3, 0, 1)],
            origin: item::batch::BatchOrigin::Journal,
            attempts: 1,
            earlier: 0,
            due_at: Lived::MIN,
            reason: String::new(),
        }],
        ..Settlement::default()
    };
    test.pool.settle(&waiting).expect("it settles");
    test.forget();
    assert_eq!(test.tombstones(), "never!", "a retry waits");
    let retry = test.pool.next_retry("late").expect("it reads");
    let done = Settlement {
        sink: "late".into(),
        retry_done: retry,
        ..Settlement::default()
    };
    test.pool.settle(&done).expect("it settles");
    test.forget();
    assert_eq!(test.tombstones(), "");
}

#[tokio::test]
async fn what_never_was_and_nothing_can_bring_leaves_nothing_behind() {
    let test = Test::new().await;
    test.passes("pool", 4);
    test.upsert(&batch(4, &["a"]), true);
    let before = test.seq();
    let settlement = Settlement {
        cursor: Some(Seq::new(5)),
        ..deletion(&removal(STREAM, 5, "never"))
    };
    test.pool.settle(&settlement).expect("it settles");
    assert_eq!((test.tombstones().as_str(), test.seq()), ("", before));
    // What is older by its version may come from outside at any time.
    let mut versioned = ItemsWriter::new(1 << 20, 0);
    let meta = ItemMeta {
        version: Version::parse("5"),
        ..ItemMeta::default()
    };
    let pushed = versioned.push_with("later", "{}", Action::Remove, meta);
    pushed.expect("it fits");
    let settlement = Settlement {
        cursor: Some(Seq::new(5)),
        ..deletion(&whole(STREAM, 5, versioned.into_items()))
    };
    test.pool.settle(&settlement).expect("it settles");
    assert_eq!(test.tombstones(), "later!");
    // Of what was there, renderers that come back are told.
    let settlement = Settlement {
        cursor: Some(Seq::new(6)),
        ..deletion(&removal(STREAM, 6, "a"))
    };
    test.pool.settle(&settlement).expect("it settles");
    test.forget();
    assert_eq!(test.tombstones(), "a later!");
    assert_eq!(test.read(STREAM, before).await, [gone("a", before + 1)]);
}

#[tokio::test]
async fn a_sink_that_never_writes_the_pool_holds_only_so_many_removals_up() {
    let test = Test::new().await;
    test.passes("pool", 4);
    for sink in ["late", "receiver"] {
        test.pool.add_sink(sink, Seq::new(1)).expect("it writes");
    }
    test.remove(STREAM, "never", 3);
    test.remove(STREAM, "nor", 4);
    let forget = |bystanders: &[&str]| {
        let bystanders: Vec<String> = bystanders.iter().map(ToString::to_string).collect();
        let forgotten = test.pool.forget_removed(&bystanders, || false);
        forgotten.expect("it forgets");
    };
    let keep = |most| test.pool.lock().removals.keep_published(most);
    keep(0);
    forget(&["receiver"]);
    assert_eq!(test.tombstones(), "never! nor!", "another may write it");
    test.passes("late", 4);
    keep(9);
    forget(&["receiver"]);
    assert_eq!(
        test.tombstones(),
        "never! nor!",
        "it may become a dead letter"
    );
    keep(1);
    forget(&["receiver"]);
    assert_eq!(test.tombstones(), "nor!");
    test.passes("receiver", 4);
    keep(9);
    forget(&["receiver"]);
    assert_eq!(test.tombstones(), "");
}

#[tokio::test]
async fn a_dead_letter_of_a_slower_sink_does_not_bring_back_what_was_never_shown() {
    let test = Test::new().await;
    test.pool.add_sink("slow", Seq::new(0)).expect("it writes");
    // Both in one transaction: nobody is told of the item.
    test.passes("pool", 2);
    test.remove(STREAM, "a", 2);
    let forgotten = test.pool.forget_removed(&["slow".to_owned()], || false);
    forgotten.expect("it forgets");
    let settlement = Settlement {
        sink: "slow".into(),
        cursor: Some(Seq::new(2)),
        dead_letters: vec![letter(1, 0, "a")],
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    test.forget();
    let limits = ResendLimits {
        items_max: 9,
        bytes_max: 999,
    };
    let unsettled = std::collections::HashMap::new();
    let later = LaterChanges::Stays {
        in_pool: false,
        unsettled: &unsettled,
    };
    let sent = (test.pool).send_again("slow", &Selection::All, i64::MAX, limits, later);
    assert_eq!(sent.expect("it looks"), 0, "the removal is newer");
}

#[tokio::test]
async fn a_stream_with_many_removals_ends_none_of_another() {
    let test = Test::new().await;
    test.passes("pool", 1);
    let mut writer = test.pool.lock();
    writer.removals.keep_versions(2);
    let sql = "INSERT INTO removed (stream, key, seq, accepted_seq, position, version, version_text) VALUES
        ('quiet', 'q', 0, 1, 0, x'00', '1'), ('noisy', 'a', 0, 2, 0, x'00', '1'), ('noisy', 'b', 0, 3, 0, x'00', '1'),
        ('noisy', 'c', 0, 4, 0, x'00', '1')";
    writer.connection.execute_batch(sql).expect("it writes");
    let anew = Removals::load(&writer.connection).expect("it reads");
    writer.removals = anew;
    writer.removals.keep_versions(2);
    drop(writer);
    test.forget();
    let writer = test.pool.lock();
    let sql = "SELECT group_concat(key, ' ') FROM (SELECT key FROM removed WHERE version IS NOT NULL ORDER BY key)";
    let kept: String = (writer.connection.query_row(sql, [], |row| row.get(0))).expect("some");
    assert_eq!(kept, "b c q");
}

#[tokio::test]
async fn a_removal_is_remembered_as_long_as_a_dead_letter_may_bring_the_item_back() {
    let test = Test::new().await;
    test.passes("pool", 9);
    let removing = DeadLetter {
        action: Action::Remove,
        ..letter(2, 2, "d")
    };
    let settlement = Settlement {
        sink: "pool".into(),
        dead_letters: vec![
            letter(2, 0, "a"),
            letter(2, 1, "b"),
            letter(9, 0, "c"),
            removing,
        ],
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    for key in ["a", "b", "c", "d"] {
        test.remove(STREAM, key, 3);
    }
    let send = |id| {
        let limits = ResendLimits {
            items_max: 9,
            bytes_max: 999,
        };
        let sent = test.pool.send_again(
            "pool",
            &Selection::Ids(vec![id]),
            i64::MAX,
            limits,
            LaterChanges::Overwritten,
        );
        assert_eq!(sent.expect("it is sent"), 1);
        let retry = test.pool.next_retry("pool").expect("it reads");
        retry.expect("a retry")
    };
    let retry = send(2);
    assert_eq!(test.tombstones(), "a! b!");
    let slices = test.pool.resent(retry.id).expect("it reads");
    test.upsert(
        &Batch::of(item::batch::BatchOrigin::Letters, slices, 1),
        true,
    );
    assert_eq!(test.items(STREAM).await, []);
    let done = Settlement {
        sink: "pool".into(),
        retry_done: Some(retry),
        ..Settlement::default()
    };
    test.pool.settle(&done).expect("it settles");
    test.forget();
    assert_eq!(test.tombstones(), "a!");
    // What is sent again is what it was: a removal.
    let retry = send(4);
    let slices = test.pool.resent(retry.id).expect("it reads");
    assert_eq!(
        Batch::of(item::batch::BatchOrigin::Letters, slices, 1).action(),
        Some(Action::Remove)
    );
}

#[tokio::test]
async fn updates_and_removals_are_sent_again_together_in_their_order() {
    let test = Test::new().await;
    let of = |position, action| DeadLetter {
        action,
        ..letter(2, position, "a")
    };
    let settlement = Settlement {
        sink: "pool".into(),
        dead_letters: vec![
            of(0, Action::Upsert),
            of(1, Action::Upsert),
            of(2, Action::Remove),
            of(3, Action::Upsert),
        ],
        ..Settlement::default()
    };
    test.pool.settle(&settlement).expect("it settles");
    let limits = ResendLimits {
        items_max: 9,
        bytes_max: 9_999,
    };
    let send = || {
        let sent = test.pool.send_again(
            "pool",
            &Selection::All,
            9,
            limits,
            LaterChanges::Overwritten,
        );
        sent.expect("it is sent")
    };
    assert_eq!([send(), send()], [4, 0]);
    let retry = test.pool.next_retry("pool").expect("it reads");
    let slices = test
        .pool
        .resent(retry.expect("a retry").id)
        .expect("it reads");
    let actions = slices.iter().flat_map(item::batch::Slice::items);
    let actions: Vec<Action> = actions.map(|(_, item)| item.action).collect();
    use Action::{Remove, Upsert};
    assert_eq!(actions, [Upsert, Upsert, Remove, Upsert]);
}

#[tokio::test]
async fn the_oldest_removals_of_too_many_raise_what_can_be_resumed_from() {
    let test = Test::new().await;
    test.pool.lock().removals.keep_published(2);
    test.upsert(&batch(1, &["a", "b", "c", "d"]), true);
    test.passes("pool", 3);
    // An older request may still bring one of them.
    test.pool.add_sink("late", Seq::new(1)).expect("it writes");
    for (key, seq) in [("a", 1), ("b", 2)] {
        test.remove(STREAM, key, seq);
    }
    let reaches = |test: &Test, seq| {
        let position = Position {
            seq: ChangeSeq::new(seq),
            ..test.pool.position()
        };
        test.pool.reaches_back_to(position)
    };
    test.forget();
    assert!(reaches(&test, 0));
    assert_eq!(test.tombstones(), "a b");
    for (key, seq) in [("c", 2), ("d", 3)] {
        test.remove(STREAM, key, seq);
    }
    test.forget();
    assert_eq!(test.tombstones(), "b! c d");
    let test = test.reopened().await;
    assert_eq!(test.read(STREAM, 6).await, [gone("c", 7), gone("d", 8)]);
    assert!(!reaches(&test, 0) && !reaches(&test, 5) && reaches(&test, 6));
    assert!(!reaches(&test, 9), "there is no such change yet");
    test.upsert(&batch(2, &["b"]), true);
    assert_eq!(test.items(STREAM).await, [], "it does not come back");
    test.passes("late", 3);
    test.forget();
    assert_eq!(test.tombstones(), "c d");
}

#[tokio::test]
async fn a_sink_that_reorders_its_items_changes_nothing_of_the_outcome() {
    let test = Test::new().await;
    let batch = batch_of(
        STREAM,
        1,
        &[
            ("a", r#"{"n":1}"#),
            ("a", r#"{"n":2}"#),
            ("a", r#"{"n":3}"#),
        ],
    );
    let mixed = batch.select(&[2, 0, 1], 1 << 20).expect("they exist");
    test.upsert(&mixed, true);
    assert_eq!(
        test.fields(STREAM, "a").await.as_deref(),
        Some(r#"{"n":3}"#)
    );
}
