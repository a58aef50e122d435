//! `/sessions`: the sessions, and ending one of them.
//!
//! **Invariant**: it shows the response of `GET /api/admin/sessions`; the ID of a session grants no access.

use std::sync::Arc;

use maud::{Markup, html};
use salvo_core::{Depot, Request, Router, handler};
use uuid::Uuid;

use super::frame::{FormAnswer, Head, NoPage, Page, Place, token};
use super::grid::{Cell, Column, Grid, Row, Sorting, count_of};
use super::guard::by;
use super::text::count;
use base::clock;
use http::sessions::{Sessions, SignedIn, Visitor};
use operate::Operator;

pub(super) fn routes(operator: &Operator, sessions: &Arc<Sessions>) -> Router {
    Router::with_path("sessions")
        .get(ShowSessions(Arc::clone(sessions)))
        .push(
            Router::with_path("{id}/end").post(EndSession(operator.clone(), Arc::clone(sessions))),
        )
}

/// `GET /sessions`
struct ShowSessions(Arc<Sessions>);

#[handler]
impl ShowSessions {
    async fn handle(&self, req: &mut Request, depot: &mut Depot) -> Result<Page, NoPage> {
        let own = Visitor::of(depot).map(|visitor| visitor.session);
        let all = self.0.list().await?;
        let ends = match self.0.are_shared() {
            true => {
                "They are signed in on all nodes. A session ends after 12 hours and with its token."
            }
            false => "A session ends after 12 hours, with its token, and when the daemon stops.",
        };
        Ok(Page {
            title: "Sessions".to_owned(),
            place: Place::Settings,
            head: Head {
                above: vec![("/settings".to_owned(), "Settings".to_owned())],
                ..Head::default()
            },
            still: html! {
                p.quiet { "Users of these pages, with their tokens. " (ends) }
            },
            live: table(&all, own, &token(depot), &Sorting::of(req)),
            old: false,
        })
    }
}

fn table(all: &[SignedIn], own: Option<Uuid>, token: &Markup, sorting: &Sorting) -> Markup {
    let columns = [
        Column::text("Role"),
        Column::text("From"),
        Column::text("Since"),
        Column::text("Ends"),
        Column::text("Session"),
        Column::time("Last seen"),
    ];
    let row = |one: &SignedIn| {
        let at = |at| Cell::time(Some(&clock::rfc3339(at)));
        Row::unlinked(&*one.token.name)
            .id(format!("session-{}", one.id))
            .about(html! { @if own == Some(one.id) { span.quiet { ", you" } } })
            .cells([
                Cell::text(one.token.role.as_str()),
                Cell::text(&one.client),
                at(one.since),
                at(one.ends_at),
                Cell::markup(html! {
                    form method="post" action={ "/sessions/" (one.id) "/end" } { (token) button.plain { "End" } }
                }),
                at(one.seen_at),
            ])
    };
    Grid::new("Sessions", "Token", columns)
        .sorted(all.iter().map(row), usize::MAX, sorting)
        .pager(count_of(&count(all.len() as u64, "session")))
        .markup()
}

/// `POST /sessions/{id}/end`
struct EndSession(Operator, Arc<Sessions>);

#[handler]
impl EndSession {
    async fn handle(&self, req: &mut Request) -> Result<FormAnswer, NoPage> {
        let id = req.param::<String>("id").unwrap_or_default();
        let ended = match id.parse() {
            Ok(id) => self.1.end(id).await?,
            Err(_) => None,
        };
        let ended = ended.ok_or(NoPage::NotFound(
            "This session no longer exists. The page Settings leads to all sessions.",
        ))?;
        self.0.record(by(req), ended.signed_out()).await;
        let said = format!("The session of {} is ended.", ended.token.name);
        Ok(FormAnswer::Done("/sessions".to_owned(), said))
    }
}
