//! The section of a sink that is made at run time: what was said of it, changed by patches, checked as in a file.
//!
//! The catalog stores sections; the API, the pages and the command line send them and show what they say.
//!
//! **Invariant**: what [`Section::check`] lets through, put into a file, is the same sink. Only [`Section::stored`] has
//! the texts of secrets; what is shown has [`IS_SET`] in their places, and a patch with that there leaves them as they are.

mod shown;

use std::path::Path;

use serde_json::{Map, Value, json};

use super::merge::Origins;
use super::record::Shape;
use super::validate::{Validator, mode_mistakes};
use super::{BUILT_IN_PLUGINS, BodyFault, Patch, Sink, Stream, masking, problem};
pub use shown::section_toml;

/// The member that stands in the place of a secret: `{"set": true}`.
pub const IS_SET: &str = "set";
/// What a secret was changed to, in the audit log.
const CHANGED: &str = "changed";

/// What is said of a sink: the keys of its section. It holds secrets.
#[derive(Clone, Default, PartialEq)]
pub struct Section(Map<String, Value>);

impl std::fmt::Debug for Section {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.keys()).finish()
    }
}

impl Section {
    /// What a body says of a new sink.
    ///
    /// # Errors
    /// A secret is to stay as it is, and there is none.
    pub fn of_new(body: Map<String, Value>) -> Result<Self, Vec<BodyFault>> {
        Self::default().changed(body)
    }

    /// The section with a JSON merge patch: null takes away what was said, `{"set": true}` leaves a secret as it is.
    ///
    /// # Errors
    /// A secret is to stay as it is, and there is none.
    pub fn changed(&self, mut patch: Map<String, Value>) -> Result<Self, Vec<BodyFault>> {
        if let (Some(config), Some(stored)) = (patch.get_mut("config"), self.0.get("config")) {
            let mut shown = stored.clone();
            masking::mask(&mut shown);
            unmask(config, &shown, stored);
        }
        let mut faults = Vec::new();
        let mut section = Value::Object(self.0.clone());
        let whole = Shape::Table(Sink::FIELDS);
        merge(&mut section, Value::Object(patch), &whole, "", &mut faults);
        match (section, faults.is_empty()) {
            (Value::Object(section), true) => Ok(Self(section)),
            _ => Err(faults),
        }
    }

    /// As it was stored; none if that is no section.
    pub fn of_stored(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    /// To be stored: with its secrets.
    pub fn stored(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// What is said of one key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Takes out what is said of one key.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key)
    }

    /// The sink that it makes, held to the rules of files; `streams` are those that are known.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn check(&self, plugins_dir: &Path, streams: &[Stream]) -> Result<Sink, Vec<BodyFault>> {
        let mut faults = Vec::new();
        if let Some(config) = self.0.get("config") {
            not_in_files("config", config, &mut faults);
        }
        match self.0.get("plugin").and_then(Value::as_str) {
            Some(plugin) if plugin.contains('/') || plugin.ends_with(".wasm") => faults.push(fault(
                "plugin",
                "must be the name of a built-in plugin, or of a file in the plugins directory without its extension; paths are not allowed",
            )),
            _ => {}
        }
        let patch = match Patch::of_new(Sink::FIELDS, &[], self.0.clone()) {
            Ok(patch) => patch,
            Err(mut more) => {
                faults.append(&mut more);
                return Err(faults);
            }
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let Ok(mut sink) = Sink::of(&patch) else {
            return Err(vec![fault("config", "cannot be set")]);
        };
        // As it was sent: a checker of texts has whole numbers only.
        if let Some(config) = self.0.get("config") {
            sink.config = config.clone();
        }
        let origins = Origins::default();
        let mut validator = Validator::new(&origins, &[]);
        validator.sink(0, &mut sink, plugins_dir, streams);
        let is_set = |setting: &str| {
            let pointer = format!("/{}", setting.replace('.', "/"));
            Value::Object(self.0.clone()).pointer(&pointer).is_some()
        };
        let mistakes = mode_mistakes(&sink, is_set).into_iter();
        let mut faults = of_problems(validator.problems);
        faults.extend(mistakes.map(|(setting, message)| BodyFault {
            field: setting.split('.').next().unwrap_or_default(),
            path: setting.to_owned(),
            message: message.to_owned(),
        }));
        match faults.is_empty() {
            true => Ok(sink),
            false => Err(faults),
        }
    }

    /// The sink that it made when it was stored. Keys that this version does not know are left out.
    ///
    /// # Errors
    /// This version cannot read it: which key, without its value.
    pub fn load(&self, name: &str, plugins_dir: &Path) -> Result<Sink, String> {
        let mut sink = Sink::default();
        for (key, value) in &self.0 {
            let read = sink.set(key, value.clone());
            read.map_err(|_| format!("this version does not know `{key}`"))?;
        }
        name.clone_into(&mut sink.name);
        if !BUILT_IN_PLUGINS.contains(&&*sink.plugin) {
            sink.plugin = in_folder(plugins_dir, &sink.plugin);
        }
        Ok(sink)
    }

    /// For the audit log: secrets are `set`, and `changed` where they are another than before.
    pub fn audited(&self, before: Option<&Self>) -> Value {
        let mut section = Value::Object(self.0.clone());
        let before = before.map(|before| Value::Object(before.0.clone()));
        audited(&mut section, before.as_ref(), &Shape::Table(Sink::FIELDS));
        section
    }
}

/// The file of a component in the plugins folder, by its bare name.
pub(super) fn in_folder(plugins_dir: &Path, name: &str) -> String {
    let file = plugins_dir.join(format!("{name}.wasm"));
    file.to_string_lossy().into_owned()
}

fn fault(field: &'static str, message: &str) -> BodyFault {
    BodyFault {
        field,
        path: field.to_owned(),
        message: message.to_owned(),
    }
}

/// The row that a place of a section begins with.
fn row_of(path: &str) -> &'static str {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let row = Sink::FIELDS.iter().find(|row| row.name == first);
    row.map_or("", |row| row.name)
}

fn of_problems(problems: Vec<problem::Problem>) -> Vec<BodyFault> {
    let faults = problems.into_iter().map(|problem| {
        let path = problem.path.strip_prefix("sinks[0].").unwrap_or_default();
        BodyFault {
            field: row_of(path),
            path: path.to_owned(),
            message: problem.message,
        }
    });
    faults.collect()
}

fn is_set(value: &Value) -> bool {
    let members = value.as_object();
    members.is_some_and(|members| members.len() == 1 && members.get(IS_SET) == Some(&json!(true)))
}

/// RFC 7386, with secrets that stay.
fn merge(target: &mut Value, patch: Value, shape: &Shape, path: &str, faults: &mut Vec<BodyFault>) {
    if let Shape::Secret = shape
        && is_set(&patch)
    {
        if !target.is_string() {
            faults.push(BodyFault {
                field: row_of(path),
                path: path.to_owned(),
                message: "has no value yet; send its text".to_owned(),
            });
        }
        return;
    }
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(kept) = target.as_object_mut() else {
        return;
    };
    for (name, value) in members {
        if value.is_null() {
            kept.shift_remove(&name);
            continue;
        }
        let inner = shape.of(&name).unwrap_or(&Shape::Free);
        let path = problem::join(path, &name);
        merge(
            kept.entry(name).or_insert(Value::Null),
            value,
            inner,
            &path,
            faults,
        );
    }
}

/// What stands in a patch as it was shown is meant as it is stored.
fn unmask(patch: &mut Value, shown: &Value, stored: &Value) {
    match (patch, shown, stored) {
        (Value::Array(patch), Value::Array(shown), Value::Array(stored)) => {
            for (patch, (shown, stored)) in patch.iter_mut().zip(shown.iter().zip(stored)) {
                unmask(patch, shown, stored);
            }
        }
        (Value::Object(patch), shown @ Value::Object(_), stored @ Value::Object(_)) => {
            for (name, value) in patch {
                unmask(value, &shown[&**name], &stored[&**name]);
            }
        }
        (patch, shown, stored) if *patch == *shown => *patch = stored.clone(),
        _ => {}
    }
}

/// What JSON has and files have not.
fn not_in_files(path: &str, value: &Value, faults: &mut Vec<BodyFault>) {
    let message = match value {
        Value::Null => "null is not allowed in a list, because configuration files have no null",
        Value::Number(number) if number.as_i64().is_none() && number.is_u64() => {
            "exceeds the largest integer of a configuration file, 9223372036854775807"
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                not_in_files(&format!("{path}[{index}]"), value, faults);
            }
            return;
        }
        Value::Object(members) => {
            for (name, value) in members {
                not_in_files(&problem::join(path, name), value, faults);
            }
            return;
        }
        _ => return,
    };
    faults.push(BodyFault {
        field: "config",
        path: path.to_owned(),
        message: message.to_owned(),
    });
}

fn audited(value: &mut Value, before: Option<&Value>, shape: &Shape) {
    match (shape, value) {
        (Shape::Secret | Shape::SecretList, value) => {
            let is_same = before.is_none_or(|before| *before == *value);
            *value = json!(if is_same { IS_SET } else { CHANGED });
        }
        (Shape::Free, value) => masking::mask(value),
        (shape, Value::Object(members)) => {
            for (name, value) in members {
                if let Some(shape) = shape.of(name) {
                    audited(value, before.and_then(|before| before.get(name)), shape);
                }
            }
        }
        _ => {}
    }
}
