//! Merges the checked sources into settings, and knows which source each setting came from.
//!
//! Called by [`load`](super::load). The only file that names figment.
//!
//! **Invariant**: tables are merged key by key, everything else (lists and secrets too) is replaced as a whole, and
//! the origins follow the same rule, so that the origin of a setting is the source of its value.

use std::collections::BTreeMap;
use std::sync::Arc;

use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};

use super::Settings;
use super::problem::{self, Origin};
use super::schema::{Field, ROOT, Shape};
use super::tree::{Data, Node};

/// One checked source.
pub(super) struct Layer {
    pub(super) rank: usize,
    pub(super) source: Arc<str>,
    pub(super) node: Node,
}

/// Where each setting that some source names was set last.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// The origin of exactly this setting; none if it has its default.
    pub(super) fn of(&self, path: &str) -> Option<&Origin> {
        self.0.get(path)
    }

    /// The origin of this setting, or of the nearest table or list around it.
    pub(super) fn nearest(&self, path: &str) -> Option<&Origin> {
        let mut path = path;
        loop {
            if let Some(origin) = self.0.get(path) {
                return Some(origin);
            }
            let end = path.rfind(['.', '['])?;
            path = &path[..end];
        }
    }

    fn record(&mut self, layer: &Layer, path: String, line: Option<usize>) {
        let origin = Origin {
            line,
            ..Origin::of(layer.rank, &layer.source)
        };
        self.0.insert(path, origin);
    }

    fn table(&mut self, layer: &Layer, path: &str, node: &Node, fields: &[Field]) {
        for entry in node.entries() {
            let path = problem::join(path, &entry.name);
            let shape = fields
                .iter()
                .find(|field| field.name == entry.name)
                .map(|field| &field.shape);
            match (shape, &entry.node.data) {
                (Some(Shape::Table(fields)), _) => {
                    self.table(layer, &path, &entry.node, fields);
                }
                (Some(Shape::Tables(element)), Data::List(nodes)) => {
                    // Lists within lists vanish with the outer one.
                    if !path.contains('[') {
                        let inside = format!("{path}[");
                        self.0.retain(|known, _| !known.starts_with(&inside));
                    }
                    for (index, node) in nodes.iter().enumerate() {
                        let path = format!("{path}[{index}]");
                        self.table(layer, &path, node, element.fields);
                        self.record(layer, path, node.line);
                    }
                }
                (Some(Shape::List(..)), Data::List(nodes)) => {
                    for (index, node) in nodes.iter().enumerate() {
                        self.record(layer, format!("{path}[{index}]"), node.line);
                    }
                }
                _ => {}
            }
            self.record(layer, path, entry.line);
        }
    }
}

/// Merges the sources, the later over the earlier.
///
/// # Errors
///
/// The path and a message, if the schema let something pass that the settings do not take.
pub(super) fn merge(mut layers: Vec<Layer>) -> Result<(Settings, Origins), (String, String)> {
    let mut origins = Origins::default();
    for layer in &layers {
        origins.table(layer, "", &layer.node, ROOT);
    }
    for later in 1..layers.len() {
        let (earlier, rest) = layers.split_at_mut(later);
        if let Some(layer) = rest.first() {
            for shadowed in earlier {
                drop_shadowed_secrets(&mut shadowed.node, &layer.node, ROOT);
            }
        }
    }
    let figment = layers.into_iter().fold(Figment::new(), Figment::merge);
    match figment.extract::<Settings>() {
        Ok(settings) => Ok((settings, origins)),
        // The text of figment's errors may quote the value.
        Err(error) => {
            let error = error.into_iter().next();
            let path = error.map(|error| error.path.join(".")).unwrap_or_default();
            Err((path, "does not fit the settings".to_owned()))
        }
    }
}

/// `{ file = … }` below `{ env = … }` would be merged into a secret that has both.
fn drop_shadowed_secrets(earlier: &mut Node, later: &Node, fields: &[Field]) {
    let Data::Table(entries) = &mut earlier.data else {
        return;
    };
    entries.retain_mut(|entry| {
        let shape = fields
            .iter()
            .find(|field| field.name == entry.name)
            .map(|field| &field.shape);
        let over = later
            .entries()
            .iter()
            .find(|other| other.name == entry.name);
        match (shape, over) {
            (Some(Shape::Secret), Some(_)) => false,
            (Some(Shape::Table(fields)), Some(over)) => {
                drop_shadowed_secrets(&mut entry.node, &over.node, fields);
                true
            }
            _ => true,
        }
    });
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.to_string())
    }

    /// Everything goes into one profile: figment's own would let a file win over the environment.
    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Map::from([(Profile::Default, dict(&self.node))]))
    }
}

fn dict(node: &Node) -> Dict {
    node.entries()
        .iter()
        .map(|entry| (entry.name.clone(), value(&entry.node)))
        .collect()
}

fn value(node: &Node) -> Value {
    match &node.data {
        Data::Text(text) | Data::Time(text) => Value::from(text.clone()),
        Data::Integer(number) => Value::from(*number),
        Data::Float(number) => Value::from(*number),
        Data::Boolean(value) => Value::from(*value),
        Data::List(nodes) => Value::from(nodes.iter().map(value).collect::<Vec<Value>>()),
        Data::Table(_) => Value::from(dict(node)),
    }
}
