//! Unit tests of `condition.rs`.

use uuid::Uuid;

use super::*;
use crate::file::page::tests::open_with;
use crate::{LogEntry, Outcome};
use base::clock::{Lived, Unix};
use item::{Action, ItemMeta};

fn submission(keys: &[&str], action: Action) -> Submission {
    let mut items = ItemsWriter::new(1 << 20, 64);
    for key in keys {
        let pushed = items.push_with(key, "{}", action, ItemMeta::default());
        pushed.expect("it fits");
    }
    let (id, outcome) = (Uuid::now_v7(), Outcome::Accepted);
    Submission {
        log: LogEntry::of(id, Unix::now(), "c".into(), "s".into(), outcome),
        arrived: Lived::now(),
        items: items.into_items().accepted(true),
        claim: None,
        second: None,
        recheck: None,
    }
}

#[tokio::test]
async fn what_is_named_by_something_that_is_not_settled_is_left_out_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = open_with(&folder.path().join("journal.db"), u64::MAX, Seq::MIN).await;
    let update = async |key: &str| {
        let submitted = journal.submit(submission(&[key], Action::Upsert)).await;
        submitted.expect("it is stored");
        *journal.newest().borrow()
    };
    let remove = async |keys: &[&str], settled: Seq, named: Named| {
        let removal = submission(keys, Action::Remove);
        journal
            .submit_if(removal, Condition { settled, named })
            .await
    };
    let first = update("a").await;
    let pin = journal.pin();
    assert!(pin.after() < first);
    let second = update("b").await;
    // Everything that is settled may go; what is pinned does not.
    journal.passed(second);
    let refused = Err(JournalError::Unsettled);
    assert_eq!(remove(&["b", "c"], first, Named::Refused).await, refused);
    assert_eq!(*journal.newest().borrow(), second, "nothing was stored");
    let stored = remove(&["a", "b", "c"], first, Named::LeftOut).await;
    assert_eq!(stored.expect("it is stored").items, 2);
    let entry = journal.entry(second + 1).await.expect("it reads");
    let entry = entry.expect("it is there");
    let keys: Vec<_> = entry.items.iter().map(|item| item.key).collect();
    assert_eq!(keys, ["a", "c"]);
    assert_eq!(entry.items.merges(), Some(true), "as it was accepted");
    // Another removal of the same is named by the first, and so is one of the same group.
    assert_eq!(remove(&["a", "c"], first, Named::LeftOut).await, refused);
    let (one, other) = tokio::join!(
        remove(&["d"], second + 1, Named::LeftOut),
        remove(&["d"], second + 1, Named::LeftOut)
    );
    assert!(one.is_ok() && other == refused, "{one:?} {other:?}");
    // Without the pin memory does not reach back far enough to tell.
    drop(pin);
    journal.passed(second);
    assert_eq!(remove(&["e"], first, Named::LeftOut).await, refused);
    assert!(remove(&["e"], second, Named::LeftOut).await.is_ok());
    journal.close().await;
}
