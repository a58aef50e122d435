//! Presets as files: TOML, every field of which is known.
//!
//! The table of presets reads those that are part of the program, the settings those of a folder and of the
//! configuration. Its files: `reader` (fields of a table), `verification` (`[verify]`), `handshake`, `tried` (samples and
//! vectors), `check` (what cannot be).
//!
//! **Invariant**: a mistake is an error with its line and what was expected; nothing is left out in silence.

mod check;
mod handshake;
mod reader;
mod tried;
pub(super) mod verification;

use base::tree::{self, Data, Node};

use super::path::Path;
use super::place::{Place, Source};
use super::preset::{
    DeliveryAnswer, ItemKey, KeyFields, Origin, Preset, PresetOption, SecretFrom, ToolSetup,
};
pub(super) use check::verification;
use reader::{Reader, missing, text_of, texts_of, wrong};

/// Bytes of a file.
pub const FILE_LEN_MAX: usize = 256 * 1_024;
/// How far a preset may be extended.
const CHAIN_MAX: usize = 4;
const LIST_MAX: usize = 200;

/// What is wrong with a preset, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct FormatError {
    pub line: Option<usize>,
    /// What is wrong, what was expected, and what to do.
    pub message: String,
}

impl FormatError {
    pub(super) fn new(line: Option<usize>, message: impl Into<String>) -> FormatError {
        let message = message.into();
        FormatError { line, message }
    }
}

/// A preset that was read, before what it extends is known.
pub struct Draft {
    name: String,
    origin: Origin,
    node: Node,
    extends: Option<(String, Option<usize>)>,
}

impl Draft {
    /// # Errors
    /// The text is no TOML, or too long.
    pub fn parse(name: &str, origin: Origin, text: &str) -> Result<Draft, FormatError> {
        if text.len() > FILE_LEN_MAX {
            let message = format!("the file has more than {FILE_LEN_MAX} bytes");
            return Err(FormatError::new(None, message));
        }
        let node = tree::parse(text).map_err(|fault| FormatError::new(fault.line, fault.message))?;
        Draft::of(name, origin, node)
    }

    /// The same of a table that was read already.
    ///
    /// # Errors
    /// Its name is none.
    pub fn of(name: &str, origin: Origin, node: Node) -> Result<Draft, FormatError> {
        let own = node.get("name").map(|own| (text_of("name", own), own.line));
        let (name, line) = match own {
            Some((own, line)) => (own?, line),
            None => (name.to_owned(), None),
        };
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if !(1..=40).contains(&name.len()) || !name.bytes().all(fits) {
            let message = format!(
                "the name `{}` is not 1 to 40 of a to z, 0 to 9, `_` and `-`",
                name.escape_debug()
            );
            return Err(FormatError::new(line, message));
        }
        let extends = match node.get("extends") {
            Some(of) => Some((text_of("extends", of)?, of.line)),
            None => None,
        };
        Ok(Draft {
            name,
            origin,
            node,
            extends,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The name of the one that it extends.
    pub fn extends(&self) -> Option<&str> {
        self.extends.as_ref().map(|(name, _)| name.as_str())
    }

    /// The preset. `base` finds the one that it extends.
    ///
    /// # Errors
    /// See [`FormatError`].
    pub fn resolve<'p>(
        &self,
        base: impl FnOnce(&str) -> Option<&'p Preset>,
    ) -> Result<Preset, FormatError> {
        let mut preset = match &self.extends {
            None => Preset {
                retries_4xx: true,
                content_types: vec!["application/json".to_owned()],
                ..Preset::default()
            },
            Some((name, line)) => {
                let Some(base) = base(name) else {
                    let message = format!(
                        "`extends` names `{name}`, and there is no such preset; `headgate preset list` lists them"
                    );
                    return Err(FormatError::new(*line, message));
                };
                Preset {
                    samples: Vec::new(),
                    vectors: Vec::new(),
                    ..base.clone()
                }
            }
        };
        preset.name.clone_from(&self.name);
        preset.origin = self.origin.clone();
        let mut reader = Reader::of(&self.node, "");
        read(&mut reader, &mut preset)?;
        reader.finish()?;
        check::check(&preset, &self.node)?;
        Ok(preset)
    }
}

/// All drafts as presets, in their order; `known` finds those that are there already, and a draft's own name is the one
/// that it replaces.
///
/// # Errors
/// The first that is wrong, with its name.
pub fn resolve_all<'p>(
    drafts: &[Draft],
    known: impl Fn(&str) -> Option<&'p Preset>,
) -> Result<Vec<Preset>, (String, FormatError)> {
    let mut done: Vec<Option<Preset>> = drafts.iter().map(|_| None).collect();
    let mut left = drafts.len();
    for _ in 0..=CHAIN_MAX {
        for (position, draft) in drafts.iter().enumerate() {
            if done[position].is_some() {
                continue;
            }
            let other = draft.extends().filter(|name| *name != draft.name());
            let among = other.and_then(|name| drafts.iter().position(|one| one.name() == name));
            if among.is_some_and(|among| done[among].is_none()) {
                continue;
            }
            let base = |name: &str| match among {
                Some(among) => done[among].as_ref(),
                None => known(name),
            };
            let preset = draft.resolve(base);
            done[position] = Some(preset.map_err(|error| (draft.name.clone(), error))?);
            left -= 1;
        }
    }
    if left > 0 {
        let open = drafts.iter().zip(&done).find(|(_, preset)| preset.is_none());
        let (name, line) = open.map_or_else(Default::default, |(draft, _)| {
            let line = draft.extends.as_ref().and_then(|(_, line)| *line);
            (draft.name.clone(), line)
        });
        let message = format!(
            "`extends` of `{name}` leads in a circle, or over more than {CHAIN_MAX} presets"
        );
        return Err((name, FormatError::new(line, message)));
    }
    Ok(done.into_iter().flatten().collect())
}

/// Sets what the fields of a table say.
fn read(reader: &mut Reader<'_>, preset: &mut Preset) -> Result<(), FormatError> {
    reader.skip(&["name", "extends"]);
    without(reader, preset)?;
    reader.text("title", &mut preset.title)?;
    reader.text("secret_hint", &mut preset.secret_hint)?;
    reader.text("events_hint", &mut preset.events_hint)?;
    reader.optional("docs", &mut preset.docs)?;
    reader.optional("source", &mut preset.source)?;
    reader.choice("secret_from", &SECRETS_FROM, &mut preset.secret_from)?;
    reader.optional("secret_label", &mut preset.secret_label)?;
    reader.optional("secret_example", &mut preset.secret_example)?;
    reader.set("id", |node| source(node).map(|of| preset.id = Some(of)))?;
    reader.set("id_scope", |node| source(node).map(|of| preset.id_scope = Some(of)))?;
    reader.choice("replay", &[("id", false), ("body", true)], &mut preset.replay_body)?;
    reader.texts("content_types", &mut preset.content_types)?;
    reader.set("base64", |node| paths(node).map(|of| preset.base64 = of))?;
    reader.set("event", |node| source(node).map(|of| preset.event = Some(of)))?;
    reader.boolean("event_field", &mut preset.event_field)?;
    reader.set("items", |node| path(node).map(|of| preset.items = Some(of)))?;
    reader.set("with", |node| {
        preset.with = reader::pairs(node, path)?;
        Ok(())
    })?;
    reader.set("content", |node| path(node).map(|of| preset.content = Some(of)))?;
    reader.set("omit", |node| paths(node).map(|of| preset.omit = of))?;
    reader.set("item_key", |node| item_key(node).map(|of| preset.item_key = Some(of)))?;
    reader.set("version", |node| path(node).map(|of| preset.version = Some(of)))?;
    reader.set("delete_when", |node| delete_when(node, preset))?;
    reader.boolean("unsigned_event", &mut preset.unsigned_event)?;
    reader.texts("ignore", &mut preset.ignore)?;
    reader.set("answer", |node| answer(node).map(|of| preset.answer = of))?;
    reader.boolean("retries_4xx", &mut preset.retries_4xx)?;
    reader.set("options", |node| reader::each(node, option).map(|of| preset.options = of))?;
    reader.set("verify", |node| self::verification::read(node, preset))?;
    reader.set("handshakes", |node| {
        preset.handshakes = reader::each(node, handshake::read)?;
        Ok(())
    })?;
    reader.set("setup", |node| setup(node).map(|of| preset.setup = Some(of)))?;
    reader.set("samples", |node| {
        preset.samples = reader::each(node, tried::sample)?;
        Ok(())
    })?;
    reader.set("vectors", |node| {
        preset.vectors = reader::each(node, tried::vector)?;
        Ok(())
    })
}

/// The words of `secret_from`.
const SECRETS_FROM: [(&str, SecretFrom); 5] = [
    ("tool", SecretFrom::Tool),
    ("you", SecretFrom::You),
    ("public-key", SecretFrom::PublicKey),
    ("handshake", SecretFrom::Handshake),
    ("after-url", SecretFrom::AfterUrl),
];

/// Takes away fields of the preset that is extended.
fn without(reader: &mut Reader<'_>, preset: &mut Preset) -> Result<(), FormatError> {
    let Some(node) = reader.get("without") else {
        return Ok(());
    };
    let usual = Preset::default();
    for name in texts_of("without", node)? {
        match name.as_str() {
            "secret_hint" => preset.secret_hint.clear(),
            "events_hint" => preset.events_hint.clear(),
            "docs" => preset.docs = None,
            "source" => preset.source = None,
            "id" => preset.id = None,
            "id_scope" => preset.id_scope = None,
            "replay" => preset.replay_body = false,
            "base64" => preset.base64.clear(),
            "event" => preset.event = None,
            "event_field" => preset.event_field = false,
            "items" => preset.items = None,
            "with" => preset.with.clear(),
            "content" => preset.content = None,
            "omit" => preset.omit.clear(),
            "item_key" => preset.item_key = None,
            "version" => preset.version = None,
            "delete_when" => {
                preset.removals.clear();
                preset.removal_field = None;
            }
            "unsigned_event" => preset.unsigned_event = false,
            "ignore" => preset.ignore.clear(),
            "answer" => preset.answer = usual.answer.clone(),
            "options" => preset.options.clear(),
            "verify" => preset.verify = None,
            "handshakes" => preset.handshakes.clear(),
            "setup" => preset.setup = None,
            _ => {
                let message = format!(
                    "`without` names `{}`, which is no field that can be taken away",
                    name.escape_debug()
                );
                return Err(FormatError::new(node.line, message));
            }
        }
    }
    Ok(())
}

pub(super) fn place(node: &Node) -> Result<Place, FormatError> {
    let text = text_of("a place", node)?;
    Place::parse(&text).map_err(|message| FormatError::new(node.line, message))
}

/// One place, or a list of them.
fn places(node: &Node) -> Result<Vec<Place>, FormatError> {
    match &node.data {
        Data::List(nodes) => nodes.iter().map(place).collect(),
        _ => Ok(vec![place(node)?]),
    }
}

/// A place, a list of them, or lists of those that are read together.
fn source(node: &Node) -> Result<Source, FormatError> {
    let source = match &node.data {
        Data::List(nodes) => Source(nodes.iter().map(places).collect::<Result<_, _>>()?),
        _ => Source(vec![vec![place(node)?]]),
    };
    let empty = source.0.is_empty() || source.0.iter().any(Vec::is_empty);
    match empty || source.is_too_long() {
        true => Err(FormatError::new(node.line, "it has no place, or more than 8")),
        false => Ok(source),
    }
}

pub(super) fn path(node: &Node) -> Result<Path, FormatError> {
    let text = text_of("a path", node)?;
    Path::parse(&text).map_err(|message| FormatError::new(node.line, message))
}

fn paths(node: &Node) -> Result<Vec<Path>, FormatError> {
    match &node.data {
        Data::List(nodes) if nodes.len() <= LIST_MAX => nodes.iter().map(path).collect(),
        _ => Err(wrong(node, "a list of paths")),
    }
}

/// A field, a list of fields, or `{ first = [ … ] }`.
fn item_key(node: &Node) -> Result<ItemKey, FormatError> {
    let Some(first) = node.get("first") else {
        return Ok(ItemKey(vec![key_fields(node)?]));
    };
    let mut reader = Reader::of(node, "item_key.");
    reader.skip(&["first"]);
    reader.finish()?;
    match &first.data {
        Data::List(nodes) if (1..=8).contains(&nodes.len()) => {
            let all: Vec<KeyFields> = nodes.iter().map(key_fields).collect::<Result<_, _>>()?;
            let last = all.len() - 1;
            match all.iter().position(|one| *one == KeyFields::Delivery) {
                Some(position) if position < last => Err(FormatError::new(
                    first.line,
                    "`@delivery` is always there, so it must be the last",
                )),
                _ => Ok(ItemKey(all)),
            }
        }
        _ => Err(wrong(first, "a list of 1 to 8 fields or lists of fields")),
    }
}

fn key_fields(node: &Node) -> Result<KeyFields, FormatError> {
    match &node.data {
        Data::Text(text) if text == "@delivery" => Ok(KeyFields::Delivery),
        Data::Text(_) => Ok(KeyFields::Fields(vec![path(node)?])),
        Data::List(nodes) if (1..=8).contains(&nodes.len()) => {
            Ok(KeyFields::Fields(nodes.iter().map(path).collect::<Result<_, _>>()?))
        }
        _ => Err(wrong(node, "the path of a field, or a list of 1 to 8")),
    }
}

fn delete_when(node: &Node, preset: &mut Preset) -> Result<(), FormatError> {
    let mut reader = Reader::of(node, "delete_when.");
    let (mut events, mut field, mut is) = (Vec::new(), None, Vec::new());
    reader.texts("event", &mut events)?;
    reader.set("field", |node| path(node).map(|of| field = Some(of)))?;
    reader.set("is", |node| match &node.data {
        Data::List(nodes) => {
            is = nodes.iter().map(reader::scalar_text).collect::<Result<_, _>>()?;
            Ok(())
        }
        _ => Err(wrong(node, "a list of values")),
    })?;
    reader.finish()?;
    match (events.is_empty(), field, is.is_empty()) {
        (false, None, true) => {
            preset.removals = events;
            preset.removal_field = None;
            Ok(())
        }
        (true, Some(field), false) => {
            preset.removals = Vec::new();
            preset.removal_field = Some((field, is));
            Ok(())
        }
        _ => Err(FormatError::new(
            node.line,
            "delete_when wants `event`, a list of events, or `field` and `is`",
        )),
    }
}

fn answer(node: &Node) -> Result<DeliveryAnswer, FormatError> {
    let status = |node: &Node| match node.data {
        Data::Integer(status @ (200 | 202 | 204)) => Ok(u16::try_from(status).unwrap_or(200)),
        _ => Err(wrong(node, "200, 202 or 204")),
    };
    if !matches!(node.data, Data::Table(_)) {
        let status = status(node)?;
        return Ok(DeliveryAnswer { status, body: None });
    }
    let mut answer = DeliveryAnswer {
        status: 200,
        body: None,
    };
    let mut reader = Reader::of(node, "answer.");
    reader.set("status", |node| status(node).map(|of| answer.status = of))?;
    let mut body = None;
    reader.set("text", |node| {
        body = Some((super::handshake::TEXT, text_of("text", node)?));
        Ok(())
    })?;
    reader.set("json", |node| {
        body = Some((super::handshake::JSON, reader::json(node)?.to_string()));
        Ok(())
    })?;
    reader.finish()?;
    answer.body = body;
    Ok(answer)
}

fn option(node: &Node) -> Result<PresetOption, FormatError> {
    let mut option = PresetOption {
        name: String::new(),
        label: String::new(),
        hint: String::new(),
        required: true,
        without: None,
    };
    let mut reader = Reader::of(node, "options.");
    reader.text("name", &mut option.name)?;
    reader.text("label", &mut option.label)?;
    reader.text("hint", &mut option.hint)?;
    reader.optional("without", &mut option.without)?;
    option.required = option.without.is_none();
    reader.boolean("required", &mut option.required)?;
    reader.finish()?;
    let word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    if option.name.is_empty() || !option.name.bytes().all(word) {
        return Err(missing(node, "name", "a word of a to z and `_`"));
    }
    match option.label.is_empty() {
        true => Err(missing(node, "label", "the name for people")),
        false => Ok(option),
    }
}

fn setup(node: &Node) -> Result<ToolSetup, FormatError> {
    let mut setup = ToolSetup::default();
    let mut reader = Reader::of(node, "setup.");
    reader.optional("file", &mut setup.file)?;
    reader.optional("language", &mut setup.language)?;
    reader.optional("snippet", &mut setup.snippet)?;
    reader.texts("steps", &mut setup.steps)?;
    reader.finish()?;
    Ok(setup)
}
