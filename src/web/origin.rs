//! Where something comes from: made while the daemon runs, or declared in its configuration.
//!
//! **Invariant**: what is declared says where, because only there it can be changed.

use maud::{Markup, html};

use super::text::{plain, time};
use crate::clock;
use crate::operate::Operator;

/// When it was made, or in which file it is declared, under `[[list]]`.
pub(super) fn origin(
    operator: &Operator,
    list: &str,
    name: &str,
    created_ms: Option<u64>,
) -> Markup {
    html! {
        @match created_ms {
            Some(created_ms) => { (time(&clock::rfc3339(created_ms))) },
            None => {
                span.badge { "declared" } " in " code { (plain(&operator.configuration.declared_in(list, name))) }
                " under " code { "[[" (list) "]]" } ", so it is changed there"
            },
        }
    }
}
