//! The node of a cluster that a figure or a sink belongs to, as the pages name it.
//!
//! **Invariant**: outside a cluster no page names a node.

use maud::{Markup, html};

use super::text::text;
use operate::Operator;
use operate::condition::SinkCondition;

/// ` on node a` behind a figure that each node of a cluster has for itself; empty outside one.
pub(super) fn on_node(operator: &Operator) -> String {
    operator
        .node()
        .map_or_else(String::new, |node| format!(" on node {node}"))
}

/// The same behind the state of a sink, with the node that runs it.
pub(super) fn of_sink(sink: &SinkCondition) -> Markup {
    html! { @if let Some(node) = &sink.node { " " span.quiet { "on node " (text(node)) } } }
}
