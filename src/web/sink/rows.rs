//! The settings that all sinks have, as schemas: the form shows them in addition to the plugin's own.
//!
//! **Invariant**: the form has a setting only if the plugin and the mode of the sink use it.

use serde_json::{Map, Value, json};

use operate::UsedPlugin;
use settings::{Batch, Field, Http, Postgres, Retry, Shape, Sink, SinkLimits};

/// What a sink follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// Not chosen yet; the form has a field for it.
    Either,
    Journal,
    Latest,
}

/// The features that the plugin of a sink uses, and what the sink follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) http: bool,
    pub(super) postgres: bool,
    pub(super) folder: bool,
    pub(super) wire: bool,
    pub(super) pool: bool,
    pub(super) secrets: bool,
    /// It receives removals.
    pub(super) removals: bool,
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
    /// The features that a plugin uses.
    pub(super) fn of(plugin: &UsedPlugin, follows: Follows) -> Self {
        let facts = plugin.plugin.facts.as_ref();
        let facts = facts.and_then(|facts| facts.as_ref().ok());
        let asks = |what: &str| facts.is_some_and(|facts| facts.asks_for.contains(&what));
        let writes_pool = plugin.plugin.path.is_none() && asks("pool");
        Self {
            http: asks("http"),
            postgres: asks("postgres"),
            folder: asks("folder"),
            wire: asks("wire"),
            pool: asks("pool"),
            secrets: asks("secrets"),
            removals: facts.is_some_and(|facts| facts.removals) || writes_pool,
            writes_pool,
            follows: if writes_pool {
                Follows::Journal
            } else {
                follows
            },
        }
    }

    /// All features, for a plugin that is unavailable.
    pub(super) fn all(follows: Follows) -> Self {
        Self {
            http: true,
            postgres: true,
            folder: true,
            wire: true,
            pool: true,
            secrets: true,
            removals: true,
            writes_pool: false,
            follows,
        }
    }

    /// The settings in the form, in groups.
    pub(super) fn groups(self) -> Vec<Group> {
        let (journal, latest) = (
            self.follows != Follows::Latest,
            self.follows != Follows::Journal,
        );
        let of_section = |row: &Field| match row.name {
            "except" => true,
            "makes" => journal && self.pool,
            "leaves" => journal && self.removals,
            "ordering" => journal,
            "in_flight" => journal && (self.http || self.postgres),
            "shown" | "max_rate" => latest,
            _ => false,
        };
        let numbers = |row: &Field| matches!(row.shape, Shape::Integer(..));
        let retries = |row: &Field| numbers(row) && (journal || row.name != "attempts");
        let mut groups = vec![
            group("", "How it receives", Sink::FIELDS, of_section),
            group("retry", "Retries", Retry::FIELDS, retries),
            group("batch", "Batches", Batch::FIELDS, numbers),
            group(
                "limits",
                "Limits of the plugin",
                SinkLimits::FIELDS,
                numbers,
            ),
        ];
        if self.http {
            groups.push(group("http", "Limits of requests", Http::FIELDS, numbers));
        }
        if self.postgres {
            groups.push(group(
                "postgres",
                "Limits of the database",
                Postgres::FIELDS,
                numbers,
            ));
        }
        groups
    }
}

fn group(
    place: &'static str,
    legend: &'static str,
    rows: &'static [Field],
    wanted: impl Fn(&Field) -> bool,
) -> Group {
    let rows = rows.iter().filter(|row| wanted(row));
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
