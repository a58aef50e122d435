//! The query of a page of items, in its URL.
//!
//! **Invariant**: a URL that is built here is read as the same query.

use std::borrow::Cow;

use salvo_core::Request;

use super::read::READ_MAX;
use super::{COLUMNS_MAX, VALUE_BYTES_MAX, escaped};
use crate::form::filter::refusal;
use crate::frame::NoPage;
use crate::grid::Direction;
use crate::text::segment;
use pool::Item;
use select::{Scope, SortBy, Source};

/// Maximum filters of a query.
const FILTERS_MAX: usize = 20;

/// The order of the items.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// The most recently updated first.
    #[default]
    Updated,
    Key,
    Field(SortBy),
}

impl Order {
    /// Reads the order in a URL; a field that has the name of another order is escaped with a backslash.
    fn read(text: &str) -> Option<Self> {
        match text {
            "" | "updated" => Some(Self::Updated),
            "key" => Some(Self::Key),
            text => match &SortBy::parse(text, Scope::ANSWER).ok()?[..] {
                [by] if !by.source.name().is_empty() => Some(Self::Field(by.clone())),
                _ => None,
            },
        }
    }

    fn text(&self) -> Cow<'static, str> {
        let Self::Field(by) = self else {
            return match self {
                Self::Key => "key".into(),
                _ => "".into(),
            };
        };
        let (name, sign) = (by.source.name(), if by.descends { "-" } else { "" });
        let needs_mark = name.starts_with('-') || ["key", "updated"].contains(&&*name);
        let mark = if needs_mark { "\\" } else { "" };
        format!("{sign}{mark}{}", escaped(&name)).into()
    }

    /// The order by a field, in reverse if it is already the order. `None`: the name is too long for a URL.
    pub(super) fn by_field(&self, name: &str) -> Option<Self> {
        let descends = self.direction_of(name) == Some(Direction::Ascending);
        let source = Source::field(name);
        let is_short = (1..=VALUE_BYTES_MAX).contains(&name.len());
        is_short.then_some(Self::Field(SortBy { source, descends }))
    }

    /// The direction, if this field determines the order.
    pub(super) fn direction_of(&self, name: &str) -> Option<Direction> {
        match self {
            Self::Field(by) if by.source == Source::field(name) => Some(match by.descends {
                true => Direction::Descending,
                false => Direction::Ascending,
            }),
            _ => None,
        }
    }
}

/// The start of the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// After this key.
    After(String),
    /// Before this change.
    Before(u64),
    /// At this row, from 0.
    From(usize),
}

/// The query of a page of items.
#[derive(Debug, Default, Clone)]
pub(in super::super) struct ItemQuery {
    /// A prefix of the key.
    pub(super) prefix: String,
    pub(super) order: Order,
    /// Conditions, such as `status:live`.
    pub(super) filters: Vec<String>,
    pub(super) columns: Vec<String>,
    /// The page begins after this key, or before this change.
    pub(super) after: Option<String>,
    pub(super) before: Option<u64>,
    /// The page begins at this row, if the items are sorted by a field.
    pub(super) from: usize,
}

impl ItemQuery {
    pub(in super::super) fn read(req: &Request) -> Result<Self, NoPage> {
        let text = |name: &str| req.query::<String>(name).unwrap_or_default();
        let all = |name: &str, max: usize| -> Vec<String> {
            let found = req.queries().get_vec(name).into_iter().flatten();
            let found = found.filter(|text| !text.is_empty());
            found.take(max).cloned().collect()
        };
        let order = Order::read(&text("sort")).ok_or_else(|| {
            refusal("Items can be sorted by `key`, `updated`, or one field, such as `-home.score`.")
        })?;
        let wrong = || refusal("This link is not valid. Open it again from the previous page.");
        let before = text("before");
        let from = match text("from").as_str() {
            "" => 0,
            number => number.parse().map_err(|_| wrong())?,
        };
        if from > READ_MAX {
            return Err(wrong());
        }
        Ok(Self {
            prefix: text("q").trim().to_owned(),
            order,
            filters: all("filter", FILTERS_MAX),
            columns: all("column", COLUMNS_MAX),
            after: Some(text("after")).filter(|key| !key.is_empty()),
            before: match before.as_str() {
                "" => None,
                number => Some(number.parse().map_err(|_| wrong())?),
            },
            from,
        })
    }

    /// The order in a URL.
    pub(super) fn sort(&self) -> Cow<'static, str> {
        self.order.text()
    }

    /// Whether the items are read in the order of keys: only the index of keys supports a prefix.
    pub(super) fn reads_by_key(&self) -> bool {
        self.order == Order::Key || !self.prefix.is_empty()
    }

    /// Whether the items are shown in the order of keys.
    pub(super) fn is_by_key(&self) -> bool {
        self.reads_by_key() && !matches!(self.order, Order::Field(_))
    }

    pub(super) fn is_newest_first(&self) -> bool {
        !self.reads_by_key() && self.order == Order::Updated
    }

    /// Whether this is not the first page.
    pub(in super::super) fn is_later(&self) -> bool {
        self.after.is_some() || self.before.is_some() || self.from > 0
    }

    /// Whether the query selects all items.
    pub(super) fn is_whole(&self) -> bool {
        self.filters.is_empty() && self.prefix.is_empty()
    }

    pub(super) fn address(&self, path: &str) -> String {
        let sort = self.sort();
        let filters = self.filters.iter().map(|filter| ("filter", &**filter));
        let columns = self.columns.iter().map(|column| ("column", &**column));
        let all = [("q", &*self.prefix), ("sort", &*sort)].into_iter();
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
            from: 0,
            ..self.clone()
        }
    }

    /// The first page in another order.
    pub(super) fn ordered(&self, order: Order) -> Self {
        Self {
            order,
            ..self.first()
        }
    }

    /// The first page with an additional filter.
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

    /// The page after an item, in the order of the index.
    pub(super) fn behind(&self, item: &Item) -> Next {
        match self.reads_by_key() {
            true => Next::After(item.key.clone()),
            false => Next::Before(item.seq.get()),
        }
    }

    /// The URL of the next page.
    pub(super) fn next(&self, path: &str, next: &Next) -> String {
        let address = self.address(path);
        let sign = if address.contains('?') { '&' } else { '?' };
        match next {
            Next::After(key) => format!("{address}{sign}after={}", segment(key)),
            Next::Before(change) => format!("{address}{sign}before={change}"),
            Next::From(row) => format!("{address}{sign}from={row}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_from_its_own_text() {
        for name in [
            "n",
            "home.score",
            "key",
            "updated",
            "-",
            "-n",
            "a,b:c\\",
            "_key",
            "ü",
        ] {
            let ascending = Order::default().by_field(name).expect("it is short");
            let descending = ascending.by_field(name).expect("it is short");
            assert_eq!(descending.by_field(name), Some(ascending.clone()), "{name}");
            for order in [ascending, descending] {
                assert_eq!(Order::read(&order.text()), Some(order.clone()), "{order:?}");
            }
        }
        for order in [Order::Updated, Order::Key] {
            assert_eq!(Order::read(&order.text()), Some(order));
        }
        assert_eq!(Order::default().by_field(""), None);
        for wrong in ["a,b", ",", "-"] {
            assert_eq!(Order::read(wrong), None, "{wrong}");
        }
    }
}
