//! Values of the fields of a preset: places, paths, keys, answers, options.
//!
//! **Invariant**: each function reads one field, and says what it wants.

use base::tree::{Data, Node};

use super::reader::{self, Reader, missing, text_of, wrong};
use super::{FormatError, LIST_MAX};
use crate::handshake::{JSON, TEXT};
use crate::path::Path;
use crate::place::{Place, Source};
use crate::preset::{DeliveryAnswer, ItemKey, KeyFields, Preset, PresetOption, ToolSetup};

pub(super) fn place(node: &Node) -> Result<Place, FormatError> {
    let text = text_of(node)?;
    Place::parse(&text).map_err(|message| FormatError::new(node.line, message))
}

/// One place, or a list of them.
pub(super) fn places(node: &Node) -> Result<Vec<Place>, FormatError> {
    match &node.data {
        Data::List(nodes) => nodes.iter().map(place).collect(),
        _ => Ok(vec![place(node)?]),
    }
}

/// A place, a list of them, or lists of those that are read together.
pub(super) fn source(node: &Node) -> Result<Source, FormatError> {
    let source = match &node.data {
        Data::List(nodes) => Source(nodes.iter().map(places).collect::<Result<_, _>>()?),
        _ => Source(vec![vec![place(node)?]]),
    };
    let empty = source.0.is_empty() || source.0.iter().any(Vec::is_empty);
    match empty || source.is_too_long() {
        true => Err(FormatError::new(node.line, "expected 1 to 8 places")),
        false => Ok(source),
    }
}

pub(super) fn path(node: &Node) -> Result<Path, FormatError> {
    let text = text_of(node)?;
    Path::parse(&text).map_err(|message| FormatError::new(node.line, message))
}

pub(super) fn paths(node: &Node) -> Result<Vec<Path>, FormatError> {
    match &node.data {
        Data::List(nodes) if nodes.len() <= LIST_MAX => nodes.iter().map(path).collect(),
        _ => Err(wrong(node, "a list of paths")),
    }
}

/// A field, a list of fields, or `{ first = [ … ] }`.
pub(super) fn item_key(node: &Node) -> Result<ItemKey, FormatError> {
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
                    "`@delivery` always has a value, so it must come last",
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
        Data::List(nodes) if (1..=8).contains(&nodes.len()) => Ok(KeyFields::Fields(
            nodes.iter().map(path).collect::<Result<_, _>>()?,
        )),
        _ => Err(wrong(node, "the path of a field, or a list of 1 to 8")),
    }
}

pub(super) fn delete_when(node: &Node, preset: &mut Preset) -> Result<(), FormatError> {
    let mut reader = Reader::of(node, "delete_when.");
    let (mut events, mut field, mut is) = (Vec::new(), None, Vec::new());
    reader.texts("event", &mut events)?;
    reader.set("field", |node| path(node).map(|of| field = Some(of)))?;
    reader.set("is", |node| match &node.data {
        Data::List(nodes) => {
            is = nodes
                .iter()
                .map(reader::scalar_text)
                .collect::<Result<_, _>>()?;
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
            "delete_when requires `event`, a list of events, or `field` and `is`",
        )),
    }
}

pub(super) fn answer(node: &Node) -> Result<DeliveryAnswer, FormatError> {
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
        body = Some((TEXT, text_of(node)?));
        Ok(())
    })?;
    reader.set("json", |node| {
        let json = reader::json(node)?;
        let text = json.to_string();
        body = Some((JSON, text.clone()));
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(again) if again == json => Ok(()),
            _ => Err(wrong(node, "JSON whose numbers have fewer digits")),
        }
    })?;
    reader.finish()?;
    answer.body = body;
    Ok(answer)
}

pub(super) fn option(node: &Node) -> Result<PresetOption, FormatError> {
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
        return Err(missing(node, "name", "a name of letters a to z and `_`"));
    }
    match option.label.is_empty() {
        true => Err(missing(node, "label", "the name that pages show")),
        false => Ok(option),
    }
}

pub(super) fn setup(node: &Node) -> Result<ToolSetup, FormatError> {
    let mut setup = ToolSetup::default();
    let mut reader = Reader::of(node, "setup.");
    reader.optional("file", &mut setup.file)?;
    reader.optional("language", &mut setup.language)?;
    reader.optional("snippet", &mut setup.snippet)?;
    reader.texts("steps", &mut setup.steps)?;
    reader.finish()?;
    Ok(setup)
}
