//! The grid: a list with one row per object, as all pages with lists show it.
//!
//! Pages define the columns and rows. `assets/grid.css` makes a card of each row on a phone. `assets/grid.js` adds the
//! keyboard, times in the reader's zone, and live updates.
//!
//! **Invariant**: a row is one line. The title of a shortened text has the whole text, up to [`TITLE_CHARS_MAX`], and
//! the first cell of a row links to its page. Every function works without a script.

mod sorting;

use std::borrow::Cow;

use maud::{Markup, html};

use super::text::{plain, time, visible};
pub(super) use sorting::Sorting;

/// Maximum characters of a cell; `TITLE_CHARS_MAX` applies to the title with the whole text.
const CELL_CHARS_MAX: usize = 120;
/// Maximum characters of the source's value next to an override.
const SOURCE_CHARS_MAX: usize = 24;
pub(super) const TITLE_CHARS_MAX: usize = 1_000;
/// A longer key is shortened in the middle: its last characters are always visible.
const KEY_CHARS_MAX: usize = 24;
const KEY_END: usize = 8;
/// Cells of a card on a phone, in addition to key and time.
const LEADS: usize = 4;

/// The layout of the cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// At the end of the row, and always visible.
    Time,
}

/// A column after the first one.
#[derive(Debug, Clone)]
pub(super) struct Column {
    name: Cow<'static, str>,
    kind: Kind,
    /// The URL of the list sorted by this column, and the direction if it is sorted by it now.
    sort: Option<(String, Option<Direction>)>,
}

/// Direction in which a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
        }
    }
}

impl Column {
    pub(super) fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Text, name.into())
    }

    /// A column of numbers, aligned to the right.
    pub(super) fn number(name: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Number, name.into())
    }

    /// The last column, with the time of each row.
    pub(super) fn time(name: &'static str) -> Self {
        Self::of(Kind::Time, name.into())
    }

    fn of(kind: Kind, name: Cow<'static, str>) -> Self {
        Self {
            name,
            kind,
            sort: None,
        }
    }

    /// Makes the list sortable by this column at this URL; `direction` is set if it is sorted by it now.
    pub(super) fn sorted(self, address: String, direction: Option<Direction>) -> Self {
        Self {
            sort: Some((address, direction)),
            ..self
        }
    }

    fn class(&self) -> &'static str {
        match self.kind {
            Kind::Text => "",
            Kind::Number => "n",
            Kind::Time => "when",
        }
    }
}

/// A cell after the first one.
#[derive(Debug, Default)]
pub(super) struct Cell {
    content: Option<Markup>,
    /// The value by which lists are sorted, if it is not the title.
    value: Option<String>,
    title: String,
    class: &'static str,
    /// The link that changes the value; next to it, and visible under the pointer or with the keyboard focus.
    edit: Markup,
}

impl Cell {
    /// An empty cell.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// A text of any length.
    pub(super) fn text(text: &str) -> Self {
        Self::linked(text, None)
    }

    /// As `text`, with a link.
    pub(super) fn linked(text: &str, address: Option<&str>) -> Self {
        if text.is_empty() {
            return Self::none();
        }
        let (shown, title) = (cut(text, CELL_CHARS_MAX), cut(text, TITLE_CHARS_MAX));
        let content = match address {
            Some(address) => html! { a.val href=(address) dir="auto" { (shown) } },
            None => html! { span.val dir="auto" { (shown) } },
        };
        Self {
            content: Some(content),
            title,
            ..Self::default()
        }
    }

    /// A few short words, such as a badge.
    pub(super) fn markup(content: Markup) -> Self {
        Self {
            content: Some(content),
            ..Self::default()
        }
    }

    /// A time, RFC 3339.
    pub(super) fn time(rfc3339: Option<&str>) -> Self {
        Self {
            content: rfc3339.map(time),
            value: rfc3339.map(ToOwned::to_owned),
            ..Self::default()
        }
    }

    /// Sets the text by which lists are sorted.
    pub(super) fn valued(self, value: impl Into<String>) -> Self {
        Self {
            value: Some(value.into()),
            ..self
        }
    }

    /// The text by which lists are sorted; `None`: the cell is empty.
    fn value(&self) -> Option<&str> {
        let value = self.value.as_deref().unwrap_or(&self.title);
        Some(value).filter(|value| self.content.is_some() && !value.is_empty())
    }

    /// Sets the title.
    pub(super) fn titled(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }

    /// Marks the value as overridden by an operator, and adds the source's value.
    pub(super) fn overridden(self, source: &str) -> Self {
        let source = cut(source, SOURCE_CHARS_MAX);
        let content = self.content.unwrap_or_default();
        Self {
            class: " over",
            title: format!(
                "{} (overridden by an operator; source: {source})",
                self.title
            ),
            content: Some(html! { span.box { (content) small { "source: " (source) } } }),
            ..self
        }
    }

    /// Adds a link to the form that changes the value.
    pub(super) fn editable(self, edit: Markup) -> Self {
        Self { edit, ..self }
    }
}

/// A row: its object, and its cells in the order of the columns.
#[derive(Debug)]
pub(super) struct Row {
    key: String,
    address: Option<String>,
    /// The content after the key.
    about: Markup,
    /// The value of the row's checkbox, and the id of the row.
    pick: Option<String>,
    id: Option<String>,
    cells: Vec<Cell>,
}

impl Row {
    /// The row of the object with this key or name.
    pub(super) fn of(key: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            address: Some(address.into()),
            ..Self::unlinked(key)
        }
    }

    /// The row of an object without a page.
    pub(super) fn unlinked(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            address: None,
            about: Markup::default(),
            pick: None,
            id: None,
            cells: Vec::new(),
        }
    }

    /// Adds content after the key.
    pub(super) fn about(self, about: Markup) -> Self {
        Self { about, ..self }
    }

    /// Adds a checkbox with this value.
    pub(super) fn pick(self, value: impl Into<String>) -> Self {
        Self {
            pick: Some(value.into()),
            ..self
        }
    }

    /// Sets an id, which URLs can reference.
    pub(super) fn id(self, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..self
        }
    }

    /// Sets the cells.
    pub(super) fn cells(self, cells: impl IntoIterator<Item = Cell>) -> Self {
        Self {
            cells: cells.into_iter().collect(),
            ..self
        }
    }
}

#[derive(Debug)]
pub(super) struct Grid {
    /// The name of the list, for screen readers.
    pub(super) label: String,
    /// The first column.
    pub(super) key: Column,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// The name of the checkboxes that select rows; `None`: no checkboxes.
    pub(super) pick: Option<&'static str>,
    /// Below the rows: their number, and links to other pages.
    pub(super) pager: Markup,
    /// The text of an empty list.
    pub(super) empty: &'static str,
    /// The keys are IDs; their first and last characters are enough.
    of_ids: bool,
}

impl Grid {
    /// A list of all objects, or of a page of them.
    pub(super) fn new(
        label: impl Into<String>,
        key: &'static str,
        columns: impl IntoIterator<Item = Column>,
    ) -> Self {
        Self {
            label: label.into(),
            key: Column::text(key),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            pick: None,
            pager: Markup::default(),
            empty: "",
            of_ids: false,
        }
    }

    /// Marks the keys as IDs.
    pub(super) fn ids(self) -> Self {
        Self {
            of_ids: true,
            ..self
        }
    }

    /// Sets the rows.
    pub(super) fn rows(self, rows: impl IntoIterator<Item = Row>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
            ..self
        }
    }

    /// Sets the part below the rows.
    pub(super) fn pager(self, pager: Markup) -> Self {
        Self { pager, ..self }
    }

    pub(super) fn markup(&self) -> Markup {
        let pinned = (self.columns.iter()).any(|column| column.kind == Kind::Time);
        html! {
            div class={ "grid cardy" @if pinned { " pin" } @if self.of_ids { " ids" } } {
                div.scroll tabindex="0" role="region" aria-label=(plain(&self.label)) {
                    table {
                        caption.sr { (plain(&self.label)) }
                        thead { tr {
                            @if self.pick.is_some() {
                                th.pick scope="col" { input type="checkbox" data-all aria-label="Select all rows on this page"; }
                            }
                            (head(&self.key, "key"))
                            @for column in &self.columns { (head(column, column.class())) }
                        } }
                        tbody { @for row in &self.rows { (self.row(row)) } }
                    }
                    @if self.rows.is_empty() { p.empty role="status" { (self.empty) } }
                }
                div.pager { (self.pager) span.news role="status" {} }
            }
        }
    }

    fn row(&self, row: &Row) -> Markup {
        let mut leads = 0;
        html! {
            tr id=[&row.id] data-row=(row.pick.as_ref().or(row.id.as_ref()).unwrap_or(&row.key)) {
                @if let Some(name) = self.pick {
                    td.pick { @if let Some(value) = &row.pick { input type="checkbox" name=(name) value=(value) aria-label={ "Select " (plain(&row.key)) }; } }
                }
                th.key scope="row" title=(cut(&row.key, TITLE_CHARS_MAX)) {
                    @if let Some(address) = &row.address { a href=(address) dir="auto" { (key(&row.key)) } }
                    @else { span dir="auto" { (key(&row.key)) } }
                    @if !row.about.0.is_empty() { " " (row.about) }
                }
                @for (cell, column) in row.cells.iter().zip(&self.columns) {
                    @let is_lead = column.kind != Kind::Time && cell.content.is_some() && leads < LEADS;
                    @let lead = if is_lead { leads += 1; " lead" } else { "" };
                    td class={ (column.class()) (lead) (cell.class) } data-label=(plain(&column.name)) title=[Some(&cell.title).filter(|title| !title.is_empty())] {
                        @match &cell.content { Some(content) => (content), None => span.none { "–" } }
                        (cell.edit)
                    }
                }
            }
        }
    }
}

fn head(column: &Column, class: &str) -> Markup {
    let direction = column.sort.as_ref().and_then(|(_, direction)| *direction);
    html! {
        th class=(class) scope="col" title=(plain(&column.name)) aria-sort=[direction.map(Direction::as_str)] {
            @match &column.sort {
                Some((address, _)) => a href=(address) { (plain(&column.name)) },
                None => (plain(&column.name)),
            }
        }
    }
}

/// A key that never wraps; its last characters are always visible.
fn key(key: &str) -> Markup {
    let shown = cut(key, TITLE_CHARS_MAX);
    match shown.len().checked_sub(KEY_END) {
        // Only ASCII keys are split: splitting can change the order and shape of other characters.
        Some(end) if shown.is_ascii() && shown.len() > KEY_CHARS_MAX => {
            html! { span.k { span { (&shown[..end]) } span { (&shown[end..]) } } }
        }
        _ => html! { (shown) },
    }
}

/// The visible form of a text, shortened.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text).into_owned(),
    }
}

/// The number of entries, below a complete list.
pub(super) fn count_of(count: &str) -> Markup {
    html! { span.count { (count) } }
}

/// Below a page of a list: the number of entries, and the URLs of the newest page and of the next one.
pub(super) fn pages(count: &str, newest: Option<&str>, older: Option<(&str, &str)>) -> Markup {
    html! {
        span.count { (count) }
        @if let Some(newest) = newest { a.button.plain href=(newest) { "Newest" } }
        @if let Some((address, label)) = older { a.button.plain rel="next" href=(address) { (label) } }
    }
}
