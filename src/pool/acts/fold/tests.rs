//! Unit tests of `acts/fold.rs`.

use super::*;

fn write(n: u64, op: Op, value: &str) -> Write {
    Write {
        n: ChangeSeq::new(n),
        op,
        value: value.to_owned(),
        step: "1".to_owned(),
        start: "2".to_owned(),
        by: format!("operator {n}"),
        at: Unix::from_ms(n),
        until: None,
        keeps_until: true,
        ended: ChangeSeq::MIN,
    }
}

fn value(writes: &[Write]) -> Option<String> {
    fold(writes).map(|now| now.value)
}

#[test]
fn the_last_write_counts_and_adds_count_on() {
    let (set, add) = (write(1, Op::Set, "7"), write(2, Op::Add, "8"));
    let more = write(3, Op::Add, "9");
    assert_eq!(
        value(&[set.clone(), add.clone(), more.clone()]).as_deref(),
        Some("9")
    );
    // Without the first, they count from what was beneath.
    assert_eq!(value(&[add, more.clone()]).as_deref(), Some("4"));
    assert_eq!(value(&[set.clone(), more]).as_deref(), Some("8"));
    assert_eq!(value(&[set, write(4, Op::Release, "")]), None);
}

#[test]
fn what_is_over_leaves_nothing_of_before() {
    let first = write(1, Op::Set, "3");
    let over = Write {
        ended: ChangeSeq::new(5),
        ..write(2, Op::Set, "4")
    };
    assert_eq!(value(&[first.clone(), over.clone()]), None);
    assert_eq!(
        value(&[over.clone(), write(6, Op::Add, "3")]).as_deref(),
        Some("3")
    );
    assert_eq!(value(&[over.clone(), write(4, Op::Add, "5")]), None);
    let for_good = Write {
        keeps_until: false,
        ..write(4, Op::Add, "5")
    };
    assert_eq!(value(&[over, for_good]).as_deref(), Some("5"));
    assert_eq!(value(&[first]).as_deref(), Some("3"));
}

#[test]
fn an_add_to_what_is_no_number_any_more_stays_what_it_came_to() {
    assert_eq!(
        value(&[write(1, Op::Set, "\"A\""), write(2, Op::Add, "6")]).as_deref(),
        Some("6")
    );
}
