//! Writes items into files of a folder: rows appended as items are accepted, or the newest state as a whole.
//!
//! **Invariant**: a finished file has each row once. How long a file is that is not finished is stored with the sink's
//! cursor: what a call wrote that was not settled is cut off before the next one writes.

mod settings;

use std::collections::{BTreeMap, BTreeSet};

use headgate_sdk::tables::{self, Table, Text};
use headgate_sdk::templates::{Place, Subject, Template};
use headgate_sdk::{ALL, Action, Batch, Opened, Operations, Sink, Span, WriteError, folder, state};
use serde_json::{Value, json};
use settings::Settings;

/// Columns of a file, and what they take in the state.
const FIELDS_MAX: usize = 1_000;
const FIELDS_BYTES_MAX: usize = 40_000;
/// Bytes of a name that a template makes: what is added has room.
const NAME_BYTES_MAX: usize = 150;
const DAY_MS: u64 = 86_400_000;

static SINK: Opened<File> = Opened::new();

/// The sink with its settings.
struct File {
    settings: Settings,
    name: Template,
    table: Table,
    follows_latest: bool,
}

/// The file of a stream that rows are appended to, and those before it.
#[derive(Default)]
struct Unfinished {
    /// How many files there were before it.
    number: u64,
    /// Empty: none was begun.
    part: String,
    /// What it is called once it is finished.
    to: String,
    /// Bytes that are settled.
    len: u64,
    /// When its first row was accepted, and what its name is made of.
    begun_ms: u64,
    name: String,
    fields: Vec<String>,
    /// The finished ones, if they are counted.
    done: Vec<String>,
}

impl Unfinished {
    /// As it is stored; nothing was begun where nothing is.
    fn of(stream: &str) -> Self {
        let stored = state::get(stream).unwrap_or_default();
        let stored: Value = serde_json::from_slice(&stored).unwrap_or_default();
        let text = |name: &str| stored[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| stored[name].as_u64().unwrap_or_default();
        let list = |name: &str| {
            let list = stored[name].as_array().into_iter().flatten();
            list.filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        Self {
            number: number("number"),
            part: text("part"),
            to: text("to"),
            len: number("len"),
            begun_ms: number("begun_ms"),
            name: text("name"),
            fields: list("fields"),
            done: list("done"),
        }
    }

    fn store(&self, stream: &str) {
        let stored = json!({
            "number": self.number, "part": self.part, "to": self.to, "len": self.len, "begun_ms": self.begun_ms,
            "name": self.name, "fields": self.fields, "done": self.done,
        });
        state::set(stream, stored.to_string().as_bytes());
    }
}

impl File {
    fn new(settings: Settings) -> Result<Self, String> {
        let follows_latest = tables::follows_latest();
        settings.check(follows_latest)?;
        let name = settings.name();
        if follows_latest && name.contains("_date") {
            return Err("`name` cannot have `_date` with mode = \"latest\"".to_owned());
        }
        Ok(Self {
            name: Template::parse("config.name", &name, Place::FileName, Subject::Item)?,
            table: Table::open(&settings.form, &settings.parameters())?,
            follows_latest,
            settings,
        })
    }

    /// The name of a stream's file.
    fn name(&self, batch: &Batch, index: u32) -> Result<String, WriteError> {
        let name = self.name.fill(
            batch,
            Span {
                start: index,
                count: 1,
            },
        );
        let name = name.map_err(WriteError::Reject)?;
        if name.len() > NAME_BYTES_MAX {
            let reason = format!("the name of its file would have over {NAME_BYTES_MAX} bytes");
            return Err(WriteError::Reject(reason));
        }
        Ok(name)
    }

    /// Each stream of the batch as a whole.
    fn replace(&self, batch: &Batch) -> Result<(), WriteError> {
        let mut seen = BTreeSet::new();
        for (index, stream) in (0..).zip(batch.streams(ALL)) {
            if seen.contains(&stream) {
                continue;
            }
            let name = self.name(batch, index)?;
            let text = self.table.whole(&stream).map_err(WriteError::retry)?;
            folder::replace(&name, &text).map_err(WriteError::retry)?;
            seen.insert(stream);
        }
        Ok(())
    }

    /// The updates of each stream, a file for each day if its name has one.
    fn append(&self, batch: &Batch) -> Result<(), WriteError> {
        let (streams, times, actions) = (batch.streams(ALL), batch.times(ALL), batch.actions(ALL));
        let mut groups: BTreeMap<(&str, u64), Vec<u32>> = BTreeMap::new();
        for (index, action) in (0..).zip(&actions) {
            if *action == Action::Update {
                let place = index as usize;
                let group = (&*streams[place], times[place] / DAY_MS);
                groups.entry(group).or_default().push(index);
            }
        }
        for ((stream, _), indexes) in groups {
            let items = batch.select(&indexes);
            let name = self.name(&items, 0)?;
            let times = indexes.iter().map(|index| times[*index as usize]);
            let (first, last) = times.fold((u64::MAX, 0), |(first, last), time| {
                (first.min(time), last.max(time))
            });
            self.append_to(stream, name, &items, (first, last))?;
        }
        Ok(())
    }

    fn append_to(
        &self,
        stream: &str,
        name: String,
        items: &Batch,
        (first_ms, last_ms): (u64, u64),
    ) -> Result<(), WriteError> {
        let mut file = Unfinished::of(stream);
        let fields = self.fields(&file, items)?;
        let is_full = file.len >= self.settings.rotate_bytes
            || (self.settings.rotate_minutes)
                .is_some_and(|minutes| last_ms.saturating_sub(file.begun_ms) >= minutes * 60_000);
        let is_other = file.name != name || file.fields != fields;
        // Gone, or finished by a call that was not settled.
        let is_there = !file.part.is_empty()
            && folder::size(&file.part).map_err(WriteError::retry)? >= Some(file.len);
        if is_full || is_other || !is_there {
            self.finish(&mut file)?;
            self.begin(&mut file, name, fields, first_ms);
        }
        let rows = self.table.rows(items, ALL, &file.fields);
        if file.len == 0 {
            let head = self.table.head(&file.fields);
            self.add(&mut file, &head)?;
        }
        self.add(&mut file, &rows)?;
        file.store(stream);
        Ok(())
    }

    /// The columns: those that the section chooses; or those of the file, and what is new behind them.
    fn fields(&self, file: &Unfinished, items: &Batch) -> Result<Vec<String>, WriteError> {
        if !self.settings.has_columns() {
            return Ok(Vec::new());
        }
        let chosen = tables::chosen_fields();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let own = items.field_names();
        let is_small = |fields: &[String]| {
            fields.len() <= FIELDS_MAX && json!(fields).to_string().len() <= FIELDS_BYTES_MAX
        };
        if !is_small(&own) {
            return Err(WriteError::Reject(format!(
                "its items have over {FIELDS_MAX} fields; choose some with `fields` of the sink"
            )));
        }
        let mut fields = file.fields.clone();
        let known: BTreeSet<&String> = file.fields.iter().collect();
        fields.extend(own.iter().filter(|name| !known.contains(name)).cloned());
        Ok(if is_small(&fields) { fields } else { own })
    }

    /// Gives the file its final name, and removes those that are too many.
    fn finish(&self, file: &mut Unfinished) -> Result<(), WriteError> {
        if file.part.is_empty() {
            return Ok(());
        }
        folder::finish(&file.part, file.len, &file.to).map_err(WriteError::retry)?;
        if let Some(keep) = self.settings.keep_files {
            file.done.push(std::mem::take(&mut file.to));
            let many = file.done.len().saturating_sub(keep as usize);
            for name in file.done.drain(..many) {
                folder::remove(&name).map_err(WriteError::retry)?;
            }
        }
        Ok(())
    }

    fn begin(&self, file: &mut Unfinished, name: String, fields: Vec<String>, first_ms: u64) {
        file.number += 1;
        let number = file.number;
        let (stem, ending) = match name.rfind('.') {
            Some(at) if at > 0 => name.split_at(at),
            _ => (&*name, ""),
        };
        file.part = format!("{stem}-{number}{ending}.part");
        file.to = format!("{stem}-{}-{number}{ending}", settings::time(first_ms));
        file.name = name;
        file.len = 0;
        file.begun_ms = first_ms;
        file.fields = fields;
    }

    fn add(&self, file: &mut Unfinished, text: &Text) -> Result<(), WriteError> {
        folder::append(&file.part, file.len, text).map_err(WriteError::retry)?;
        file.len += text.len();
        Ok(())
    }
}

impl Sink for File {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn open(config: &str) -> Result<(), String> {
        SINK.set(File::new(Settings::read(config)?)?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let sink = SINK.get()?;
        match sink.follows_latest {
            true => sink.replace(&batch),
            false => sink.append(&batch),
        }
    }
}

impl Operations for File {}

headgate_sdk::export!(File with operations);
