//! The settings that all sinks have: the form shows them in addition to the plugin's own.
//!
//! Controls, labels and hints are those of the rows of a sink. A row says with which mode the form has it, and which plugins
//! need it.
//!
//! **Invariant**: the form has a setting only if the plugin and the mode of the sink use it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::form;
use operate::UsedPlugin;
use settings::{Field, Shape, Sink};

/// What a sink follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// Not chosen yet; the form has a field for it.
    Either,
    Journal,
    Latest,
}

/// What the plugin of a sink asks for, and what the sink follows.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// As rows name it; none: the plugin is unavailable, so it may ask for everything.
    asks: Option<Vec<&'static str>>,
    /// It was built to write to the data pool, so the data pool cannot be its source.
    pub(super) writes_pool: bool,
    pub(super) follows: Follows,
}

/// A group of settings in a form.
pub(super) struct Group {
    /// The table in the section; empty: the section itself.
    pub(super) place: &'static str,
    pub(super) legend: &'static str,
    pub(super) schema: Value,
}

impl Asked {
    /// What a plugin asks for.
    pub(super) fn of(plugin: &UsedPlugin, follows: Follows) -> Self {
        let facts = plugin.plugin.facts.as_ref();
        let facts = facts.and_then(|facts| facts.as_ref().ok());
        let mut asks = facts.map_or_else(Vec::new, |facts| facts.asks_for.clone());
        let writes_pool = plugin.plugin.path.is_none() && asks.contains(&"pool");
        if writes_pool || facts.is_some_and(|facts| facts.removals) {
            asks.push("removals");
        }
        Self {
            asks: Some(asks),
            writes_pool,
            follows: if writes_pool {
                Follows::Journal
            } else {
                follows
            },
        }
    }

    /// Everything, for a plugin that is unavailable.
    pub(super) fn all(follows: Follows) -> Self {
        Self {
            asks: None,
            writes_pool: false,
            follows,
        }
    }

    /// Whether the form has a row.
    pub(super) fn has(&self, row: &Field) -> bool {
        let fits = match row.mode {
            "journal" => self.follows != Follows::Latest,
            "latest" => self.follows != Follows::Journal,
            _ => true,
        };
        let asks = |what: &&str| self.asks.as_ref().is_none_or(|asks| asks.contains(what));
        fits && (row.asks.is_empty() || row.asks.iter().any(asks))
    }

    /// The settings that people seldom change, in groups: those of a group, then the numbers of each table.
    pub(super) fn groups(&self) -> Vec<Group> {
        let own = Sink::FIELDS.iter().filter(|row| !row.group.is_empty());
        let legend = own.clone().next().map_or("", |row| row.group);
        let mut groups = vec![group("", legend, own.filter(|row| self.has(row)))];
        for table in Sink::FIELDS.iter().filter(|row| self.has(row)) {
            if let Shape::Table(rows) = table.shape {
                let is_number = |row: &&Field| matches!(row.shape, Shape::Integer(..));
                let numbers = rows.iter().filter(is_number).filter(|row| self.has(row));
                groups.push(group(table.name, table.label, numbers));
            }
        }
        groups.retain(|group| group.schema["properties"] != json!({}));
        groups
    }
}

/// A setting in the main part of the form, and the table that it is in.
pub(super) struct Control {
    /// The path in the section, which is the name of the control.
    pub(super) path: &'static str,
    pub(super) table: Option<&'static Field>,
    pub(super) row: &'static Field,
}

/// The settings in the main part of the form: those with a label that are in no [`Group`].
static CONTROLS: LazyLock<Vec<Control>> = LazyLock::new(|| {
    let mut controls = Vec::new();
    let is_shown = |row: &&Field| !row.label.is_empty() && row.group.is_empty();
    for row in Sink::FIELDS {
        match row.shape {
            Shape::Table(rows) => {
                let rows = rows.iter().filter(is_shown);
                let rows = rows.filter(|row| !matches!(row.shape, Shape::Integer(..)));
                controls.extend(rows.map(|inner| Control {
                    path: format!("{}.{}", row.name, inner.name).leak(),
                    table: Some(row),
                    row: inner,
                }));
            }
            _ if is_shown(&row) => controls.push(Control {
                path: row.name,
                table: None,
                row,
            }),
            _ => {}
        }
    }
    controls
});

impl Control {
    /// All of them. The streams and the start have controls of their own.
    fn all() -> impl Iterator<Item = &'static Self> {
        let is_plain = |one: &&Self| match one.row.shape {
            Shape::Choice(_) => false,
            Shape::List(..) => !one.row.required,
            _ => true,
        };
        CONTROLS.iter().filter(is_plain)
    }

    /// The texts that say what a sink receives.
    pub(super) fn selections() -> impl Iterator<Item = &'static Self> {
        let is_text = |one: &&Self| matches!(one.row.shape, Shape::Text(_));
        Self::all()
            .filter(|one| one.table.is_none())
            .filter(is_text)
    }

    /// The grants that the plugin asks for.
    pub(super) fn grants(asked: &Asked) -> impl Iterator<Item = &'static Self> {
        let asks = |one: &&Self| {
            let of = one.table.unwrap_or(one.row);
            !of.asks.is_empty() && asked.has(of)
        };
        Self::all().filter(asks)
    }

    /// The control with this path, or the first of a table.
    pub(super) fn at(path: &str) -> Option<&'static Self> {
        let is_within = |place: &str| {
            let rest = path.strip_prefix(place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let found = CONTROLS.iter().find(|one| is_within(one.path));
        let is_table = |one: &&Self| one.table.is_some_and(|table| table.name == path);
        found.or_else(|| CONTROLS.iter().find(is_table))
    }

    /// Its place in a section, as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        format!("/{}", self.path.replace('.', "/"))
    }

    /// As [`SectionForm`](super::section::SectionForm) reads the names of secrets.
    pub(super) fn names(&self) -> String {
        format!("{}.name", self.path)
    }

    /// And their values.
    pub(super) fn values(&self) -> String {
        format!("{}.value", self.path)
    }

    /// Its texts.
    pub(super) fn field(&self) -> form::Field<'static> {
        form::Field {
            name: self.path,
            label: self.row.label,
            hint: self.row.hint,
        }
    }
}

/// The row of the section with this name.
pub(super) fn row(name: &str) -> &'static Field {
    let found = Sink::FIELDS.iter().find(|row| row.name == name);
    found.unwrap_or(&Field::PLAIN)
}

fn group(
    place: &'static str,
    legend: &'static str,
    rows: impl Iterator<Item = &'static Field>,
) -> Group {
    let properties: Map<String, Value> = rows
        .map(|row| (row.name.to_owned(), property(row)))
        .collect();
    Group {
        place,
        legend,
        schema: json!({ "type": "object", "properties": properties }),
    }
}

/// A row as a property of a JSON Schema.
fn property(row: &Field) -> Value {
    let mut property = match row.shape {
        Shape::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Boolean => json!({ "type": "boolean" }),
        // Words after the first two are aliases.
        Shape::Choice(words) => json!({ "enum": words.get(..2).unwrap_or(words) }),
        _ => json!({ "type": "array", "items": { "type": "string" } }),
    };
    property["title"] = row.label.into();
    property["description"] = row.about().replace('`', "").into();
    let usual = (row.default)();
    if !usual.is_null() && usual != json!([]) {
        property["default"] = usual;
    } else if !row.none.is_empty() {
        property["description"] = format!(
            "{} Default: {}.",
            row.about().replace('`', ""),
            row.none.replace('`', "")
        )
        .into();
    }
    property
}
