//! What pages say of the cluster: the node that a figure or a sink belongs to, and a database that does not answer.
//!
//! **Invariant**: outside a cluster no page names a node. Every page says so while the database does not answer, and shows
//! the last state that this node knows.

use maud::{Markup, html};

use super::frame::NoPage;
use super::text::{text, time};
use base::clock::rfc3339;
use http::error::ApiError;
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

/// That the database of the cluster does not answer, on every page that shows the copy of this node meanwhile; empty while it
/// answers.
pub(super) fn database_away(operator: &Operator) -> Markup {
    let known = operator.cluster.as_ref().map(cluster::Status::read);
    let away = known.map(|known| known.database);
    html! {
        @if let Some(database) = away.filter(|database| !database.reachable) {
            p.problem role="alert" {
                "The database of the cluster has not answered since " (time(&rfc3339(database.since)))
                ". This page shows the last state that this node knows, and nothing can be changed. "
                a href="/settings#nodes" { "See the nodes" } "."
            }
        }
    }
}

/// What only the database of the cluster has; none while it does not answer.
pub(super) fn unless_away<T>(read: Result<T, impl Into<ApiError>>) -> Result<Option<T>, NoPage> {
    match read.map_err(Into::into) {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.passes() => Ok(None),
        Err(error) => Err(NoPage::from(error)),
    }
}

/// In place of the request log, or of a part of it.
pub(super) fn no_log(what: &str) -> Markup {
    html! {
        p.panel role="status" {
            (what) " are in the database of the cluster, which does not answer. They can be read again when it does."
        }
    }
}
