//! Unit tests of `node/arrival.rs`.

use super::*;

#[test]
fn a_format_rises_with_everything_that_an_entry_is_read_by() {
    let rising = [
        (1, 14, 12),
        (1, 14, 13),
        (1, 15, 13),
        (1, 16, 14),
        (2, 16, 14),
    ];
    let formats = rising.map(|(entries, pool, catalog)| log_format(entries, pool, catalog));
    assert!(formats.is_sorted_by(|one, next| one < next), "{formats:?}");
    assert!(formats[0] > 1);
}

#[test]
fn only_older_nodes_that_live_are_waited_for() {
    let node = |name: &str, format, is_live| NodeStatus {
        name: name.to_owned(),
        version: "0.0.9".to_owned(),
        format,
        is_live,
        ..NodeStatus::default()
    };
    let this = NodeStatus {
        is_this: true,
        ..node("this", FORMAT, true)
    };
    let mut nodes = vec![
        this,
        node("dead", FORMAT - 1, false),
        node("same", FORMAT, true),
        node("newer", FORMAT + 1, true),
    ];
    assert_eq!(waits_for(&nodes), None);
    nodes.push(node("old", FORMAT - 1, true));
    let waits = waits_for(&nodes).expect("it waits");
    assert!(waits.ends_with(": old (headgate 0.0.9)"), "{waits}");
}
