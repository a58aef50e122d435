//! Checks the settings of a sink before they are stored.
//!
//! **Invariant**: settings that pass make a sink whose name is free and whose plugin accepts its configuration.

use serde_json::{Map, Value};

use crate::{OperateError, Operator};
use catalog::{CatalogError, ResourceKind};
use plugin::{invalid_config, ungranted};
use settings::beginning::{no_changes, no_state};
use settings::{BodyFault, Section};

impl Operator {
    /// Checks whether the data pool has items for a fill of the sink.
    pub(super) fn require_state(&self, sink: &settings::Sink) -> Result<(), OperateError> {
        let sinks = self.catalog.sinks();
        let all = sinks.iter().map(|other| &*other.settings);
        let why = match sink.is_latest() {
            true => no_changes(sink, all),
            false => no_state(sink, all),
        };
        match why {
            Some(why) => Err(OperateError::NoState(why)),
            None => Ok(()),
        }
    }

    pub(super) fn require_free(&self, name: &str) -> Result<(), OperateError> {
        let taken = match self.catalog.sink(name) {
            Some(sink) if sink.is_declared() => CatalogError::Declared(ResourceKind::Sink),
            Some(_) => CatalogError::Taken(ResourceKind::Sink),
            // The name of the built-in sink, which a file turned off.
            None if name == POOL => CatalogError::Declared(ResourceKind::Sink),
            None => return Ok(()),
        };
        Err(OperateError::Catalog(taken))
    }

    /// The sink with these settings, whose plugin starts with them.
    pub(super) async fn usable(&self, section: &Section) -> Result<settings::Sink, OperateError> {
        let sink = self.checked(section)?;
        let started = self.delivery.can_start(&sink).await;
        started.map_err(OperateError::Unusable)?;
        Ok(sink)
    }

    /// The sink with these settings.
    pub(crate) fn checked(&self, section: &Section) -> Result<settings::Sink, OperateError> {
        let streams: Vec<settings::Stream> = (self.catalog.readable_streams().iter())
            .map(|stream| stream.settings.clone())
            .collect();
        let plugins_dir = self.about.storage.plugins_dir();
        let sink = section
            .check(&plugins_dir, &streams)
            .map_err(OperateError::Invalid)?;
        let violations = invalid_config(&sink).into_iter().chain(ungranted(&sink));
        let mut faults: Vec<BodyFault> = violations
            .map(|(path, message)| BodyFault {
                field: "config",
                path,
                message,
            })
            .collect();
        let sinks = self.catalog.sinks();
        let conflict = sink.conflict_with(sinks.iter().map(|other| &*other.settings));
        faults.extend(conflict.map(|(field, message)| BodyFault {
            field,
            path: field.to_owned(),
            message,
        }));
        match faults.is_empty() {
            true => Ok(sink),
            false => Err(OperateError::Invalid(faults)),
        }
    }
}

/// The name of the built-in sink.
const POOL: &str = "pool";

/// The settings after a patch.
pub(crate) fn patched(
    section: &Section,
    patch: Map<String, Value>,
) -> Result<Section, OperateError> {
    if patch.contains_key("name") {
        return Err(OperateError::Invalid(vec![BodyFault {
            field: "name",
            path: "name".to_owned(),
            message: "cannot be changed: the cursor and the dead letters belong to the name; create another sink".to_owned(),
        }]));
    }
    let changed = section.changed(patch).map_err(OperateError::Invalid)?;
    match changed.get("mode") == section.get("mode") {
        true => Ok(changed),
        false => Err(OperateError::Invalid(vec![BodyFault {
            field: "mode",
            path: "mode".to_owned(),
            message: "cannot be changed: create another sink for it".to_owned(),
        }])),
    }
}
