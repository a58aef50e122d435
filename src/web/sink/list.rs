//! `/sinks`: the sinks and their lag.
//!
//! **Invariant**: it shows the response of `GET /api/admin/sinks`.

use maud::html;
use salvo_core::{Request, handler};

use crate::frame::{Head, NoPage, Page, Place};
use crate::grid::Sorting;
use crate::sink_table::{problems, table};
use crate::text::text_of;
use operate::{Operator, UsedPlugin};

/// Maximum characters of a reason.
const REASON_CHARS_MAX: usize = 600;

/// `GET /sinks`
pub(super) struct Sinks(pub(super) Operator);

#[handler]
impl Sinks {
    async fn handle(&self, req: &mut Request) -> Result<Page, NoPage> {
        page(&self.0, &Sorting::of(req)).await
    }
}

async fn page(operator: &Operator, sorting: &Sorting) -> Result<Page, NoPage> {
    let condition = operator.condition().await;
    let sinks = &condition.sinks;
    let plugins = operator.known_plugins().await;
    let notices: Vec<String> = plugins.iter().filter_map(UsedPlugin::notice).collect();
    Ok(Page {
        title: "Sinks".to_owned(),
        place: Place::Sinks,
        head: Head {
            actions: html! { a.button.main href="/new/sink" { "Add a sink" } },
            ..Head::default()
        },
        still: html! {},
        live: html! {
            @for why in condition.unreadable(operator.database_is_away()) { p.problem role="alert" { (text_of(why, REASON_CHARS_MAX)) } }
            @for sink in sinks { (problems(sink)) }
            @for notice in &notices { p.panel role="status" { (text_of(notice, REASON_CHARS_MAX)) ". " a href="/new/sink" { "Add a sink" } } }
            (table(sinks, sorting))
        },
        old: false,
    })
}
