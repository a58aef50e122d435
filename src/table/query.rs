//! What a table is asked for: the parameters of a feed's URL, wherever they stand.
//!
//! **Invariant**: two queries that are equal are answered with the same bytes. A parameter that is not known is no part
//! of it, and a value that cannot be used is refused in plain words.

mod parameters;

use std::fmt;
use std::sync::Arc;

use super::rows::record;
use parameters::{
    Parameters, field_or_template, flag, names, number, separator, shape, template, text,
    within_max,
};
use pool::Item;
use select::{Fields, ItemFilter, Numbers, Scope, SortBy, SyntaxError, Template, Where};

/// Rows of a feed, at most.
pub(super) const ROWS_MAX: usize = 10_000;
/// Items that are looked at for a feed, at most.
pub(super) const LOOKED_AT_MAX: usize = 100_000;
const ROWS_DEFAULT: usize = 1_000;
const DECIMALS_MAX: u32 = 20;

/// Why parameters cannot be used.
#[derive(Debug)]
pub enum QueryError {
    /// A text of the language cannot be read.
    Syntax(SyntaxError),
    /// A sentence.
    Other(String),
}

impl QueryError {
    fn of(sentence: impl Into<String>) -> Self {
        Self::Other(sentence.into())
    }
}

impl From<SyntaxError> for QueryError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Other(sentence) => f.write_str(sentence),
        }
    }
}

/// What a feed is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Json,
    Ndjson,
    Csv,
    Tsv,
    Xml,
    Rss,
    Txt,
}

/// How the names of fields become those of columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Names {
    /// `home_score`
    #[default]
    Underscores,
    /// `home.score`
    Dots,
    /// `home`, with `score` in it.
    Nested,
}

/// What the rows are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// The items.
    #[default]
    Rows,
    /// The items, found by their keys.
    Object,
    /// The first item alone.
    One,
    /// The fields of the first item.
    Fields,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    pub(super) format: Format,
    /// What the key sees, unless it sees everything. It is part of the query, because equal queries share one body.
    pub(super) limits: Option<Arc<ItemFilter>>,
    pub(super) fields: Fields,
    pub(super) names: Names,
    pub(super) keys: Option<Vec<String>>,
    pub(super) conditions: Where,
    pub(super) sort: Vec<SortBy>,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) shape: Shape,
    pub(super) numbers: Numbers,
    /// The lines of txt, the titles of rss.
    pub(super) text: Option<Template>,
    /// Between lines of txt.
    pub(super) join: Option<String>,
    pub(super) header: bool,
    pub(super) separator: char,
    pub(super) bom: bool,
    pub(super) safe: bool,
    pub(super) title: Option<Template>,
    pub(super) description: Option<Template>,
    pub(super) link: Option<Template>,
    pub(super) image: Option<Template>,
}

impl Format {
    /// All of them, by the ends of their paths.
    pub const ALL: [(&'static str, Self); 7] = [
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("tsv", Self::Tsv),
        ("xml", Self::Xml),
        ("rss", Self::Rss),
        ("txt", Self::Txt),
        ("ndjson", Self::Ndjson),
    ];

    pub fn of(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json; charset=utf-8",
            Self::Ndjson => "application/x-ndjson; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Tsv => "text/tab-separated-values; charset=utf-8",
            Self::Xml => "application/xml; charset=utf-8",
            Self::Rss => "application/rss+xml; charset=utf-8",
            Self::Txt => "text/plain; charset=utf-8",
        }
    }
}

impl Query {
    /// What is asked for without parameters.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            limits: None,
            fields: Fields::default(),
            names: Names::default(),
            keys: None,
            conditions: Where::default(),
            sort: Vec::new(),
            limit: ROWS_DEFAULT,
            offset: 0,
            shape: Shape::default(),
            numbers: Numbers::default(),
            text: None,
            join: None,
            header: true,
            separator: if format == Format::Tsv { '\t' } else { ',' },
            bom: false,
            safe: false,
            title: None,
            description: None,
            link: None,
            image: None,
        }
    }

    /// Reads the parameters, each by its name.
    ///
    /// # Errors
    /// One cannot be used.
    pub fn read(
        format: Format,
        mut parameter: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, QueryError> {
        let req: Parameters<'_> = &mut parameter;
        let keys = select::list(&text(req, "key"));
        within_max("key", keys.len())?;
        let sort = SortBy::parse(&text(req, "sort"), Scope::FEED)?;
        within_max("sort", sort.len())?;
        let query = Self {
            format,
            limits: None,
            fields: Fields::parse(&text(req, "fields"), Scope::FEED)?,
            names: names(req)?,
            keys: (!keys.is_empty()).then_some(keys),
            conditions: Where::parse(&text(req, "where"), Scope::FEED)?,
            sort,
            limit: number(req, "limit", 1, ROWS_MAX)?.unwrap_or(ROWS_DEFAULT),
            offset: number(req, "offset", 0, LOOKED_AT_MAX)?.unwrap_or(0),
            shape: shape(req)?,
            numbers: Numbers {
                decimals: number(req, "decimals", 0, DECIMALS_MAX)?,
                comma: flag(req, "comma", false)?,
            },
            text: template(req, "text")?,
            join: req("join"),
            header: flag(req, "header", true)?,
            separator: separator(format, req)?,
            bom: flag(req, "bom", false)?,
            safe: flag(req, "safe", false)?,
            title: field_or_template(req, "title")?,
            description: field_or_template(req, "description")?,
            link: field_or_template(req, "link")?,
            image: field_or_template(req, "image")?,
        };
        query.check()?;
        Ok(query)
    }

    /// The same of what a key sees.
    #[must_use]
    pub fn within(self, limits: Option<&Arc<ItemFilter>>) -> Self {
        Self {
            limits: limits.cloned(),
            ..self
        }
    }

    /// The same with these fields.
    #[must_use]
    pub fn with_fields(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// The same of the items that meet these conditions.
    #[must_use]
    pub fn with_conditions(self, conditions: Where) -> Self {
        Self { conditions, ..self }
    }

    /// The keys that are asked for; none: all.
    pub fn keys(&self) -> Option<&[String]> {
        self.keys.as_deref()
    }

    /// Whether a row says by itself what its values are: it can have the fields of its own item.
    pub fn is_of_own_fields(&self) -> bool {
        matches!(self.format, Format::Ndjson | Format::Txt)
    }

    pub fn wants(&self, item: &Item, stream: &str) -> bool {
        let keys = self.keys.as_ref();
        keys.is_none_or(|keys| keys.contains(&item.key))
            && self.conditions.holds(&record(item, stream))
    }

    /// The same for all rows, in the order of their keys. A sorted table needs all rows at once, and an export reads
    /// page by page.
    pub fn of_all_rows(self) -> Self {
        Self {
            sort: Vec::new(),
            shape: Shape::Rows,
            ..self
        }
    }

    /// What does not go together.
    fn check(&self) -> Result<(), QueryError> {
        let is_json = matches!(self.format, Format::Json | Format::Ndjson);
        if self.shape == Shape::Object && self.format != Format::Json {
            let message = "shape=object is for json; ask for .json, or for another shape";
            return Err(QueryError::of(message));
        }
        if self.names == Names::Nested && !is_json && self.format != Format::Xml {
            let message = "names=nested is for json, ndjson and xml; use one of them, or omit it";
            return Err(QueryError::of(message));
        }
        Ok(())
    }
}
