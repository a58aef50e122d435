//! The grid: a list of things with a row each, as every page of lists shows it.
//!
//! Pages say which columns and rows there are. `assets/grid.css` makes a card of each row on a phone, and
//! `assets/grid.js` adds the keyboard, times in the reader's zone, and what follows the daemon.
//!
//! **Invariant**: a row is one line. What is cut has its whole text in the title, as far as [`TITLE_CHARS_MAX`], and a
//! row's first cell leads to its page. Everything can be done without a script.

mod sorting;

use std::borrow::Cow;

use maud::{Markup, html};

use super::text::{plain, time, visible};
pub(super) use sorting::Sorting;

/// Characters of a cell, and of the title that has its whole text.
const CELL_CHARS_MAX: usize = 120;
/// Characters of what a source says beside an override.
const SOURCE_CHARS_MAX: usize = 24;
pub(super) const TITLE_CHARS_MAX: usize = 1_000;
/// A key that is longer gives way in its middle: the last characters are always seen.
const KEY_CHARS_MAX: usize = 24;
const KEY_END: usize = 8;
/// Cells that a card on a phone has, besides key and time.
const LEADS: usize = 4;

/// How the cells of a column are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// At the end of the row, and always seen.
    Time,
}

/// A column behind the first one.
#[derive(Debug, Clone)]
pub(super) struct Column {
    name: Cow<'static, str>,
    kind: Kind,
    /// The address of the list sorted by it, and whether it is.
    sort: Option<(String, Option<Direction>)>,
}

/// How a list is sorted.
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

    /// Its values are numbers: at the right, digit below digit.
    pub(super) fn number(name: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Number, name.into())
    }

    /// The last column, with the time that the list is about.
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

    /// The list can be sorted by it, at this address; with a direction it is.
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

/// A cell behind the first one.
#[derive(Debug, Default)]
pub(super) struct Cell {
    content: Option<Markup>,
    /// What lists are sorted by, where that is not the title.
    value: Option<String>,
    title: String,
    class: &'static str,
    /// What the value can be changed with; beside it, and seen where the pointer or the keyboard is.
    edit: Markup,
}

impl Cell {
    /// Nothing is known, or there.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// A text of any length.
    pub(super) fn text(text: &str) -> Self {
        Self::linked(text, None)
    }

    /// The same, which leads somewhere.
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

    /// What is made of a few short words, such as a badge.
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

    /// The same, which lists are sorted by with this text.
    pub(super) fn valued(self, value: impl Into<String>) -> Self {
        Self {
            value: Some(value.into()),
            ..self
        }
    }

    /// What lists are sorted by; none: nothing is known, or there.
    fn value(&self) -> Option<&str> {
        let value = self.value.as_deref().unwrap_or(&self.title);
        Some(value).filter(|value| self.content.is_some() && !value.is_empty())
    }

    /// The same with a title of its own.
    pub(super) fn titled(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }

    /// The same with a value that an operator set, and what its source says.
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

    /// The same with a link to the form that changes it.
    pub(super) fn editable(self, edit: Markup) -> Self {
        Self { edit, ..self }
    }
}

/// A row: what it is about, and its cells in the order of the columns.
#[derive(Debug)]
pub(super) struct Row {
    key: String,
    address: Option<String>,
    /// What follows the key.
    about: Markup,
    /// What the box of the row sends, and the id of the row.
    pick: Option<String>,
    id: Option<String>,
    cells: Vec<Cell>,
}

impl Row {
    /// The row of what has this key, or name.
    pub(super) fn of(key: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            address: Some(address.into()),
            ..Self::unlinked(key)
        }
    }

    /// One of what has no page.
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

    /// The same with something behind the key.
    pub(super) fn about(self, about: Markup) -> Self {
        Self { about, ..self }
    }

    /// The same with a box; what it sends.
    pub(super) fn pick(self, value: impl Into<String>) -> Self {
        Self {
            pick: Some(value.into()),
            ..self
        }
    }

    /// The same with an id of its own, which addresses can name.
    pub(super) fn id(self, id: impl Into<String>) -> Self {
        Self {
            id: Some(id.into()),
            ..self
        }
    }

    /// The same with these cells.
    pub(super) fn cells(self, cells: impl IntoIterator<Item = Cell>) -> Self {
        Self {
            cells: cells.into_iter().collect(),
            ..self
        }
    }
}

/// A list.
#[derive(Debug)]
pub(super) struct Grid {
    /// What it lists, for readers who hear it.
    pub(super) label: String,
    /// The first column.
    pub(super) key: Column,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// The name of the boxes that select rows; none: there are none.
    pub(super) pick: Option<&'static str>,
    /// Below the rows: how many there are, and where the others are.
    pub(super) pager: Markup,
    /// What is said where there is no row.
    pub(super) empty: &'static str,
    /// Its keys are ids, of which beginning and end are enough.
    of_ids: bool,
}

impl Grid {
    /// A list of everything there is, or of one page of it.
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

    /// The same of what has ids.
    pub(super) fn ids(self) -> Self {
        Self {
            of_ids: true,
            ..self
        }
    }

    /// The same with rows.
    pub(super) fn rows(self, rows: impl IntoIterator<Item = Row>) -> Self {
        Self {
            rows: rows.into_iter().collect(),
            ..self
        }
    }

    /// The same with what is below the rows.
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

/// A key that never breaks, and whose end is always seen.
fn key(key: &str) -> Markup {
    let shown = cut(key, TITLE_CHARS_MAX);
    match shown.len().checked_sub(KEY_END) {
        // Where characters join or turn, their order must stay whole.
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

/// Below a list that is whole: how many there are.
pub(super) fn count_of(count: &str) -> Markup {
    html! { span.count { (count) } }
}

/// Below a page of a list: how many there are, and the addresses of the newest page and of the one after this.
pub(super) fn pages(count: &str, newest: Option<&str>, older: Option<(&str, &str)>) -> Markup {
    html! {
        span.count { (count) }
        @if let Some(newest) = newest { a.button.plain href=(newest) { "Newest" } }
        @if let Some((address, label)) = older { a.button.plain rel="next" href=(address) { (label) } }
    }
}
