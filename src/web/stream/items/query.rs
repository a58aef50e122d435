//! Which items of a stream a page asks for, as its address says it.
//!
//! **Invariant**: an address that is made here is read here as the same query.

use salvo_core::Request;

use super::COLUMNS_MAX;
use crate::form::filter::refusal;
use crate::frame::NoPage;
use crate::text::segment;
use pool::Item;

/// Filters at once.
const FILTERS_MAX: usize = 20;

/// Which items are asked for.
#[derive(Debug, Default, Clone)]
pub(in super::super) struct ItemQuery {
    /// The beginning of a key.
    pub(super) prefix: String,
    pub(super) by_key: bool,
    /// Conditions, such as `status:live`.
    pub(super) filters: Vec<String>,
    pub(super) columns: Vec<String>,
    /// Behind this key, or below this change.
    pub(super) after: Option<String>,
    pub(super) before: Option<u64>,
}

impl ItemQuery {
    pub(in super::super) fn read(req: &Request) -> Result<Self, NoPage> {
        let text = |name: &str| req.query::<String>(name).unwrap_or_default();
        let all = |name: &str, max: usize| -> Vec<String> {
            let found = req.queries().get_vec(name).into_iter().flatten();
            let found = found.filter(|text| !text.is_empty());
            found.take(max).cloned().collect()
        };
        let by_key = match text("sort").as_str() {
            "key" => true,
            "" | "updated" => false,
            _ => return Err(refusal("Items can be sorted by `key` or `updated`.")),
        };
        let before = text("before");
        let prefix = text("q").trim().to_owned();
        Ok(Self {
            // An index leads to the beginning of a key only in the order of keys.
            by_key: by_key || !prefix.is_empty(),
            prefix,
            filters: all("filter", FILTERS_MAX),
            columns: all("column", COLUMNS_MAX),
            after: Some(text("after")).filter(|key| !key.is_empty()),
            before: match before.as_str() {
                "" => None,
                number => Some((number.parse()).map_err(|_| {
                    refusal("This link is not valid. Open it again from the previous page.")
                })?),
            },
        })
    }

    /// Whether it is not the first page.
    pub(in super::super) fn is_later(&self) -> bool {
        self.after.is_some() || self.before.is_some()
    }

    /// Whether it leaves nothing out.
    pub(super) fn is_whole(&self) -> bool {
        self.filters.is_empty() && self.prefix.is_empty()
    }

    pub(super) fn address(&self, path: &str) -> String {
        let sort = ("sort", if self.by_key { "key" } else { "" });
        let filters = self.filters.iter().map(|filter| ("filter", &**filter));
        let columns = self.columns.iter().map(|column| ("column", &**column));
        let all = [("q", &*self.prefix), sort].into_iter();
        let given = all.chain(filters).chain(columns);
        let given = given.filter(|(_, value)| !value.is_empty());
        let parts: Vec<String> = given
            .map(|(name, value)| format!("{name}={}", segment(value)))
            .collect();
        match parts.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", parts.join("&")),
        }
    }

    pub(super) fn first(&self) -> Self {
        Self {
            after: None,
            before: None,
            ..self.clone()
        }
    }

    /// The same with one filter more.
    pub(super) fn with(&self, filter: &str) -> Self {
        let mut query = self.first();
        if !query.filters.iter().any(|known| known == filter) {
            query.filters.push(filter.to_owned());
        }
        query
    }

    pub(super) fn without(&self, filter: &str) -> Self {
        let mut query = self.first();
        query.filters.retain(|known| known != filter);
        query
    }

    /// The address of the page after an item.
    pub(super) fn next(&self, path: &str, last: &Item) -> String {
        let address = self.address(path);
        let sign = if address.contains('?') { '&' } else { '?' };
        match self.by_key {
            true => format!("{address}{sign}after={}", segment(&last.key)),
            false => format!("{address}{sign}before={}", last.seq),
        }
    }
}
