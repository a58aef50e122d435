//! Forms: the values that were sent, the errors in them, and the change that they describe.
//!
//! Pages that change something use it: a rejected form is shown again with the values that were sent. Its controls are
//! in `form/controls.rs`, its messages in `form/words.rs`.
//!
//! **Invariant**: values are shown again, except secrets and values that look like one. Every message is shown at its
//! field and in the list above the form, and the first invalid field has the focus.

mod controls;
pub(super) mod filter;
mod record;
mod words;

use maud::{Markup, html};
use salvo_core::http::StatusCode;
use salvo_core::{Depot, Handler, Request, Router};

pub(super) use controls::{Field, NAME, buttons};
pub(super) use words::{form_time, parse_time};

use super::form_data::FormData;
use super::frame::{FormAnswer, FormPage, NoPage, token};
use super::guard::{AsWrite, by};
use super::text::{as_sentence, grouped};
use base::clock::Unix;
use catalog::{Actor, Catalog, CatalogError, ResourceKind};
use operate::Operator;
use settings::check_name;

/// Maximum characters of a message, which can contain a value.
const MESSAGE_CHARS_MAX: usize = 400;

/// Routes of a page with a form that is sent to its own path.
pub(super) fn route<H: Handler>(path: &str, handler: impl Fn() -> H) -> Router {
    Router::with_path(path)
        .hoop(AsWrite)
        .get(handler())
        .post(handler())
}

/// The fields of a form: with the values that were sent, or with initial values.
#[derive(Debug, Default)]
pub(super) struct Typed {
    data: FormData,
    /// The form token, which the form must contain.
    token: Markup,
    /// The field with the focus if no field is invalid.
    first: &'static str,
    wrong: Vec<(&'static str, String)>,
    /// An error of the form as a whole.
    why: Option<String>,
    status: StatusCode,
}

impl Typed {
    /// A form with initial values; `first` has the focus.
    pub(super) fn new(depot: &Depot, first: &'static str, values: &[(&str, String)]) -> Self {
        let mut data = FormData::default();
        for (name, value) in values {
            data.put(name, value.clone());
        }
        Self {
            data,
            token: token(depot),
            first,
            ..Self::default()
        }
    }

    /// As `new`, with initial values as form data.
    pub(super) fn filled(depot: &Depot, first: &'static str, data: FormData) -> Self {
        Self {
            data,
            ..Self::new(depot, first, &[])
        }
    }

    /// The form that was sent; `None`: the page is only requested.
    pub(super) fn sent(depot: &Depot) -> Option<Self> {
        let data = FormData::of(depot)?.clone();
        Some(Self {
            data,
            token: token(depot),
            ..Self::default()
        })
    }

    /// Adds the fields of `initial` that were not sent.
    pub(super) fn with_defaults(mut self, initial: Self) -> Self {
        self.data.append(initial.data);
        self
    }

    /// A field, unchanged.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.data.get(name).unwrap_or_default()
    }

    /// A field without surrounding whitespace.
    pub(super) fn text(&self, name: &str) -> String {
        self.raw(name).trim().to_owned()
    }

    /// A text; `None` if it is empty.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The name of a connector or key.
    pub(super) fn name(&mut self) -> String {
        let name = self.text("name");
        if name.is_empty() {
            self.reject("name", "Enter a name.");
        } else if let Err(message) = check_name(&name) {
            self.reject("name", as_sentence(&message));
        }
        name
    }

    /// Whether a checkbox is checked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        self.all(name).iter().any(|word| word == "yes")
    }

    /// Whether the form has this field.
    pub(super) fn has(&self, name: &str) -> bool {
        self.data.get(name).is_some()
    }

    /// All values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.data.all(name).map(str::to_owned).collect()
    }

    /// A whole number from `min` to `max`, or nothing; other values are invalid.
    pub(super) fn number(&mut self, name: &'static str, min: u64, max: u64) -> Option<u64> {
        let text = self.optional(name)?;
        let number = text.parse::<u64>().ok();
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.reject(
                name,
                format!(
                    "Enter a whole number from {min} to {}, or nothing.",
                    grouped(max)
                ),
            );
        }
        number
    }

    /// A time, or nothing.
    pub(super) fn time(&mut self, name: &'static str) -> Option<Unix> {
        let text = self.optional(name)?;
        let time = parse_time(&text);
        if time.is_none() {
            self.reject(
                name,
                "Enter a time such as 2030-01-31T12:00, in UTC, or nothing.",
            );
        }
        time
    }

    /// One of several words; other values are invalid.
    pub(super) fn choice<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.raw(name);
        let found = words.iter().find(|(word, _)| *word == text);
        let found = found.map(|(_, meant)| *meant);
        if found.is_none() {
            self.reject(name, "Choose one of these.");
        }
        found
    }

    /// Adds a message to a field.
    pub(super) fn reject(&mut self, name: &'static str, message: impl Into<String>) {
        self.status = StatusCode::BAD_REQUEST;
        let message: String = message.into();
        let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
        self.wrong.push((name, message));
    }

    /// Whether a field is invalid.
    fn is_rejected(&self, name: &str) -> bool {
        self.wrong.iter().any(|(wrong, _)| *wrong == name)
    }

    /// Whether anything is invalid.
    pub(super) fn is_wrong(&self) -> bool {
        !self.wrong.is_empty() || self.why.is_some()
    }

    /// Answers with the form's page.
    pub(super) fn show(&self, page: FormPage) -> FormAnswer {
        FormAnswer::Form(self.status, page)
    }

    /// Adds the reason why the catalog rejected a change. `fields` maps names in the admin API to names in the form,
    /// where they differ.
    ///
    /// # Errors
    /// The form cannot show the error.
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
            CatalogError::Invalid { field, fault } => {
                let field = named(words::field_of(field, &fault));
                self.reject(field, words::of_fault(&fault));
            }
            CatalogError::Taken(kind) => {
                let field = match kind {
                    ResourceKind::Stream => named("new_stream"),
                    _ => "name",
                };
                self.reject(field, as_sentence(&error.to_string()));
                self.status = StatusCode::CONFLICT;
            }
            CatalogError::NotFound(_) => {
                return Err(NoPage::NotFound(
                    "It no longer exists: another user deleted it.",
                ));
            }
            CatalogError::InUse(_)
            | CatalogError::Declared(_)
            | CatalogError::Revoked
            | CatalogError::NoneSent(_)
            | CatalogError::PoolBehind
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

    /// Makes the change, unless a field is invalid. `None`: the form is invalid. `fields` is as in [`Typed::refuse`].
    ///
    /// # Errors
    /// The form cannot show the error.
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

    /// As `submit`, for a change that creates the stream with this name, if any.
    pub(super) async fn submit_with<T: Send + 'static>(
        &mut self,
        stream: Option<String>,
        operator: &Operator,
        req: &Request,
        fields: &[(&str, &'static str)],
        work: impl FnOnce(&Catalog, &Actor) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<Option<T>, NoPage> {
        if let Some(stream) = stream.filter(|_| !self.is_wrong())
            && let Err(error) = operator.clear_former(&stream, by(req).client).await
        {
            return self.refuse(error, fields).map(|()| None);
        }
        self.submit(operator, req, fields, work).await
    }

    /// The form with its fields and buttons, below the messages. Without a path, it is sent to its own page.
    pub(super) fn panel(&self, path: Option<&str>, fields: &Markup) -> Markup {
        html! {
            (self.problems())
            form.panel method="post" action=[path] { (self.token) (fields) }
        }
    }

    /// One of several forms on a page, which shows the messages itself.
    pub(super) fn form(&self, path: &str, fields: &Markup) -> Markup {
        html! { form.panel method="post" action=(path) { (self.token) (fields) } }
    }

    /// A confirmation before data is lost. The cancel button has the focus.
    pub(super) fn question(&self, what: &Markup, does: &str, back: &str) -> Markup {
        self.panel(None, &html! {
            (what)
            p.row { button.danger { (does) } a.button.plain href=(back) autofocus[!self.is_wrong()] { "Cancel" } }
        })
    }

    /// The messages, with a link to each field.
    pub(super) fn problems(&self) -> Markup {
        html! {
            @if self.is_wrong() {
                div.problem role="alert" tabindex="-1" autofocus[self.wrong.is_empty()] {
                    @if let Some(why) = &self.why { p { (why) } }
                    @if !self.wrong.is_empty() {
                        p { "Nothing was changed. Correct these fields:" }
                        ul { @for (name, message) in &self.wrong { li { a href={ "#" (name) } { (message) } } } }
                    }
                }
            }
        }
    }
}
