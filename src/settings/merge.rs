//! Merges the checked sources into settings, and knows which source each setting came from.
//!
//! Called by [`load`](super::load). The only file that names figment, which merges the sections and makes the settings;
//! what it is given has its lists of named things merged already.
//!
//! **Invariant**: tables are merged key by key and lists of tables by the names of their elements, in the order in which
//! names are first seen; everything else (other lists and secrets too) is replaced as a whole. The origins follow the
//! same rule, so that the origin of a setting is the source of its value; that of a name is the source that brought it.

mod origins;

use std::collections::HashMap;
use std::sync::Arc;

use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};

use super::Settings;
use super::problem::{self, Origin};
use super::schema::{Element, Field, ROOT, Shape};
use base::tree::{Data, Entry, Node};
pub(super) use origins::Origins;
use origins::Place;

/// One checked source.
pub(super) struct Layer {
    pub(super) rank: usize,
    pub(super) source: Arc<str>,
    pub(super) node: Node,
}

/// Lays one source over what those before it said.
struct Laying<'a> {
    layer: &'a Layer,
    origins: &'a mut Origins,
}

/// A setting: as all sources count, and as its own does.
struct Path {
    merged: String,
    own: String,
}

impl Path {
    fn key(&self, name: &str) -> Path {
        Path {
            merged: problem::join(&self.merged, name),
            own: problem::join(&self.own, name),
        }
    }

    fn element(&self, merged: usize, own: usize) -> Path {
        Path {
            merged: format!("{}[{merged}]", self.merged),
            own: format!("{}[{own}]", self.own),
        }
    }
}

impl Laying<'_> {
    fn lay(
        &mut self,
        path: &Path,
        line: Option<usize>,
        under: &mut Node,
        over: &Node,
        shape: &Shape,
    ) {
        match (shape, &over.data) {
            (_, Data::Refused) => {}
            (Shape::Table(_) | Shape::Secrets(_) | Shape::Free, Data::Table(entries)) => {
                self.table(path, under, entries, shape);
            }
            (Shape::Tables(element), Data::List(elements)) => {
                self.elements(path, under, elements, element);
            }
            (_, data) => {
                // An earlier list may have been longer.
                self.origins.forget(&path.merged);
                if let (Shape::List(..) | Shape::SecretList, Data::List(elements)) = (shape, data) {
                    for (index, element) in elements.iter().enumerate() {
                        self.record(&path.element(index, index), element.line, false);
                    }
                }
                under.data = data.clone();
            }
        }
        self.record(path, line, over.data == Data::Refused);
    }

    fn table(&mut self, path: &Path, under: &mut Node, entries: &[Entry], shape: &Shape) {
        let mut merged = match std::mem::replace(&mut under.data, Data::Refused) {
            Data::Table(merged) => merged,
            _ => Vec::new(),
        };
        for Entry { name, line, node } in entries {
            let found = merged.iter().position(|entry| entry.name == *name);
            let index = found.unwrap_or_else(|| {
                merged.push(Entry {
                    name: name.clone(),
                    line: *line,
                    node: Node::refused(*line),
                });
                merged.len() - 1
            });
            // Only what was refused has a name that the schema does not know.
            let shape = shape.of(name).unwrap_or(&Shape::Free);
            self.lay(&path.key(name), *line, &mut merged[index].node, node, shape);
        }
        under.data = Data::Table(merged);
    }

    fn elements(&mut self, path: &Path, under: &mut Node, elements: &[Node], element: &Element) {
        let mut merged = match std::mem::replace(&mut under.data, Data::Refused) {
            Data::List(merged) => merged,
            _ => Vec::new(),
        };
        let mut known: HashMap<String, usize> = HashMap::new();
        for (index, node) in merged.iter().enumerate() {
            known.extend(node.name().map(|name| (name.to_owned(), index)));
        }
        for (own, node) in elements.iter().enumerate() {
            let found = node.name().and_then(|name| known.get(name).copied());
            let index = found.unwrap_or_else(|| {
                merged.push(Node::empty_table(node.line));
                known.extend(node.name().map(|name| (name.to_owned(), merged.len() - 1)));
                merged.len() - 1
            });
            let path = path.element(index, own);
            self.give_way(&path, &mut merged[index], node, element);
            let name = path.key("name").merged;
            let brought = self.origins.0.get(&name).cloned();
            let shape = Shape::Table(element.fields);
            self.lay(&path, node.line, &mut merged[index], node, &shape);
            if let Some(brought) = brought {
                self.origins.0.insert(name, brought);
            }
        }
        under.data = Data::List(merged);
    }

    /// Of settings that exclude each other, the one that is new makes the others go.
    fn give_way(&mut self, path: &Path, under: &mut Node, over: &Node, element: &Element) {
        let given = |name: &str| over.get(name).is_some();
        let Data::Table(entries) = &mut under.data else {
            return;
        };
        if element.one_of.iter().any(|name| given(name)) {
            let gone = |name: &str| element.one_of.contains(&name) && !given(name);
            entries.retain(|entry| !gone(&entry.name));
            for name in element.one_of.iter().filter(|name| gone(name)) {
                self.origins.forget(&path.key(name).merged);
            }
        }
    }

    fn record(&mut self, path: &Path, line: Option<usize>, refused: bool) {
        let place = Place {
            origin: Origin {
                line,
                ..Origin::of(self.layer.rank, &self.layer.source)
            },
            path: path.own.clone(),
            refused,
        };
        self.origins.0.insert(path.merged.clone(), place);
    }
}

/// Merges the sources, the later over the earlier.
///
/// # Errors
///
/// The path and a message, if the schema let something pass that the settings do not take.
pub(super) fn merge(mut layers: Vec<Layer>) -> Result<(Settings, Origins), (String, String)> {
    let origins = merge_lists(&mut layers);
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

/// Adds to the lists of each source what the sources before it say of them: figment replaces lists.
fn merge_lists(layers: &mut [Layer]) -> Origins {
    let mut origins = Origins::default();
    let mut merged = Node::empty_table(None);
    let root = Path {
        merged: String::new(),
        own: String::new(),
    };
    for layer in layers {
        let mut laying = Laying {
            layer,
            origins: &mut origins,
        };
        let entries = layer.node.entries();
        laying.table(&root, &mut merged, entries, &Shape::Table(ROOT));
        let Data::Table(entries) = &mut layer.node.data else {
            continue;
        };
        fill_lists(entries, &merged);
    }
    origins
}

fn fill_lists(entries: &mut [Entry], merged: &Node) {
    for entry in entries {
        let Some(merged) = merged.get(&entry.name) else {
            continue;
        };
        match &mut entry.node.data {
            Data::List(_) => entry.node = merged.clone(),
            Data::Table(entries) => fill_lists(entries, merged),
            _ => {}
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
        match (shape, later.get(&entry.name)) {
            (Some(Shape::Secret | Shape::SecretList), Some(_)) => false,
            (Some(Shape::Table(fields)), Some(over)) => {
                drop_shadowed_secrets(&mut entry.node, over, fields);
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
    let entries = node.entries().iter();
    entries
        .filter_map(|entry| Some((entry.name.clone(), value(&entry.node)?)))
        .collect()
}

/// None for what was refused.
fn value(node: &Node) -> Option<Value> {
    Some(match &node.data {
        Data::Text(text) | Data::Time(text) => Value::from(text.clone()),
        Data::Integer(number) => Value::from(*number),
        Data::Float(number) => Value::from(*number),
        Data::Boolean(value) => Value::from(*value),
        Data::List(nodes) => Value::from(nodes.iter().filter_map(value).collect::<Vec<Value>>()),
        Data::Table(_) => Value::from(dict(node)),
        Data::Refused => return None,
    })
}
