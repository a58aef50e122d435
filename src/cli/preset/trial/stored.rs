//! What samples become in the pipeline: keys, removals, fields, or nothing.
//!
//! **Invariant**: a secret is made for each preset, and lies in a folder that lives no longer than the trial.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use uuid::Uuid;

use super::super::super::error::CliError;
use crate::daemon::{Delivered, Pipeline};
use base::clock::Unix;
use base::key::{KeyKind, generate};
use item::{Action, Items, field_name, members};
use settings::Sources;
use webhook::{Options, Preset, Sample, Trial, Tried};

/// What everything is stored in.
const STREAM: &str = "trial";

/// A pipeline with a connector for each preset.
pub(super) struct Storing {
    pipeline: Pipeline,
    /// Who sends for each, by its name.
    senders: Vec<(&'static str, Sender)>,
}

/// What signs for a preset, or the key that stands in its requests.
enum Sender {
    Signs(Box<Trial>),
    Key(String),
    /// Only the tool could.
    Nobody,
}

impl Storing {
    pub(super) async fn open(presets: &[&'static Preset]) -> Result<Self, CliError> {
        let failed = |error: &dyn std::fmt::Display| {
            CliError::failed(format!(
                "cannot create a directory to test presets in: {error}"
            ))
        };
        let folder = std::env::temp_dir().join(format!("headgate-presets-{}", Uuid::now_v7()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(|error| failed(&error))?;
        let opened = Self::open_in(&folder, presets).await;
        if opened.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        opened
    }

    async fn open_in(folder: &Path, presets: &[&'static Preset]) -> Result<Self, CliError> {
        let failed = |error: &dyn std::fmt::Display| {
            CliError::failed(format!("cannot test presets: {error}"))
        };
        let mut text = format!(
            "[server]\npublic_url = \"https://hooks.example.com\"\n[storage]\ndata_dir = {}\ndurability = \"os\"\n\
             [[streams]]\nname = \"{STREAM}\"\n",
            quoted(&folder.display().to_string())
        );
        // A configuration has its presets, and this one those that are tried.
        for own in webhook::own() {
            text.push_str(&own.to_entry());
        }
        let mut senders = Vec::new();
        for preset in presets {
            let sender = Sender::of(preset).map_err(|error| failed(&error))?;
            text.push_str(&sender.connector(preset));
            senders.push((preset.name.as_str(), sender));
        }
        let path = write(folder, &text).map_err(|error| failed(&error))?;
        let loaded = settings::load(&Sources {
            working_dir: folder.to_owned(),
            config_file: Some(path),
            env: Vec::new(),
            options: Vec::new(),
        });
        let loaded = loaded.map_err(|error| failed(&error))?;
        let pipeline = Pipeline::open(&loaded.settings).await;
        Ok(Self {
            pipeline: pipeline.map_err(|error| failed(&error))?,
            senders,
        })
    }
}

impl Storing {
    /// What becomes of a sample, against what it says.
    pub(super) async fn of_sample(&self, preset: &Preset, sample: &Sample, id: &str) -> Tried {
        let now = Unix::now();
        let sent = match self.delivered(preset, sample, (id, now)) {
            Ok(sent) => sent,
            Err(why) => return Tried::of("stored", Some(why)),
        };
        match self.pipeline.send(sent).await {
            Ok(items) => {
                let wrong = compare(items.as_ref(), sample, (id, now)).err();
                Tried::of(described(items.as_ref()), wrong)
            }
            Err(why) => Tried::of("stored", Some(why)),
        }
    }

    /// A sample as its tool sends it.
    fn delivered(
        &self,
        preset: &Preset,
        sample: &Sample,
        (id, now): (&str, Unix),
    ) -> Result<Delivered, String> {
        let connector = connector(preset);
        let target = webhook::path(STREAM, Some(&connector));
        let sender = self.senders.iter().find(|(name, _)| *name == preset.name);
        let (target, headers, body) = match sender.map(|(_, sender)| sender) {
            Some(Sender::Signs(trial)) => {
                let signed = trial.sign(sample, id, &target, now);
                let signed = signed.map_err(|error| error.to_string())?.in_lower_case();
                (signed.target(&target), signed.headers, signed.body)
            }
            Some(Sender::Key(key)) => {
                let own = sample.headers.iter();
                let own = own.map(|(name, value)| (name.to_lowercase(), value.clone()));
                let all = [
                    ("authorization".to_owned(), format!("Bearer {key}")),
                    ("content-type".to_owned(), sample.content_type.clone()),
                ];
                let headers = all.into_iter().chain(own).collect();
                (target, headers, sample.fill(id, now).into_bytes())
            }
            Some(Sender::Nobody) | None => return Err("only the provider can sign it".to_owned()),
        };
        Ok(Delivered {
            stream: STREAM,
            connector,
            target,
            headers,
            body,
        })
    }

    pub(super) async fn close(self) {
        self.pipeline.close().await;
    }
}

impl Sender {
    fn of(preset: &'static Preset) -> Result<Self, String> {
        if !preset.signed() {
            let key = generate(KeyKind::Ingest).map_err(|error| error.to_string())?;
            return Ok(Sender::Key(key.expose().to_owned()));
        }
        let trial = Trial::all(preset)?.into_iter().next();
        Ok(trial.map_or(Sender::Nobody, |trial| Sender::Signs(Box::new(trial))))
    }

    /// The connector in a configuration.
    fn connector(&self, preset: &Preset) -> String {
        let key = match self {
            Sender::Key(key) => format!("secret = {}", quoted(key)),
            Sender::Signs(trial) => format!("verify = {{ {} }}", verify(trial)),
            Sender::Nobody => return String::new(),
        };
        format!(
            "[[connectors]]\nname = {}\nkind = \"webhook\"\npreset = {}\n\
             keys = [{{ name = \"main\", stream = \"{STREAM}\", {key} }}]\n",
            quoted(&connector(preset)),
            quoted(&preset.name),
        )
    }
}

/// What is set of a key.
fn verify(trial: &Trial) -> String {
    let options = &trial.options;
    let mut fields = vec![
        format!("scheme = {}", quoted(&options.scheme)),
        format!("secret = {}", quoted(&trial.secret)),
    ];
    if let Some(header) = &options.header {
        fields.push(format!("header = {}", quoted(header)));
    }
    let mut others = Vec::new();
    for (name, text) in options.details() {
        let to = if Options::has_field(name) {
            &mut fields
        } else {
            &mut others
        };
        to.push(format!("{name} = {}", quoted(text)));
    }
    if !others.is_empty() {
        fields.push(format!("options = {{ {} }}", others.join(", ")));
    }
    fields.join(", ")
}

/// Names of presets may be those of built-in connectors.
fn connector(preset: &Preset) -> String {
    format!("try-{}", preset.name)
}

/// As TOML has it: what is made here has no character that JSON writes otherwise.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn write(folder: &Path, text: &str) -> std::io::Result<PathBuf> {
    let path = folder.join("trial.toml");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}

/// The keys of items of this kind.
fn keys(items: Option<&Items>, action: Action) -> Vec<&str> {
    let all = items.into_iter().flat_map(Items::iter);
    let of_kind = all.filter(|item| item.action == action);
    of_kind.map(|item| item.key).collect()
}

fn described(items: Option<&Items>) -> String {
    let stored = keys(items, Action::Upsert);
    let removed = keys(items, Action::Remove);
    match (items, stored.is_empty(), removed.is_empty()) {
        (None, ..) => "answered, and not stored".to_owned(),
        (_, true, true) => "no item".to_owned(),
        (_, false, true) => format!("stored as {}", stored.join(", ")),
        (_, true, false) => format!("removes {}", removed.join(", ")),
        (_, false, false) => {
            format!(
                "stored as {}; removes {}",
                stored.join(", "),
                removed.join(", ")
            )
        }
    }
}

/// What is stored against what the sample says.
fn compare(items: Option<&Items>, sample: &Sample, (id, now): (&str, Unix)) -> Result<(), String> {
    let expect = &sample.expect;
    let filled = |text: &str| Sample::fill_text(text, id, now);
    if items.is_none()
        && !expect.ignored
        && expect.keys.as_ref().is_none_or(|keys| !keys.is_empty())
    {
        return Err("it should be stored; say `expect = { ignored = true }` if not".to_owned());
    }
    if items.is_some() && expect.ignored {
        return Err("it should not be stored".to_owned());
    }
    for (word, expected, action) in [
        ("keys", &expect.keys, Action::Upsert),
        ("removed", &expect.removed, Action::Remove),
    ] {
        let Some(expected) = expected else { continue };
        let expected: Vec<String> = expected.iter().map(|key| filled(key)).collect();
        if keys(items, action) != expected {
            return Err(format!("`{word}` says {}", listed(&expected)));
        }
    }
    for (name, expected) in &expect.fields {
        let expected = match expected {
            Value::String(text) => filled(text).into(),
            other => other.clone(),
        };
        let all = items.into_iter().flat_map(Items::iter);
        let found: Vec<Value> = all
            .filter_map(|item| {
                let (_, value) = members(item.fields).find(|(own, _)| field_name(own) == *name)?;
                serde_json::from_str(value).ok()
            })
            .collect();
        match found.as_slice() {
            [] => return Err(format!("no item has the field {name}")),
            all if all.contains(&expected) => {}
            [first, ..] => return Err(format!("the field {name} is {first}, not {expected}")),
        }
    }
    Ok(())
}

fn listed(keys: &[String]) -> String {
    match keys {
        [] => "none".to_owned(),
        keys => keys.join(", "),
    }
}
