//! The tabs of a connector's page: its log, and its setup. Each has a URL.
//!
//! **Invariant**: the page begins with the log; before the first request, it begins with how to send.

use maud::{Markup, html};
use salvo_core::Request;

use crate::form::filter::refusal;
use crate::frame::NoPage;
use crate::paths;
use catalog::Connector;

/// A tab of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Log,
    SetUp,
    Keys,
    Limits,
}

impl Tab {
    /// The tab in the URL: `?tab=keys`.
    pub(super) fn of(req: &Request) -> Result<Self, NoPage> {
        match req.query::<String>("tab").as_deref() {
            None | Some("") => Ok(Self::Log),
            Some("setup") => Ok(Self::SetUp),
            Some("keys") => Ok(Self::Keys),
            Some("limits") => Ok(Self::Limits),
            Some(_) => Err(refusal("There is no such tab.")),
        }
    }
}

pub(super) fn links(connector: &Connector, shown: Tab) -> Markup {
    let path = paths::connector(&connector.name);
    let tabs = [
        (Tab::Log, "", "Request log"),
        (Tab::SetUp, "?tab=setup", "Set up"),
        (Tab::Keys, "?tab=keys", "Keys"),
        (Tab::Limits, "?tab=limits", "Limits"),
    ];
    html! {
        nav.tabs #log aria-label="Parts of this page" {
            @for (tab, query, name) in tabs {
                a href={ (path) (query) } aria-current=[(tab == shown).then_some("page")] {
                    (name) @if tab == Tab::Keys { " " span.quiet { (connector.keys.len()) } }
                }
            }
        }
    }
}
