//! The grid of a stream's items: the query, the order and the columns.
//!
//! **Invariant**: if no index supports an order, the page states among how many items it is sorted.

mod query;
mod read;

use std::collections::{HashMap, HashSet};

use maud::{Markup, html};

use super::item::typed;
use crate::frame::NoPage;
use crate::grid::{Cell, Column, Direction, Grid, Row, pages};
use crate::paths;
use crate::text::{count, grouped, plain, segment, text, visible};
use item::{field_name, members};
use operate::Operator;
use pool::acts::StreamActs;
use pool::{Item, PoolError};
pub(super) use query::ItemQuery;
use query::Order;
pub(super) use read::{ItemPage, read};

/// Maximum items on a page.
const ITEMS: usize = 50;
const COLUMNS_MAX: usize = 24;
/// Maximum fields that can be chosen.
const CHOICES_MAX: usize = 300;
/// Maximum bytes of a value in a filter.
const VALUE_BYTES_MAX: usize = 200;

/// A column for a field.
struct FieldColumn<'a> {
    /// The name of the field as JSON.
    field: &'a str,
    /// The number of items with this field.
    items: usize,
    is_number: bool,
    /// Each item has its key in this field.
    is_key: bool,
}

/// The fields of these items, the most frequent first, otherwise in the order of their first appearance.
fn columns(items: &[Item]) -> Vec<FieldColumn<'_>> {
    let mut known = HashMap::new();
    let mut columns: Vec<FieldColumn<'_>> = Vec::new();
    for item in items {
        for (field, value) in members(&item.fields) {
            let at = *known.entry(field).or_insert_with(|| {
                columns.push(FieldColumn {
                    field,
                    items: 0,
                    is_number: true,
                    is_key: true,
                });
                columns.len() - 1
            });
            columns[at].items += 1;
            columns[at].is_key &= value.trim_matches('"') == item.key;
            columns[at].is_number &= value == "null"
                || value.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        }
    }
    columns.sort_by_key(|column| std::cmp::Reverse(column.items));
    columns
}

/// Above the grid: search, filters, columns.
pub(super) fn tools(page: &ItemPage, path: &str, query: &ItemQuery) -> Markup {
    let known = columns(&page.items);
    let shown = chosen(&known, query);
    html! {
        div.above {
            form action=(path) role="search" aria-label="Keys of this stream" {
                @for filter in &query.filters { input type="hidden" name="filter" value=(filter); }
                @for column in &query.columns { input type="hidden" name="column" value=(column); }
                input.search type="search" name="q" value=(query.prefix) maxlength="512" placeholder="Key prefix" aria-label="Key prefix in this stream";
                button.plain { "Find" }
            }
            @for filter in &query.filters {
                span.chip {
                    span dir="auto" title=(plain(filter)) { (text(&readable(filter))) }
                    a href=(query.without(filter).address(path)) aria-label={ "Remove the filter " (plain(filter)) } { "×" }
                }
            }
            details.menu.push {
                summary.button.plain { "Columns " (shown.len()) " of " (known.len()) }
                form action=(path) data-columns=(path) {
                    @for (name, value) in [("q", &*query.prefix), ("sort", &*query.sort())] {
                        @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                    }
                    @for filter in &query.filters { input type="hidden" name="filter" value=(filter); }
                    @for column in known.iter().take(CHOICES_MAX) {
                        @let name = field_name(column.field);
                        label title=(plain(&name)) {
                            input type="checkbox" name="column" value=(name) checked[shown.iter().any(|one| one.field == column.field)];
                            (plain(&name)) span.quiet { " " (grouped(column.items as u64)) }
                        }
                    }
                    button { "Show columns" }
                    a.button.plain href={ (path) "?all-columns" } { "Default columns" }
                }
            }
        }
    }
}

/// The visible columns.
fn chosen<'a>(known: &'a [FieldColumn<'a>], query: &ItemQuery) -> Vec<&'a FieldColumn<'a>> {
    let wanted: HashSet<&str> = query.columns.iter().map(String::as_str).collect();
    let is_wanted = |column: &&FieldColumn<'_>| wanted.contains(&*field_name(column.field));
    match wanted.is_empty() {
        // The key is already in the first column of the grid.
        true => {
            let key = known.iter().position(|column| column.is_key);
            let others = known.iter().enumerate().filter(|(at, _)| Some(*at) != key);
            others.map(|(_, column)| column).take(COLUMNS_MAX).collect()
        }
        false => known.iter().filter(is_wanted).collect(),
    }
}

pub(super) fn grid(
    operator: &Operator,
    stream: &str,
    page: &ItemPage,
    query: &ItemQuery,
    acts: &StreamActs,
    sources: &Sources,
) -> Markup {
    let path = paths::stream(stream);
    let known = columns(&page.items);
    let shown = chosen(&known, query);
    let held: HashSet<&str> = acts.held_keys.iter().map(|held| &*held.key).collect();
    let by = |order: Order| {
        let query = ItemQuery {
            prefix: String::new(),
            ..query.ordered(order)
        };
        query.address(&path)
    };
    let fields = (shown.iter()).map(|column| field_column(column, query, &path));
    let (is_by_key, is_updated) = (query.is_by_key(), query.is_newest_first());
    let updated = is_updated.then_some(Direction::Descending);
    let last = [
        Column::number("Version"),
        Column::text("Source"),
        Column::time("Updated").sorted(by(Order::Updated), updated),
    ];
    let mut grid = Grid::new(format!("Items of {stream}"), "Key", fields.chain(last));
    grid.key =
        Column::text("Key").sorted(by(Order::Key), is_by_key.then_some(Direction::Ascending));
    grid.pick = Some("key");
    grid.empty = match (query.is_later(), query.is_whole(), &page.next) {
        (false, true, _) => "No items.",
        (true, true, _) => "No more items.",
        (_, false, Some(_)) => "No matching items so far.",
        (_, false, None) => "No matching items.",
    };
    let rows = page.items.iter().map(|item| {
        let sources = sources.get(&*item.key);
        let address = format!("{path}/item?key={}", segment(&item.key));
        Row::of(&*item.key, address)
            .pick(&*item.key)
            .about(html! { @if held.contains(&*item.key) { span.badge.held { "Held" } } })
            .cells(cells(item, &shown, &path, query, sources))
    });
    grid.rows(rows)
        .pager(pager(operator, stream, page, query))
        .markup()
}

/// The column of a field, by which the list can be sorted.
fn field_column(column: &FieldColumn<'_>, query: &ItemQuery, path: &str) -> Column {
    let name = field_name(column.field);
    let sort = query.order.by_field(&name);
    let sort = sort.map(|order| query.ordered(order).address(path));
    let direction = query.order.direction_of(&name);
    let name = name.into_owned();
    let head = match column.is_number {
        true => Column::number(name),
        false => Column::text(name),
    };
    match sort {
        Some(address) => head.sorted(address, direction),
        None => head,
    }
}

fn cells<'a>(
    item: &'a Item,
    shown: &'a [&'a FieldColumn<'a>],
    path: &'a str,
    query: &'a ItemQuery,
    sources: Option<&'a HashMap<String, String>>,
) -> impl Iterator<Item = Cell> + 'a {
    let fields: HashMap<&str, &str> = members(&item.fields).collect();
    let values = shown.iter().map(move |column| {
        let Some(value) = fields.get(column.field) else {
            return Cell::none();
        };
        let name = field_name(column.field);
        let cell =
            value_cell(&name, value, path, query).editable(edit(&item.key, &name, value, path));
        match sources.and_then(|sources| sources.get(&*name)) {
            Some(source) => cell.overridden(source),
            None => cell,
        }
    });
    let source = match item.request_id.get(..8) {
        Some(start) => Cell::markup(
            html! { a href=(paths::request(&item.request_id)) title=(item.request_id) { (start) "…" } },
        ),
        None => Cell::text("operator"),
    };
    let last = [
        Cell::text(&item.seq.to_string()),
        source,
        Cell::time(Some(&item.updated_at)),
    ];
    values.chain(last)
}

/// The source's values of overridden fields, by key and field.
pub(super) type Sources = HashMap<String, HashMap<String, String>>;

/// Reads the source's values for the items of a page.
pub(super) async fn sources(
    operator: &Operator,
    stream: &str,
    page: &ItemPage,
) -> Result<Sources, NoPage> {
    let overridden = page.items.iter().filter(|item| !item.overridden.is_empty());
    let keys: Vec<String> = overridden.map(|item| item.key.clone()).collect();
    if keys.is_empty() {
        return Ok(Sources::new());
    }
    let stream = stream.to_owned();
    let acts = operator.in_pool(move |pool| {
        let acts = keys.into_iter().map(|key| {
            let acts = pool.item_acts(&stream, &key)?;
            Ok((key, acts.overrides))
        });
        acts.collect::<Result<Vec<_>, PoolError>>()
    });
    let sources = acts.await?.into_iter().map(|(key, overrides)| {
        let fields = overrides.into_iter().map(|own| {
            let source = own.source.as_deref().map_or("none".into(), typed);
            (own.field, source.into_owned())
        });
        (key, fields.collect())
    });
    Ok(sources.collect())
}

/// The link to the form that overrides a field. The script opens the form next to the value.
fn edit(key: &str, field: &str, value: &str, path: &str) -> Markup {
    let is_text = value.starts_with('"').then_some("yes");
    let typed = typed(value);
    // Values with invisible characters are overridden on the page of the item, which shows these characters.
    let is_seen = |text: &str| visible(text) == text;
    let is_short = typed.len() <= VALUE_BYTES_MAX && [key, field, &*typed].into_iter().all(is_seen);
    let short = |text| is_short.then_some(text);
    html! {
        a.edit href={ (path) "/item?key=" (segment(key)) } tabindex="-1" aria-label={ "Override " (plain(field)) } data-key=[short(key)] data-field=[short(field)] data-value=[short(&*typed)] data-text=[is_text] {}
    }
}

/// A value, with a link to the items that have the same value.
fn value_cell(name: &str, value: &str, path: &str, query: &ItemQuery) -> Cell {
    match value.as_bytes() {
        b"null" => Cell::markup(html! { span.none { "null" } }),
        b"\"\"" => Cell::markup(html! { span.none { "\"\"" } }),
        [b'[' | b'{', ..] => Cell::text(value),
        _ => {
            let text = &*typed(value);
            let is_short = name.len() + text.len() <= VALUE_BYTES_MAX;
            let filter = format!("{}:{}", escaped(name), escaped(text));
            let address = is_short.then(|| query.with(&filter).address(path));
            Cell::linked(text, address.as_deref())
        }
    }
}

/// Escapes a text for conditions and lists.
pub(super) fn escaped(text: &str) -> String {
    let is_sign = |character: char| ",:^><?|!\\".contains(character);
    let signs = |character: char| is_sign(character).then_some('\\');
    text.chars()
        .flat_map(|character| signs(character).into_iter().chain([character]))
        .collect()
}

/// A condition without its backslashes.
fn readable(filter: &str) -> String {
    let mut out = String::new();
    let mut characters = filter.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            ':' => out.push_str(": "),
            character => out.push(character),
        }
    }
    visible(&out).into_owned()
}

fn pager(operator: &Operator, stream: &str, page: &ItemPage, query: &ItemQuery) -> Markup {
    let path = paths::stream(stream);
    let all = operator.pool.sizes().of(stream).items;
    let mut number = match query.is_whole() {
        true => count(all, "item"),
        false => format!(
            "{} of {}",
            grouped(page.items.len() as u64),
            count(all, "item")
        ),
    };
    if let Some(among) = page.among {
        let which = match query.prefix.is_empty() {
            true => "the newest",
            false => "the first",
        };
        number.push_str(&format!(", sorted among {which} {}", grouped(among as u64)));
    }
    let label = match (page.items.len() < ITEMS, query.is_newest_first()) {
        (true, _) => "Search further",
        (false, true) => "Older items",
        (false, false) => "Next items",
    };
    let newest = query.is_later().then(|| query.first().address(&path));
    let next = page.next.as_ref().map(|next| query.next(&path, next));
    let next = next.as_deref().map(|address| (address, label));
    pages(&number, newest.as_deref(), next)
}
