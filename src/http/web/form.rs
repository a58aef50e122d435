//! Forms: what was typed, what is wrong with it, and how both are shown.
//!
//! The pages that change something are built with it: a form that is refused comes back as it was sent.
//!
//! **Invariant**: what was typed comes back, but for what looks like a secret. Every message stands at its field and
//! in the list above the form, and the first field that is wrong has the focus.

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Request};

use super::frame::{FormPage, NoPage, Sent};
use super::guard::{Form, by};
use super::text::{as_sentence, grouped, plain};
use crate::catalog::{Actor, Catalog, CatalogError, Fault, KeyState, Kind, looks_secret};
use crate::clock;
use crate::config::check_name;
use crate::operate::Operator;

/// Characters of a message, which may name what was typed.
const MESSAGE_CHARS_MAX: usize = 400;
/// Streams that a form lists; where there are more, a name is typed.
const STREAMS_LISTED_MAX: usize = 500;

/// What was typed into a form, or stands in it at first.
#[derive(Debug, Default)]
pub(super) struct Typed {
    form: Form,
    /// The field with the focus when nothing is wrong.
    first: &'static str,
    wrong: Vec<(&'static str, String)>,
    /// What is wrong with no field in particular.
    why: Option<String>,
    status: StatusCode,
}

/// What stands around a control.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    /// In the form that is sent, and the id.
    pub(super) name: &'static str,
    /// What it is called.
    pub(super) label: &'a str,
    /// What may be typed; empty: nothing needs to be said.
    pub(super) hint: &'a str,
}

impl Typed {
    /// A form that nobody has sent yet; `first` has the focus.
    pub(super) fn new(first: &'static str, values: &[(&str, String)]) -> Self {
        let mut form = Form::default();
        for (name, value) in values {
            form.put(name, value.clone());
        }
        Self {
            form,
            first,
            ..Self::default()
        }
    }

    /// The form that was sent.
    pub(super) fn sent(depot: &Depot) -> Self {
        Self {
            form: Form::of(depot).cloned().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// With what `begun` holds of forms that were not sent.
    pub(super) fn or(mut self, begun: Self) -> Self {
        self.form.append(begun.form);
        self
    }

    /// A field as it was sent.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.form.get(name).unwrap_or_default()
    }

    /// A field without the space around it.
    pub(super) fn text(&self, name: &str) -> String {
        self.raw(name).trim().to_owned()
    }

    /// A text that may be missing.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The name of a connector or key.
    pub(super) fn name(&mut self) -> String {
        let name = self.text("name");
        if name.is_empty() {
            self.wrong("name", "Give it a name.");
        } else if let Err(message) = check_name(&name) {
            self.wrong("name", as_sentence(&message));
        }
        name
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.raw(name) == "yes"
    }

    /// All that were chosen.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.form.all(name).map(str::to_owned).collect()
    }

    /// A whole number up to `max` that may be missing; anything else is wrong.
    pub(super) fn number(&mut self, name: &'static str, max: u64) -> Option<u64> {
        let text = self.optional(name)?;
        let number = text.parse::<u64>().ok();
        let number = number.filter(|number| (1..=max).contains(number));
        if number.is_none() {
            self.wrong(
                name,
                format!(
                    "Give a whole number from 1 to {}, or nothing.",
                    grouped(max)
                ),
            );
        }
        number
    }

    /// A time that may be missing: Unix time in milliseconds.
    pub(super) fn time(&mut self, name: &'static str) -> Option<u64> {
        let text = self.optional(name)?;
        let time = unix_ms(&text);
        if time.is_none() {
            self.wrong(
                name,
                "Give a time like 2030-01-31T12:00, in UTC, or nothing.",
            );
        }
        time
    }

    /// One of some words; anything else is wrong.
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.raw(name);
        let found = words.iter().find(|(word, _)| *word == text);
        let found = found.map(|(_, meant)| *meant);
        if found.is_none() {
            self.wrong(name, "Choose one of these.");
        }
        found
    }

    /// Notes what is wrong with a field.
    pub(super) fn wrong(&mut self, name: &'static str, message: impl Into<String>) {
        self.status = StatusCode::BAD_REQUEST;
        let message: String = message.into();
        let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
        self.wrong.push((name, message));
    }

    /// Whether something is.
    pub(super) fn is_wrong(&self) -> bool {
        !self.wrong.is_empty() || self.why.is_some()
    }

    /// The form's page again.
    pub(super) fn again(&self, page: FormPage) -> Sent {
        Sent::Again(self.status, page)
    }

    /// Notes why the catalog made no change. `fields` are those of the form that have other names than in the
    /// admin API.
    ///
    /// # Errors
    /// The form cannot help.
    fn refuse(
        &mut self,
        error: CatalogError,
        fields: &[(&str, &'static str)],
    ) -> Result<(), NoPage> {
        let named = |field: &'static str| {
            let other = fields.iter().find(|(known, _)| *known == field);
            other.map_or(field, |(_, name)| *name)
        };
        match error {
            CatalogError::Invalid { field, fault } => self.wrong(named(field), in_words(&fault)),
            CatalogError::Taken(kind) => {
                let field = match kind {
                    Kind::Stream => named("new_stream"),
                    _ => "name",
                };
                self.wrong(field, as_sentence(&error.to_string()));
                self.status = StatusCode::CONFLICT;
            }
            CatalogError::NotFound(_) => {
                return Err(NoPage::NotFound(
                    "It is not there any more: somebody else has deleted it.",
                ));
            }
            CatalogError::InUse(_)
            | CatalogError::Declared(_)
            | CatalogError::Revoked
            | CatalogError::Full { .. } => {
                self.why = Some(format!("Nothing was changed: {error}."));
                self.status = StatusCode::CONFLICT;
            }
            error if error.passes() => {
                self.why = Some(as_sentence(&error.to_string()));
                self.status = StatusCode::SERVICE_UNAVAILABLE;
            }
            error => return Err(error.into()),
        }
        Ok(())
    }

    /// Makes the change that was typed, unless something is wrong with it; none: something is, and is noted. `fields` are
    /// as in [`Typed::refuse`].
    ///
    /// # Errors
    /// The form cannot help.
    pub(super) async fn submit<T: Send + 'static>(
        &mut self,
        operator: &Operator,
        req: &Request,
        fields: &[(&str, &'static str)],
        work: impl FnOnce(&Catalog, &Actor) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<Option<T>, NoPage> {
        if self.is_wrong() {
            return Ok(None);
        }
        match operator.change(by(req), work).await {
            Ok(done) => Ok(Some(done)),
            Err(error) => self.refuse(error, fields).map(|()| None),
        }
    }

    /// What is wrong, with a link to each field.
    pub(super) fn problems(&self) -> Markup {
        html! {
            @if self.is_wrong() {
                div.problem role="alert" tabindex="-1" autofocus[self.wrong.is_empty()] {
                    @if let Some(why) = &self.why { p { (why) } }
                    @if !self.wrong.is_empty() {
                        p { "Nothing was changed. Look again at:" }
                        ul { @for (name, message) in &self.wrong { li { a href={ "#" (name) } { (message) } } } }
                    }
                }
            }
        }
    }

    /// A line of text.
    pub(super) fn input(&self, field: Field<'_>, chars_max: usize, required: bool) -> Markup {
        self.around(field, html! {
            input id=(field.name) name=(field.name) type="text" value=(self.shown(field.name)) maxlength=(chars_max)
                required[required] autocomplete="off" autocapitalize="off" spellcheck="false" dir="auto"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// A whole number; `usual` is what counts if there is none.
    pub(super) fn number_input(&self, field: Field<'_>, usual: &str) -> Markup {
        self.around(field, html! {
            input id=(field.name) name=(field.name) type="text" inputmode="numeric" value=(self.shown(field.name)) maxlength="12"
                placeholder=(usual) autocomplete="off" size="14"
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// A time in UTC.
    pub(super) fn time_input(&self, field: Field<'_>) -> Markup {
        let value = self.shown(field.name);
        // A browser shows nothing of what is no time.
        let is_time = value.is_empty() || unix_ms(value).is_some();
        let kind = if is_time { "datetime-local" } else { "text" };
        self.around(field, html! {
            input id=(field.name) name=(field.name) type=(kind) step=[is_time.then_some("1")] value=(value)
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)];
        })
    }

    /// One of some words.
    pub(super) fn select(&self, field: Field<'_>, words: &[(&str, &str)]) -> Markup {
        let chosen = self.raw(field.name);
        self.around(field, html! {
            select id=(field.name) name=(field.name)
                aria-describedby=[self.described(field)] aria-invalid=[self.invalid(field.name)] autofocus[self.is_first(field.name)] {
                @for (word, shown) in words { option value=(word) selected[*word == chosen] { (shown) } }
            }
        })
    }

    /// A stream that there is. `other` is what stands before them, if none of them may be chosen.
    pub(super) fn stream_select(
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

    /// Some of the streams that there are, and of those that were chosen.
    pub(super) fn stream_boxes(&self, field: Field<'_>, catalog: &Catalog) -> Markup {
        let chosen = self.all(field.name);
        let mut names: Vec<String> = chosen.clone();
        names.extend(catalog.streams().iter().map(|one| one.name.to_string()));
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
                @if beyond { label { "One more, by its name " input name=(field.name) type="text" maxlength="256" dir="auto"; } }
                @if names.is_empty() && !beyond { p.quiet { "There is no stream yet. " a href="/new/stream" { "Make one" } " first." } }
            }
        }
    }

    /// A box to tick.
    pub(super) fn tick(&self, field: Field<'_>) -> Markup {
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

    /// The hint, and what is wrong.
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

/// How a key is ended: what is asked before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Revoke,
    Delete,
}

/// Buttons at the end of a form: what it does, and the way back.
pub(super) fn buttons(does: &str, back: &str) -> Markup {
    html! { p.row { button { (does) } a.button.plain href=(back) { "Cancel" } } }
}

/// The field that [`Typed::name`] reads.
pub(super) const NAME: Field<'_> = Field {
    name: "name",
    label: "Name",
    hint: "What it is called here: letters, digits, dots, dashes and underscores.",
};

/// A question before something is lost. The way back has the focus.
pub(super) fn question(
    typed: &Typed,
    token: &Markup,
    what: &Markup,
    does: &str,
    back: &str,
) -> Markup {
    html! {
        (typed.problems())
        form.panel method="post" {
            (token)
            (what)
            p.row { button.danger { (does) } a.button.plain href=(back) autofocus[!typed.is_wrong()] { "Cancel" } }
        }
    }
}

/// What is declared cannot be changed here.
pub(super) fn declared(list: &str, source: &str) -> Markup {
    html! { span.badge { "declared" } " in " code { (plain(source)) } " under " code { "[[" (list) "]]" } ", so it is changed there" }
}

/// Whether a key can be used, and how long.
pub(super) fn key_state(state: KeyState, expires_ms: Option<u64>, is_replaced: bool) -> Markup {
    let ends = expires_ms.map(|ends_ms| super::text::time(&clock::rfc3339(ends_ms)));
    html! {
        @match (state, ends) {
            (KeyState::Revoked, _) => span.badge.bad { "revoked" },
            (KeyState::Expired, Some(ends)) => { span.badge.bad { "ended" } " " (ends) },
            (KeyState::Expired, None) => span.badge.bad { "ended" },
            (KeyState::Active, Some(ends)) if is_replaced => { span.badge.warn { "grace until" } " " (ends) },
            (KeyState::Active, Some(ends)) => { span.badge.good { "active" } " ends " (ends) },
            (KeyState::Active, None) => span.badge.good { "active" },
        }
    }
}

/// A time as forms send it, in UTC, with or without seconds: Unix time in milliseconds.
pub(super) fn unix_ms(text: &str) -> Option<u64> {
    clock::parse_rfc3339(&format!("{text}Z"))
        .or_else(|| clock::parse_rfc3339(&format!("{text}:00Z")))
}

/// A time as a form shows it, or nothing.
pub(super) fn form_time(unix_ms: Option<u64>) -> String {
    let text = unix_ms.map(clock::rfc3339).unwrap_or_default();
    text.get(..19).unwrap_or_default().to_owned()
}

/// What is wrong with a field, below the field.
fn in_words(fault: &Fault) -> String {
    match fault {
        Fault::NoStream { meant: None, .. } => {
            format!(
                "{} Make it first: the page Data pool has the button New stream.",
                as_sentence(&fault.to_string())
            )
        }
        Fault::Ended => {
            "The key has ended: say when the new one ends, or that it never does.".to_owned()
        }
        fault => as_sentence(&fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_form_are_utc() {
        assert_eq!(unix_ms("1970-01-01T00:01"), Some(60_000));
        assert_eq!(unix_ms("1970-01-01T00:01:02"), Some(62_000));
        assert_eq!(unix_ms("yesterday"), None);
        assert_eq!(form_time(Some(62_003)), "1970-01-01T00:01:02");
        assert_eq!(form_time(None), "");
    }

    #[test]
    fn what_is_wrong_is_a_sentence_that_names_no_route() {
        let check = |fault: Fault, expected| assert_eq!(in_words(&fault), expected);
        check(
            Fault::Form("wants 1 to 64 letters".to_owned()),
            "Wants 1 to 64 letters.",
        );
        check(Fault::Range { min: 1, max: 9 }, "Must be from 1 to 9.");
        let no_stream = |meant: Option<&str>| Fault::NoStream {
            name: "none".to_owned(),
            meant: meant.map(str::to_owned),
        };
        check(
            no_stream(Some("nine")),
            "There is no stream \"none\"; did you mean \"nine\"?",
        );
        check(
            no_stream(None),
            "There is no stream \"none\". Make it first: the page Data pool has the button New stream.",
        );
    }

    #[test]
    fn what_was_typed_comes_back_escaped_and_a_secret_does_not() {
        let values = [
            ("name", "\"><script>".to_owned()),
            ("item_key", "ik_live_x".to_owned()),
        ];
        let mut typed = Typed::new("name", &values);
        typed.wrong("item_key", "It is wrong.");
        let field = |name| Field {
            name,
            label: "L",
            hint: "",
        };
        let shown = typed.input(field("name"), 64, true).into_string();
        assert!(
            shown.contains("value=\"&quot;&gt;&lt;script&gt;\""),
            "{shown}"
        );
        assert!(!shown.contains("autofocus"), "{shown}");
        let shown = typed.input(field("item_key"), 64, true).into_string();
        assert!(
            shown.contains("value=\"\"") && shown.contains("autofocus"),
            "{shown}"
        );
        assert!(
            shown.contains("aria-describedby=\"item_key-wrong\""),
            "{shown}"
        );
        assert!(shown.contains("It is wrong."), "{shown}");
    }
}
