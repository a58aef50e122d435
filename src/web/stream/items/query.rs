//! Which items of a stream a page asks for, as its address says it.
//!
//! **Invariant**: an address that is made here is read here as the same query.

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

/// Filters at once.
const FILTERS_MAX: usize = 20;

/// In which order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Those first that were updated last.
    #[default]
    Updated,
    Key,
    Field(SortBy),
}

impl Order {
    /// As addresses have it; a field that is called like another order has a backslash before it.
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

    /// The order by a field: the other way around, if it is that already. None: no address has room for its name.
    pub(super) fn by_field(&self, name: &str) -> Option<Self> {
        let descends = self.direction_of(name) == Some(Direction::Ascending);
        let source = Source::field(name);
        let is_short = (1..=VALUE_BYTES_MAX).contains(&name.len());
        is_short.then_some(Self::Field(SortBy { source, descends }))
    }

    /// Which way it goes, if it is by this field.
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

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Behind this key.
    After(String),
    /// Below this change.
    Before(u64),
    /// At this row, the first is 0.
    From(usize),
}

/// Which items are asked for.
#[derive(Debug, Default, Clone)]
pub(in super::super) struct ItemQuery {
    /// The beginning of a key.
    pub(super) prefix: String,
    pub(super) order: Order,
    /// Conditions, such as `status:live`.
    pub(super) filters: Vec<String>,
    pub(super) columns: Vec<String>,
    /// Behind this key, or below this change.
    pub(super) after: Option<String>,
    pub(super) before: Option<u64>,
    /// From this row on, where they are sorted by a field.
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

    /// As addresses have the order.
    pub(super) fn sort(&self) -> Cow<'static, str> {
        self.order.text()
    }

    /// Whether they are read in the order of keys: an index leads to the beginning of a key only there.
    pub(super) fn reads_by_key(&self) -> bool {
        self.order == Order::Key || !self.prefix.is_empty()
    }

    /// Whether they are shown in the order of keys.
    pub(super) fn is_by_key(&self) -> bool {
        self.reads_by_key() && !matches!(self.order, Order::Field(_))
    }

    pub(super) fn is_newest_first(&self) -> bool {
        !self.reads_by_key() && self.order == Order::Updated
    }

    /// Whether it is not the first page.
    pub(in super::super) fn is_later(&self) -> bool {
        self.after.is_some() || self.before.is_some() || self.from > 0
    }

    /// Whether it leaves nothing out.
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

    /// The page behind an item, in the order of the index.
    pub(super) fn behind(&self, item: &Item) -> Next {
        match self.reads_by_key() {
            true => Next::After(item.key.clone()),
            false => Next::Before(item.seq.get()),
        }
    }

    /// The address of the next page.
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
