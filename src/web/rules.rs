//! What decides over items beside the order of acceptance: fields that the forms of streams and connectors share.
//!
//! **Invariant**: what is typed is read back as it is shown.

use maud::{Markup, html};

use super::form::{Field, Typed};
use crate::config::{DeleteWhen, STALE_SECONDS_MAX};

/// What the forms set.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) version: Option<String>,
    pub(super) delete_when: Option<DeleteWhen>,
    pub(super) expire_after_seconds: Option<u32>,
}

impl Rules {
    /// What the fields hold at first.
    pub(super) fn initial(
        version: Option<&String>,
        delete_when: Option<&DeleteWhen>,
        expire_after_seconds: Option<u32>,
    ) -> [(&'static str, String); 4] {
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        [
            ("version", text(version)),
            ("delete_field", text(delete_when.map(|when| &when.field))),
            (
                "delete_values",
                delete_when.map_or_else(String::new, |when| when.is.join(", ")),
            ),
            (
                "expire_after_seconds",
                expire_after_seconds.map_or_else(String::new, |seconds| seconds.to_string()),
            ),
        ]
    }

    /// The fields; `usual`: what counts where nothing is typed, if that is not nothing.
    pub(super) fn fields(typed: &Typed, usual: &str) -> Markup {
        let version_hint = format!(
            "A number or a time, like updated_at: an item that is older by it changes nothing, however late it comes. {usual}"
        );
        let version = Field {
            name: "version",
            label: "Field that says how new an item is (optional)",
            hint: &version_hint,
        };
        let field = Field {
            name: "delete_field",
            label: "Field that says that an item is gone (optional)",
            hint: "Like status; _event is the tool's name of the event.",
        };
        let values = Field {
            name: "delete_values",
            label: "Its values then",
            hint: "With commas between them: orders/delete, orders/cancelled.",
        };
        let expire = Field {
            name: "expire_after_seconds",
            label: "Seconds after which an item goes that is not renewed (optional)",
            hint: "Renderers are told of it as of any removal.",
        };
        html! {
            (typed.input(version, 255, false))
            div.fields {
                (typed.input(field, 255, false))
                (typed.input(values, 2_048, false))
            }
            (typed.number_input(expire, "never"))
        }
    }

    /// What was typed.
    pub(super) fn read(typed: &mut Typed) -> Self {
        let values = typed.text("delete_values");
        let values = values
            .split(',')
            .map(str::trim)
            .filter(|one| !one.is_empty());
        let is: Vec<String> = values.map(str::to_owned).collect();
        let delete_when = match (typed.optional("delete_field"), is.is_empty()) {
            (None, true) => None,
            (Some(field), false) => Some(DeleteWhen { field, is }),
            (Some(_), true) => {
                typed.reject("delete_values", "Say which values.");
                None
            }
            (None, false) => {
                typed.reject("delete_field", "Say in which field.");
                None
            }
        };
        let expire = typed.number("expire_after_seconds", STALE_SECONDS_MAX);
        Self {
            version: typed.optional("version"),
            delete_when,
            expire_after_seconds: expire.and_then(|seconds| u32::try_from(seconds).ok()),
        }
    }
}
