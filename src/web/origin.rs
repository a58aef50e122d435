//! Origin of an object: created at run time, or defined in the configuration.
//!
//! **Invariant**: an object of the configuration names its file, because it can be changed only there.

use maud::{Markup, html};

use super::text::{plain, time};
use base::clock::{self, Unix};
use operate::Operator;

/// When the object was created, or the file that defines it under `[[list]]`.
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
