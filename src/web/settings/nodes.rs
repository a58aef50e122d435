//! The nodes of a cluster and their database, on the page of the settings.
//!
//! **Invariant**: it shows what `GET /api/admin/cluster` answers; outside a cluster, nothing.

use maud::{Markup, html};

use super::{grouped, text, time};
use crate::text::text_of;
use base::clock::rfc3339;
use cluster::{ClusterStatus, DatabaseStatus, NodeStatus};
use operate::Operator;

/// Maximum characters of a problem.
const PROBLEM_CHARS_MAX: usize = 600;

/// The section of the nodes.
pub(super) fn section(operator: &Operator) -> Markup {
    let Some(cluster) = &operator.cluster else {
        return html! {};
    };
    let ClusterStatus {
        database, nodes, ..
    } = cluster.read();
    let durability = operator.about.durability;
    html! {
        h2 #nodes { "Nodes" }
        div.panel { dl {
            dt { "Database" } dd { (of_database(&database)) }
            dt { "Standby" } dd { @if database.standbys.is_empty() { "none" } @else { (text(&database.standbys.join(", "))) } }
            dt { "Durability" } dd { (durability) @if durability == "local" { ": a failover can lose acknowledged requests" } }
        } }
        div.table { table {
            thead { tr { th { "Node" } th { "Version" } th { "State" } th { "Sinks" } th.number { "Delay" } th { "Seen" } th.number { "Screens" } } }
            tbody { @for node in &nodes { (row(node)) } }
        } }
    }
}

fn of_database(database: &DatabaseStatus) -> Markup {
    let since = rfc3339(database.since);
    html! {
        @if !database.version.is_empty() { "PostgreSQL " (text(&database.version)) ", " }
        @if database.reachable { "reachable since " (time(&since)) }
        @else {
            "not reachable since " (time(&since))
            @if let Some(why) = &database.problem { ": " (text(why)) }
        }
    }
}

fn row(node: &NodeStatus) -> Markup {
    let state = match node.is_live {
        true => ("good", "live"),
        false => ("bad", "away"),
    };
    html! { tr {
        td data-label="Node" {
            (text(&node.name))
            @if node.is_this { span.quiet { ", this one" } }
            @for why in node.problems.iter().chain(&node.token_problem) { p.quiet { (text_of(why, PROBLEM_CHARS_MAX)) } }
        }
        td data-label="Version" { (text(&node.version)) }
        td data-label="State" { span class={ "badge " (state.0) } { (state.1) } }
        td data-label="Sinks" { @if node.runs_sinks { "runs them" } }
        td.number data-label="Delay" { (grouped(u64::try_from(node.delay.as_millis()).unwrap_or(u64::MAX))) " ms" }
        td.tight data-label="Seen" { (time(&rfc3339(node.seen))) }
        td.number data-label="Screens" { (grouped(node.renderers)) }
    } }
}
