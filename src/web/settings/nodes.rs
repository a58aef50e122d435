//! The nodes of a cluster and their database, on the page of the settings, and the form that has one of them run the sinks.
//!
//! **Invariant**: it shows what `GET /api/admin/cluster` answers; outside a cluster, nothing. A node has the form only if
//! the admin API would give it the sinks for this user.

use maud::{Markup, html};
use salvo_core::{Depot, Request, handler};

use super::{as_sentence, grouped, plain, text, time};
use crate::frame::{FormAnswer, FormPage, NoPage, Place, token};
use crate::guard::by;
use crate::paths;
use crate::text::{segment, text_of};
use base::clock::rfc3339;
use cluster::{ClusterStatus, DatabaseStatus, NodeStatus};
use http::access::Needs;
use http::sessions::Visitor;
use operate::{Operator, can_take_sinks};

/// Maximum characters of a problem.
const PROBLEM_CHARS_MAX: usize = 600;

/// The section of the nodes.
pub(super) fn section(operator: &Operator, depot: &Depot) -> Markup {
    let Some(cluster) = &operator.cluster else {
        return html! {};
    };
    let known = cluster.read();
    let owner = known.runs_sinks().map(str::to_owned);
    let ClusterStatus {
        database, nodes, ..
    } = known;
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
            tbody { @for node in &nodes { (row(node, owner.as_deref(), depot)) } }
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

fn row(node: &NodeStatus, owner: Option<&str>, depot: &Depot) -> Markup {
    let state = match node.is_live {
        true => ("good", "live"),
        false => ("bad", "away"),
    };
    html! { tr {
        td data-label="Node" { div {
            (text(&node.name))
            @if node.is_this { span.quiet { ", this one" } }
            @for why in node.problems.iter().chain(&node.token_problem) { p.quiet { (text_of(why, PROBLEM_CHARS_MAX)) } }
        } }
        td data-label="Version" { (text(&node.version)) }
        td data-label="State" { span class={ "badge " (state.0) } { (state.1) } }
        td data-label="Sinks" {
            @if node.runs_sinks { "runs them" }
            @else if can_take_sinks(node) && may_claim(depot) { (claim_form(&node.name, owner, depot)) }
        }
        td.number data-label="Delay" {
            @if node.is_live { (grouped(u64::try_from(node.delay.as_millis()).unwrap_or(u64::MAX))) " ms" } @else { "–" }
        }
        td.tight data-label="Seen" { (time(&rfc3339(node.seen))) }
        td.number data-label="Screens" { (grouped(node.renderers)) }
    } }
}

/// Whether the role of the user permits the form.
fn may_claim(depot: &Depot) -> bool {
    Visitor::of(depot).is_some_and(|visitor| visitor.token.role >= Needs::MANAGE.writes)
}

/// The button, which asks first.
fn claim_form(name: &str, owner: Option<&str>, depot: &Depot) -> Markup {
    let shown = plain(name);
    let stops = match owner {
        Some(owner) => format!(" Node {} stops them first.", plain(owner)),
        None => String::new(),
    };
    let question = format!("Run the sinks on node {shown}?{stops}");
    html! {
        form method="post" action=(path(name)) data-confirm=(question) {
            (token(depot)) button.plain { "Run the sinks on " (text(name)) }
        }
    }
}

fn path(name: &str) -> String {
    format!("/settings/nodes/{}/claim", segment(name))
}

/// `POST /settings/nodes/{name}/claim`
pub(super) struct ClaimOnPage(pub(super) Operator);

#[handler]
impl ClaimOnPage {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<FormAnswer, NoPage> {
        let name = paths::param(req, "name");
        let claimed = self.0.claim_sinks(&name, by(req)).await;
        match claimed.map_err(NoPage::from) {
            Ok(()) => Ok(FormAnswer::Done(
                "/settings".to_owned(),
                format!("Node {} runs the sinks.", plain(&name)),
            )),
            Err(NoPage::Refused(status, why)) => {
                let again = refused(&name, &why, &token(depot));
                Ok(FormAnswer::Form(status, again))
            }
            Err(other) => Err(other),
        }
    }
}

/// Why the node does not run them, and the form again.
fn refused(name: &str, why: &str, token: &Markup) -> FormPage {
    FormPage {
        title: format!("Run the sinks on {}?", plain(name)),
        place: Place::Settings,
        content: html! {
            p.problem role="alert" tabindex="-1" autofocus { (as_sentence(why)) }
            form.panel method="post" {
                (token)
                p { "The node that runs the sinks now stops them first. Calls to receivers that are in progress end before." }
                p.row { button { "Retry" } a.button.plain href="/settings#nodes" { "Back to the nodes" } }
            }
        },
    }
}
