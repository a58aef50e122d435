//! Presets as files: TOML, every field of which is known.
//!
//! The table of presets reads those that are part of the program, the settings those of a folder and of the
//! configuration. Its files: `reader` (fields of a table), `fields` (their values), `verification` (`[verify]`), `handshake`, `tried` (samples and
//! vectors), `check` (what cannot be).
//!
//! **Invariant**: a mistake is an error with its line and what was expected; nothing is left out in silence.

mod check;
mod fields;
mod handshake;
mod reader;
mod tried;
pub(super) mod verification;
mod written;

use base::tree::{self, Node};

use super::preset::{Preset, PresetOrigin, SecretFrom};
pub(super) use check::verification;
use fields::{answer, delete_when, item_key, option, path, paths, place, places, setup, source};
use reader::{Reader, text_of, texts_of};
pub(super) use written::{toml, vector_toml};

/// Bytes of a file.
pub const FILE_LEN_MAX: usize = 256 * 1_024;
/// How far a preset may be extended. A cycle is found by it, too.
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

/// A preset that was read, before what it extends is known. It is apart from the preset, because a file may extend one
/// that is read later.
pub struct Draft {
    name: String,
    origin: PresetOrigin,
    node: Node,
    extends: Option<(String, Option<usize>)>,
}

impl Draft {
    /// # Errors
    /// The text is no TOML, or too long.
    pub fn parse(name: &str, origin: PresetOrigin, text: &str) -> Result<Draft, FormatError> {
        if text.len() > FILE_LEN_MAX {
            let message = format!("the file has more than {FILE_LEN_MAX} bytes");
            return Err(FormatError::new(None, message));
        }
        let node =
            tree::parse(text).map_err(|fault| FormatError::new(fault.line, fault.message))?;
        Draft::of(name, origin, node)
    }

    /// The same of a table that was read already.
    ///
    /// # Errors
    /// Its name is none.
    pub fn of(name: &str, origin: PresetOrigin, node: Node) -> Result<Draft, FormatError> {
        let own = node.get("name").map(|own| (text_of(own), own.line));
        let (name, line) = match own {
            Some((own, line)) => (own?, line),
            None => (name.to_owned(), None),
        };
        let fits =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if !(1..=40).contains(&name.len()) || !name.bytes().all(fits) {
            let message = format!(
                "the name `{}` is not 1 to 40 of a to z, 0 to 9, `_` and `-`",
                name.escape_debug()
            );
            return Err(FormatError::new(line, message));
        }
        let extends = match node.get("extends") {
            Some(of) => Some((text_of(of)?, of.line)),
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

    pub fn origin(&self) -> &PresetOrigin {
        &self.origin
    }

    /// The name of the one that it extends.
    pub fn extends(&self) -> Option<&str> {
        self.extends.as_ref().map(|(name, _)| name.as_str())
    }

    /// The preset. `base` finds the one that it extends. Samples and vectors are not taken from the base, because they
    /// are signed and named as its tool does.
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
                        "`extends` names the preset `{name}`, which does not exist; `headgate preset list` lists the presets"
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
        let open = drafts
            .iter()
            .zip(&done)
            .find(|(_, preset)| preset.is_none());
        let (name, line) = open.map_or_else(Default::default, |(draft, _)| {
            let line = draft.extends.as_ref().and_then(|(_, line)| *line);
            (draft.name.clone(), line)
        });
        let message = format!(
            "the chain of `extends` of `{name}` is a cycle, or has more than {CHAIN_MAX} presets; shorten it"
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
    reader.set("id_scope", |node| {
        source(node).map(|of| preset.id_scope = Some(of))
    })?;
    reader.choice(
        "replay",
        &[("id", false), ("body", true)],
        &mut preset.replay_body,
    )?;
    reader.texts("content_types", &mut preset.content_types)?;
    reader.set("base64", |node| paths(node).map(|of| preset.base64 = of))?;
    reader.set("event", |node| {
        source(node).map(|of| preset.event = Some(of))
    })?;
    reader.boolean("event_field", &mut preset.event_field)?;
    reader.set("items", |node| path(node).map(|of| preset.items = Some(of)))?;
    reader.set("with", |node| {
        preset.with = reader::pairs(node, path)?;
        Ok(())
    })?;
    reader.set("content", |node| {
        path(node).map(|of| preset.content = Some(of))
    })?;
    reader.set("omit", |node| paths(node).map(|of| preset.omit = of))?;
    reader.set("item_key", |node| {
        item_key(node).map(|of| preset.item_key = Some(of))
    })?;
    reader.set("version", |node| {
        path(node).map(|of| preset.version = Some(of))
    })?;
    reader.set("delete_when", |node| delete_when(node, preset))?;
    reader.boolean("unsigned_event", &mut preset.unsigned_event)?;
    reader.texts("ignore", &mut preset.ignore)?;
    reader.set("answer", |node| answer(node).map(|of| preset.answer = of))?;
    reader.boolean("retries_4xx", &mut preset.retries_4xx)?;
    reader.set("options", |node| {
        reader::each(node, option).map(|of| preset.options = of)
    })?;
    read_tables(reader, preset)
}

/// The same of the tables in it.
fn read_tables(reader: &mut Reader<'_>, preset: &mut Preset) -> Result<(), FormatError> {
    reader.set("verify", |node| self::verification::read(node, preset))?;
    reader.set("handshakes", |node| {
        preset.handshakes = reader::each(node, handshake::read)?;
        Ok(())
    })?;
    reader.set("setup", |node| {
        setup(node).map(|of| preset.setup = Some(of))
    })?;
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

/// Takes away fields of the preset that is extended. A field that a file does not name stays as in the base, so that
/// nothing else could remove it.
fn without(reader: &mut Reader<'_>, preset: &mut Preset) -> Result<(), FormatError> {
    let Some(node) = reader.get("without") else {
        return Ok(());
    };
    let usual = Preset::default();
    for name in texts_of(node)? {
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
                    "`without` names `{}`, which is not an optional field of a preset",
                    name.escape_debug()
                );
                return Err(FormatError::new(node.line, message));
            }
        }
    }
    Ok(())
}
