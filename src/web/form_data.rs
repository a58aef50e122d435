//! The fields of a form, as a browser sends them.
//!
//! `guard` reads them before the handler of a page, and passes them on in the depot.
//!
//! **Invariant**: the size of a body is limited, and its values never appear in a message or in `Debug`.

use std::fmt;

use salvo_core::{Depot, Request};

use http::body;

/// The field of every form that contains the session's form token.
pub(super) const FORM_TOKEN: &str = "form_token";

/// The fields of a form. `Debug` shows only their names: a value can be a secret.
#[derive(Default, Clone)]
pub(super) struct FormData(Vec<(String, String)>);

impl fmt::Debug for FormData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl FormData {
    /// Reads the body; the error is the reason why it is invalid.
    pub(super) async fn read(req: &mut Request, bytes_max: usize) -> Result<Self, String> {
        let body = body::at_most(req, bytes_max)
            .await
            .map_err(|error| error.message)?;
        let body = std::str::from_utf8(body).map_err(|_| "the form is not UTF-8".to_owned())?;
        let fields = form_urlencoded::parse(body.as_bytes());
        Ok(Self(fields.into_owned().collect()))
    }

    /// The form of a write that passed [`RequireSession`].
    pub(super) fn of(depot: &Depot) -> Option<&Self> {
        depot.get_typed::<Self>().ok()
    }

    /// The value of the first field with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The values of all fields with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The fields below a path, with dots between names.
    pub(super) fn names_below<'a>(
        &'a self,
        path: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let below = move |(name, value): &'a (String, String)| {
            let rest = name.strip_prefix(path)?;
            rest.starts_with('.')
                .then_some((name.as_str(), value.as_str()))
        };
        self.0.iter().filter_map(below)
    }

    /// All fields, in their order.
    #[cfg(test)]
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(super) fn put(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// Appends other fields. [`get`](Self::get) returns one of them only if this form has no field with its name.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}
