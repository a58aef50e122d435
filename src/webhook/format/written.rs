//! A preset as TOML again, as it counts: what it extends is part of it.
//!
//! `headgate preset show` and the admin API print it.
//!
//! **Invariant**: what is written here reads back as the same preset; what is as usual is left out.

mod handshake;
mod value;

use serde_json::{Map, Value, json};

use super::SECRETS_FROM;
use super::verification::{DIGESTS, ENCODINGS, SECRET_FORMS, UNITS};
use crate::key::base64;
use crate::path::Path;
use crate::place::{Place, Source};
use crate::preset::{
    ALGORITHMS, DeliveryAnswer, Expectation, ItemKey, KeyFields, Preset, PresetOption, Sample,
    SentDelivery, ToolSetup, Verification,
};
use handshake::handshake;
use value::lines;

/// The tables that have a heading of their own; what else is a table stands in a line.
const HEADED: [&str; 6] = [
    "verify",
    "options",
    "handshakes",
    "setup",
    "samples",
    "vectors",
];

/// The fields of a table in their order.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Unless it is as usual.
    fn unless<T: PartialEq + Into<Value>>(&mut self, name: &str, value: T, usual: T) {
        if value != usual {
            self.put(name, value);
        }
    }

    /// Unless it is empty text, an empty list or an empty table.
    fn filled(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            self.put(name, value);
        }
    }

    /// If it is said.
    fn said(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

/// The preset as a file says it, or as an entry of the list of this name.
pub(crate) fn toml(preset: &Preset, list: Option<&str>) -> String {
    let fields = table(preset);
    let (headed, plain): (Vec<_>, Vec<_>) =
        (fields.iter()).partition(|(name, _)| HEADED.contains(&name.as_str()));
    let mut text = list.map_or_else(String::new, |list| format!("\n[[{list}]]\n"));
    lines(&mut text, plain.into_iter());
    let within = list.map_or_else(String::new, |list| format!("{list}."));
    for (name, value) in headed {
        let (mark, tables) = match value {
            Value::Array(tables) => (format!("[[{within}{name}]]"), tables.as_slice()),
            table => (format!("[{within}{name}]"), std::slice::from_ref(table)),
        };
        for table in tables {
            text.push_str(&format!("\n{mark}\n"));
            lines(&mut text, table.as_object().into_iter().flatten());
        }
    }
    text
}

/// A delivery that was sent, as a preset says it.
pub(crate) fn vector_toml(sent: &SentDelivery) -> String {
    let mut text = String::new();
    lines(&mut text, vector(sent).as_object().into_iter().flatten());
    text
}

fn table(preset: &Preset) -> Map<String, Value> {
    let usual = Preset::default();
    let mut fields = Fields::default();
    fields.put("name", preset.name.as_str());
    fields.put("title", preset.title.as_str());
    fields.filled("secret_hint", preset.secret_hint.as_str());
    fields.filled("events_hint", preset.events_hint.as_str());
    fields.said("docs", preset.docs.as_deref());
    fields.said("source", preset.source.as_deref());
    let from = name_of(&SECRETS_FROM, preset.secret_from);
    fields.unless("secret_from", from, SECRETS_FROM[0].0);
    fields.said("secret_label", preset.secret_label.as_deref());
    fields.said("secret_example", preset.secret_example.as_deref());
    fields.said("id", preset.id.as_ref().map(source));
    fields.said("id_scope", preset.id_scope.as_ref().map(source));
    fields.said("replay", preset.replay_body.then_some("body"));
    let types = preset.content_types.as_slice();
    if types != ["application/json"] {
        fields.put("content_types", types);
    }
    fields.filled("base64", paths(&preset.base64));
    fields.said("event", preset.event.as_ref().map(source));
    fields.unless("event_field", preset.event_field, false);
    fields.said("items", preset.items.as_ref().map(Path::text));
    fields.filled("with", pairs(&preset.with, |path| path.text().into()));
    fields.said("content", preset.content.as_ref().map(Path::text));
    fields.filled("omit", paths(&preset.omit));
    fields.said("item_key", preset.item_key.as_ref().map(item_key));
    fields.said("version", preset.version.as_ref().map(Path::text));
    if !preset.removals.is_empty() {
        fields.put("delete_when", json!({ "event": preset.removals }));
    }
    if let Some((field, is)) = &preset.removal_field {
        fields.put("delete_when", json!({ "field": field.text(), "is": is }));
    }
    fields.unless("unsigned_event", preset.unsigned_event, false);
    fields.filled("ignore", preset.ignore.as_slice());
    if preset.answer != usual.answer {
        fields.put("answer", answer(&preset.answer));
    }
    fields.unless("retries_4xx", preset.retries_4xx, true);
    fields.filled("options", each(&preset.options, option));
    fields.said("verify", preset.verify.as_ref().map(verification));
    fields.filled("handshakes", each(&preset.handshakes, handshake));
    fields.said("setup", preset.setup.as_ref().map(setup));
    fields.filled("samples", each(&preset.samples, sample));
    fields.filled("vectors", each(&preset.vectors, vector));
    fields.0
}

/// The word for a value.
fn name_of<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    let word = words.iter().find(|(_, one)| *one == value);
    word.map_or("", |(name, _)| name)
}

fn each<T>(all: &[T], one: impl Fn(&T) -> Value) -> Value {
    Value::Array(all.iter().map(one).collect())
}

fn pairs<T>(all: &[(String, T)], one: impl Fn(&T) -> Value) -> Value {
    let fields = all.iter().map(|(name, value)| (name.clone(), one(value)));
    Value::Object(fields.collect())
}

fn texts(all: &[(String, String)]) -> Value {
    pairs(all, |text| text.as_str().into())
}

fn paths(all: &[Path]) -> Value {
    each(all, |path| path.text().into())
}

/// One as itself, several as a list.
fn several<T>(all: &[T], one: impl Fn(&T) -> Value) -> Value {
    match all {
        [single] => one(single),
        _ => each(all, one),
    }
}

fn places(all: &[Place]) -> Value {
    several(all, |place| place.written().into())
}

fn source(source: &Source) -> Value {
    match source.0.as_slice() {
        [joined] if joined.len() == 1 => places(joined),
        all => each(all, |joined| places(joined)),
    }
}

fn item_key(key: &ItemKey) -> Value {
    let one = |fields: &KeyFields| match fields {
        KeyFields::Delivery => "@delivery".into(),
        // Alone it would be the word for the delivery.
        KeyFields::Fields(fields) if fields.iter().any(|path| path.text() == "@delivery") => {
            paths(fields)
        }
        KeyFields::Fields(fields) => several(fields, |path| path.text().into()),
    };
    match key.0.as_slice() {
        [single] => one(single),
        all => json!({ "first": each(all, one) }),
    }
}

fn answer(answer: &DeliveryAnswer) -> Value {
    let Some((kind, text)) = &answer.body else {
        return answer.status.into();
    };
    let mut fields = Fields::default();
    fields.put("status", answer.status);
    match (*kind == crate::handshake::JSON).then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(json)) => fields.put("json", json),
        _ => fields.put("text", text.as_str()),
    }
    fields.done()
}

fn option(option: &PresetOption) -> Value {
    let mut fields = Fields::default();
    fields.put("name", option.name.as_str());
    fields.put("label", option.label.as_str());
    fields.filled("hint", option.hint.as_str());
    if option.required != option.without.is_none() {
        fields.put("required", option.required);
    }
    fields.said("without", option.without.as_deref());
    fields.done()
}

fn verification(verify: &Verification) -> Value {
    let usual = Verification::default();
    let mut fields = Fields::default();
    let algorithm = name_of(&ALGORITHMS, verify.algorithm);
    fields.unless("algorithm", algorithm, ALGORITHMS[0].0);
    fields.filled("signature", places(&verify.signature));
    fields.said("separator", verify.separator.map(String::from));
    fields.filled("prefix", verify.prefix.as_str());
    let encoding = name_of(&ENCODINGS, verify.encoding);
    fields.unless("encoding", encoding, ENCODINGS[0].0);
    fields.unless("signed", verify.signed.written(), usual.signed.written());
    fields.unless("unsigned_body", verify.unsigned_body, false);
    fields.filled("timestamp", places(&verify.timestamp));
    fields.unless("timestamp_unit", name_of(&UNITS, verify.unit), UNITS[0].0);
    let tolerance = (verify.tolerance_seconds, usual.tolerance_seconds);
    fields.unless("tolerance_seconds", tolerance.0, tolerance.1);
    fields.unless("in_step", verify.in_step, false);
    fields.filled("by_secret", texts(&verify.by_secret));
    let form = name_of(&SECRET_FORMS, verify.secret_encoding);
    fields.unless("secret_encoding", form, SECRET_FORMS[0].0);
    fields.filled("secret_prefix", verify.secret_prefix.as_str());
    if let Some(hash) = &verify.body_hash {
        let digest = name_of(&DIGESTS, hash.hash);
        let encoding = name_of(&ENCODINGS, hash.encoding);
        let hash = json!({ "claim": hash.claim, "hash": digest, "encoding": encoding });
        fields.put("body_hash", hash);
    }
    let claims = pairs(&verify.claims, |claim| claim.written().into());
    fields.filled("claims", claims);
    fields.done()
}

fn setup(setup: &ToolSetup) -> Value {
    let mut fields = Fields::default();
    fields.said("file", setup.file.as_deref());
    fields.said("language", setup.language.as_deref());
    fields.said("snippet", setup.snippet.as_deref());
    fields.filled("steps", setup.steps.as_slice());
    fields.done()
}

fn sample(sample: &Sample) -> Value {
    let mut fields = Fields::default();
    fields.put("event", sample.event.as_str());
    let kind = sample.content_type.as_str();
    fields.unless("content_type", kind, "application/json");
    fields.filled("headers", texts(&sample.headers));
    fields.put("body", sample.body.as_str());
    fields.filled("expect", expectation(&sample.expect));
    fields.done()
}

fn expectation(expect: &Expectation) -> Value {
    let mut fields = Fields::default();
    fields.said("keys", expect.keys.as_deref());
    fields.said("removed", expect.removed.as_deref());
    fields.unless("ignored", expect.ignored, false);
    let stored = pairs(&expect.fields, Value::clone);
    fields.filled("fields", stored);
    fields.done()
}

fn vector(vector: &SentDelivery) -> Value {
    let mut fields = Fields::default();
    fields.put("secret", vector.secret.as_str());
    fields.said("now", vector.now);
    fields.said("method", vector.method.as_deref());
    fields.said("url", vector.url.as_deref());
    fields.filled("headers", texts(&vector.headers));
    match std::str::from_utf8(&vector.body) {
        Ok(body) => fields.put("body", body),
        Err(_) => fields.put("body_base64", base64(&vector.body)),
    }
    fields.filled("options", texts(&vector.options));
    fields.unless("valid", vector.valid, true);
    fields.done()
}
