//! The controls of a form: inputs with labels, hints and messages.
//!
//! **Invariant**: the id of a control is the name of its field, and the control references its hint and its message for
//! screen readers.

use maud::{Markup, html};

use super::{Typed, parse_time};
use crate::text::plain;
use catalog::Catalog;
use settings::looks_secret;

/// Maximum streams that a form lists; if there are more, the form has a text field for the name.
const STREAMS_LISTED_MAX: usize = 500;

/// Maximum characters of a secret. A browser cuts longer input, so it exceeds the secrets of all providers.
const SECRET_CHARS_MAX: usize = 4_096;
/// Maximum characters of several lines: certificates with their chains, key sets.
const LINES_CHARS_MAX: usize = 32_768;

/// The name and the texts of a control.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    /// The name in the form that is sent, and the id.
    pub(crate) name: &'static str,
    pub(crate) label: &'a str,
    /// The hint; empty: none.
    pub(crate) hint: &'a str,
}

impl Typed {
    pub(crate) fn input(&self, field: Field<'_>, chars_max: usize, required: bool) -> Markup {
        self.around(field, html! {
            input id=(field.name) name=(field.name) type="text" value=(self.shown(field.name)) maxlength=(chars_max)
                required[required] autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// A required secret. Its value is never shown again.
    pub(crate) fn secret_input(&self, field: Field<'_>) -> Markup {
        self.any_secret_input(field, true)
    }

    pub(crate) fn secret_field(&self, field: Field<'_>) -> Markup {
        self.any_secret_input(field, false)
    }

    /// A secret that the provider may create.
    pub(crate) fn known_secret_input(&self, field: Field<'_>) -> Markup {
        self.any_secret_input(field, false)
    }

    fn any_secret_input(&self, field: Field<'_>, required: bool) -> Markup {
        self.around(field, html! {
            input id=(field.name) name=(field.name) type="password" maxlength=(SECRET_CHARS_MAX) required[required]
                autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// The content of a text file. It is never shown again, because it may be the wrong file, such as a private key.
    pub(crate) fn lines_input(&self, field: Field<'_>) -> Markup {
        self.around(field, html! {
            textarea.mono id=(field.name) name=(field.name) rows="6" maxlength=(LINES_CHARS_MAX) required
                autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)] {}
        })
    }

    /// A whole number; `usual` is the default.
    pub(crate) fn number_input(&self, field: Field<'_>, usual: &str) -> Markup {
        self.around(field, html! {
            input id=(field.name) name=(field.name) type="text" inputmode="numeric" value=(self.shown(field.name)) maxlength="16"
                placeholder=(usual) autocomplete="off" size="14"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// A time in UTC.
    pub(crate) fn time_input(&self, field: Field<'_>) -> Markup {
        let value = self.shown(field.name);
        // A browser shows nothing if the value is not a time.
        let is_time = value.is_empty() || parse_time(value).is_some();
        let kind = if is_time { "datetime-local" } else { "text" };
        self.around(field, html! {
            input id=(field.name) name=(field.name) type=(kind) step=[is_time.then_some("1")] value=(value)
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    pub(crate) fn select(&self, field: Field<'_>, words: &[(&str, &str)]) -> Markup {
        let chosen = self.raw(field.name);
        self.around(field, html! {
            select id=(field.name) name=(field.name)
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)] {
                @for (word, shown) in words { option value=(word) selected[*word == chosen] { (shown) } }
            }
        })
    }

    /// A choice of streams. `other` is the first choice if the stream is optional.
    pub(crate) fn stream_select(
        &self,
        field: Field<'_>,
        catalog: &Catalog,
        other: Option<&str>,
    ) -> Markup {
        let streams = catalog.streams();
        if streams.len() > STREAMS_LISTED_MAX {
            return self.input(field, 256, other.is_none());
        }
        let shown: Vec<String> = streams.iter().map(|one| plain(&one.name)).collect();
        let mut words: Vec<(&str, &str)> = other.map(|other| ("", other)).into_iter().collect();
        let names = streams.iter().map(|one| &*one.name);
        words.extend(names.zip(shown.iter().map(String::as_str)));
        self.select(field, &words)
    }

    /// Checkboxes for all streams, including chosen streams that no longer exist.
    pub(crate) fn stream_boxes(&self, field: Field<'_>, catalog: &Catalog) -> Markup {
        let chosen = self.all(field.name);
        let mut names: Vec<String> = chosen.clone();
        names.extend(
            catalog
                .readable_streams()
                .iter()
                .map(|one| one.name.to_string()),
        );
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !name.is_empty());
        let beyond = names.len() > STREAMS_LISTED_MAX;
        if beyond {
            names.retain(|name| chosen.contains(name));
        }
        let focus = self.is_first(field.name);
        html! {
            fieldset.field #(field.name) tabindex="-1" aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[focus] {
                legend { (field.label) }
                (self.beside(field))
                @for name in &names {
                    label.box { input type="checkbox" name=(field.name) value=(name) checked[chosen.contains(name)]; " " bdi { (plain(name)) } }
                }
                @if beyond { label { "Another stream, by name " input name=(field.name) type="text" maxlength="256" dir="auto"; } }
                @if names.is_empty() && !beyond { p.quiet { "No streams. " a href="/new/stream" { "Create a stream" } " first." } }
            }
        }
    }

    pub(crate) fn tick(&self, field: Field<'_>) -> Markup {
        html! {
            div.field {
                label.box {
                    input id=(field.name) type="checkbox" name=(field.name) value="yes" checked[self.is_ticked(field.name)]
                        aria-describedby=[self.described(field)] autofocus[self.is_first(field.name)];
                    " " (field.label)
                }
                (self.beside(field))
            }
        }
    }

    fn around(&self, field: Field<'_>, control: Markup) -> Markup {
        html! {
            div.field {
                label for=(field.name) { (field.label) }
                (control)
                (self.beside(field))
            }
        }
    }

    /// The hint and the message.
    fn beside(&self, field: Field<'_>) -> Markup {
        html! {
            @if !field.hint.is_empty() { p.hint id={ (field.name) "-hint" } { (field.hint) } }
            @if let Some(message) = self.message(field.name) { p.wrong id={ (field.name) "-wrong" } { (message) } }
        }
    }

    fn message(&self, name: &str) -> Option<&str> {
        let found = self.wrong.iter().find(|(wrong, _)| *wrong == name);
        found.map(|(_, message)| message.as_str())
    }

    fn described(&self, field: Field<'_>) -> Option<String> {
        let hint = (!field.hint.is_empty()).then(|| format!("{}-hint", field.name));
        let wrong = self.invalid(field.name);
        let wrong = wrong.map(|_| format!("{}-wrong", field.name));
        let ids: Vec<String> = wrong.into_iter().chain(hint).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    fn invalid(&self, name: &str) -> Option<&'static str> {
        self.message(name).map(|_| "true")
    }

    fn is_first(&self, name: &str) -> bool {
        match self.wrong.first() {
            Some((first, _)) => *first == name,
            None => self.why.is_none() && self.first == name,
        }
    }

    fn shown(&self, name: &str) -> &str {
        let text = self.raw(name);
        if looks_secret(text.trim()) { "" } else { text }
    }
}

/// Buttons at the end of a form: submit and cancel.
pub(crate) fn buttons(does: &str, back: &str) -> Markup {
    html! { p.row { button { (does) } a.button.plain href=(back) { "Cancel" } } }
}

/// The field that [`Typed::name`] reads.
pub(crate) const NAME: Field<'_> = Field {
    name: "name",
    label: "Name",
    hint: "Its name in Headgate: letters, digits, dots, dashes and underscores.",
};

#[cfg(test)]
mod tests;
