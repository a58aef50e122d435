//! Where something comes from: made while the daemon runs, or declared in its configuration.
//!
//! **Invariant**: what is declared says where, because only there it can be changed.

use maud::{Markup, html};

use super::text::{plain, time};
use base::clock::{self, Unix};
use operate::Operator;

/// When it was made, or in which file it is declared, under `[[list]]`.
pub(super) fn origin(
    operator: &Operator,
    list: &str,
    name: &str,
    created_at: Option<Unix>,
) -> Markup {
    html! {
        @match created_at {
            Some(created_at) => { (time(&clock::rfc3339(created_at))) },
            None => {
                span.badge { "declared" } " in " code { (plain(&operator.configuration.declared_in(list, name))) }
                " under " code { "[[" (list) "]]" } ", so it is changed there"
            },
        }
    }
}
