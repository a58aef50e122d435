//! Where each setting was set last.
//!
//! **Invariant**: a path has one origin, that of the source whose value counts.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::problem::Origin;

/// Where each setting that some source names was set last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins(pub(super) BTreeMap<String, Place>);

/// Where a setting was set.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) origin: Origin,
    /// The setting as this source counts: elements that other sources name do not stand in it.
    pub(super) path: String,
    /// What stands there was refused.
    pub(super) refused: bool,
}

impl Origins {
    /// The origin of exactly this setting; none if it has its default.
    pub(crate) fn of(&self, path: &str) -> Option<&Origin> {
        self.0.get(path).map(|place| &place.origin)
    }

    /// The origin of this setting, or of the nearest table or list around it, and the setting as that source counts.
    pub(crate) fn nearest(&self, path: &str) -> Option<(&Origin, String)> {
        let mut around = path;
        loop {
            if let Some(place) = self.0.get(around) {
                let inside = &path[around.len()..];
                return Some((&place.origin, format!("{}{inside}", place.path)));
            }
            let end = around.rfind(['.', '['])?;
            around = &around[..end];
        }
    }

    /// Whether this setting, or anything inside it, was refused.
    pub(crate) fn was_refused(&self, path: &str) -> bool {
        self.at_and_inside(path).any(|(_, place)| place.refused)
    }

    /// This setting was made of that one.
    pub(crate) fn follow(&mut self, path: &str, from: &str) {
        if let Some(place) = self.0.get(from).cloned() {
            self.0.insert(path.to_owned(), place);
        }
    }

    fn at_and_inside(&self, path: &str) -> impl Iterator<Item = (&String, &Place)> {
        let from = (Bound::Included(path), Bound::Unbounded);
        let beginning = self
            .0
            .range::<str, _>(from)
            .map_while(move |(known, place)| {
                let rest = known.strip_prefix(path)?;
                Some((known, place, rest))
            });
        beginning
            .filter(|(.., rest)| rest.is_empty() || rest.starts_with(['.', '[']))
            .map(|(known, place, _)| (known, place))
    }

    pub(super) fn forget(&mut self, path: &str) {
        let gone: Vec<String> = self
            .at_and_inside(path)
            .map(|(known, _)| known.clone())
            .collect();
        for path in gone {
            self.0.remove(&path);
        }
    }
}
