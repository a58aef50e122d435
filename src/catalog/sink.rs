//! Sinks: those that the configuration declares, and those that were made at run time.
//!
//! **Invariant**: where both have the same name the declared one runs, and the other waits, with its section.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use base::clock::Unix;
use settings::{Section, Settings, quoted};

/// That somebody paused a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// By what they were admitted, or the configuration.
    pub by: Arc<str>,
    /// None: the configuration says so.
    pub at: Option<Unix>,
}

/// A sink that is to run, or to wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Sink {
    /// With every secret; the path of a component is complete.
    pub settings: Arc<settings::Sink>,
    /// What was said of one that was made at run time.
    pub section: Option<Arc<Section>>,
    /// When it was made at run time. None: it is declared.
    pub created_at: Option<Unix>,
    pub pause: Option<Pause>,
    /// It was made at run time, too, and its section there does not count beside the declared one: it is kept, so
    /// that the sink is there again when the declaration goes.
    pub shadows: bool,
}

impl Sink {
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The shortest section that makes it; see [`settings::Sink::shown_section`].
    pub fn shown_section(&self) -> Map<String, Value> {
        let mut shown = self.settings.shown_section();
        // As it was said, without the folder of components.
        if let Some(plugin) = self
            .section
            .as_ref()
            .and_then(|section| section.get("plugin"))
        {
            shown.insert("plugin".to_owned(), plugin.clone());
        }
        if self.pause.is_some() {
            shown.insert("enabled".to_owned(), Value::Bool(false));
        }
        shown
    }

    /// Whether it stands in the configuration.
    pub fn is_declared(&self) -> bool {
        self.created_at.is_none()
    }
}

/// What the database has of a sink.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SinkRow {
    pub(super) name: String,
    /// None: it is declared, and only the pause is kept here.
    pub(super) section: Option<Section>,
    pub(super) created_at: Option<Unix>,
    /// It runs no more, and what is kept for it is about to go. The row stays meanwhile, so that a start after a kill
    /// continues with the rest.
    pub(super) deleting: bool,
    pub(super) pause: Option<Pause>,
}

/// What the configuration says of a sink that it does not let run.
const BY_CONFIGURATION: &str = "the configuration";

/// Those of the configuration, and where components are that others name without a path.
pub(super) struct DeclaredSinks {
    sinks: Vec<Arc<settings::Sink>>,
    plugins_dir: PathBuf,
}

impl DeclaredSinks {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            sinks: settings.sinks.iter().cloned().map(Arc::new).collect(),
            plugins_dir: settings.storage.plugins_dir(),
        }
    }

    /// Those that are to run, in the order of the configuration and then by name, and what cannot, in sentences. A sink
    /// that cannot run is reported instead of an error, because the other sinks can.
    pub(super) fn joined(&self, made: &[SinkRow]) -> (Vec<Arc<Sink>>, Vec<String>) {
        joined(&self.sinks, made, &self.plugins_dir)
    }
}

fn joined(
    declared: &[Arc<settings::Sink>],
    made: &[SinkRow],
    plugins_dir: &Path,
) -> (Vec<Arc<Sink>>, Vec<String>) {
    let row_of = |name: &str| made.iter().find(|row| row.name == name);
    let mut warnings = Vec::new();
    let mut sinks: Vec<Arc<Sink>> = Vec::new();
    for settings in declared {
        let row = row_of(&settings.name);
        let by_hand = row.and_then(|row| row.pause.clone());
        let by_configuration = (!settings.enabled).then(|| Pause {
            by: BY_CONFIGURATION.into(),
            at: None,
        });
        let shadows = row.is_some_and(|row| row.section.is_some() && !row.deleting);
        if shadows {
            warnings.push(shadowed(&settings.name));
        }
        sinks.push(Arc::new(Sink {
            settings: Arc::clone(settings),
            section: None,
            created_at: None,
            pause: by_configuration.or(by_hand),
            shadows,
        }));
    }
    for row in made.iter().filter(|row| !row.deleting) {
        let Some(section) = &row.section else {
            continue;
        };
        if declared.iter().any(|sink| sink.name == row.name) {
            continue;
        }
        match section.load(&row.name, plugins_dir) {
            Ok(settings) => sinks.push(Arc::new(Sink {
                settings: Arc::new(settings),
                section: Some(Arc::new(section.clone())),
                created_at: row.created_at,
                pause: row.pause.clone(),
                shadows: false,
            })),
            Err(why) => warnings.push(format!(
                "the sink {}, created at run time, cannot run: {why}; its data is kept",
                quoted(&row.name)
            )),
        }
    }
    let made = sinks.iter().filter(|sink| !sink.is_declared());
    let conflicts = made.filter_map(|sink| {
        let others = declared.iter().map(|other| &**other);
        let (setting, why) = sink.settings.conflict_with(others)?;
        Some(format!(
            "the sink {}, created at run time: {setting} {why}",
            quoted(sink.name())
        ))
    });
    warnings.extend(conflicts);
    (sinks, warnings)
}

/// What is told of a sink that is declared and was made at run time.
pub fn shadowed(name: &str) -> String {
    format!(
        "the sink {} was created at run time and is declared now: the declaration applies; remove it from the file, or delete the other one with `headgate sink delete {name}`",
        quoted(name)
    )
}
