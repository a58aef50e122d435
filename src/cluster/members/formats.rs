//! Nodes of several versions at one time.
//!
//! **Invariant**: who waits for others is named with those that it waits for.

use crate::NodeStatus;

/// Says of each other node that it waits, if it does: it lives, and knows a newer format of the log than another one that
/// lives, which cannot read what it would write.
pub(super) fn name_waiting(nodes: &mut [NodeStatus]) {
    let live = || nodes.iter().filter(|node| node.is_live);
    let Some(lowest) = live().map(|node| node.format).min() else {
        return;
    };
    let older = live().filter(|node| node.format == lowest);
    let older = older.map(NodeStatus::name_and_version);
    let older = older.collect::<Vec<_>>().join(", ");
    let waits = |node: &&mut NodeStatus| node.is_live && !node.is_this && node.format > lowest;
    for node in nodes.iter_mut().filter(waits) {
        node.problems.push(format!(
            "it runs headgate {}, and waits until these nodes are upgraded or stopped: {older}",
            node.version
        ));
    }
}
