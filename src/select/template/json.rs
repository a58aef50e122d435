//! Bodies that are JSON: a value whose texts are templates, or the same written as one text.
//!
//! **Invariant**: what they make of any item is well-formed, and has the names and the nesting that the template has, but
//! within the values that end with `|json`.

use serde::de::IgnoredAny;

use super::{Part, Placed, TEMPLATE_BYTES_MAX, TemplatePlace, parse, text_into};
use crate::error::SyntaxError;
use crate::scope::Scope;

/// Levels of a body, at most.
const LEVELS_MAX: usize = 64;
/// What stands for a text, or a part of one: neither behind a backslash nor within an escape is it JSON.
const TEXT: &str = "x";
const VALUE: &str = "null";

/// Where a JSON text is, character by character. It keeps a few levels instead of a tree, because it only needs to know
/// where a placeholder is.
#[derive(Debug, Default)]
struct Scan {
    levels: Vec<Level>,
    is_in_text: bool,
    is_escaped: bool,
    /// The levels there were at once.
    levels_max: usize,
}

#[derive(Debug)]
enum Level {
    /// An object: whether the next text is a name, and the name before the value.
    Object { is_name: bool, name: String },
    /// An array: the number of the value, from 0.
    Array(usize),
}

impl Scan {
    fn step(&mut self, one: char) {
        if self.is_in_text {
            return self.step_in_text(one);
        }
        match (one, self.levels.last_mut()) {
            ('{', _) => self.open(Level::Object {
                is_name: true,
                name: String::new(),
            }),
            ('[', _) => self.open(Level::Array(0)),
            ('}' | ']', _) => {
                self.levels.pop();
            }
            (',', Some(Level::Object { is_name, name })) => {
                *is_name = true;
                name.clear();
            }
            (',', Some(Level::Array(at))) => *at += 1,
            (':', Some(Level::Object { is_name, .. })) => *is_name = false,
            ('"', _) => self.is_in_text = true,
            _ => {}
        }
    }

    fn step_in_text(&mut self, one: char) {
        let is_end = one == '"' && !self.is_escaped;
        if let Some(Level::Object {
            is_name: true,
            name,
        }) = self.levels.last_mut()
            && !is_end
        {
            name.push(one);
        }
        self.is_in_text = !is_end;
        self.is_escaped = one == '\\' && !self.is_escaped;
    }

    fn open(&mut self, level: Level) {
        self.levels.push(level);
        self.levels_max = self.levels_max.max(self.levels.len());
    }

    /// Whether a text here is a name.
    fn is_name(&self) -> bool {
        matches!(
            self.levels.last(),
            Some(Level::Object { is_name: true, .. })
        )
    }

    /// The setting that a text here is.
    fn setting(&self, body: &str) -> String {
        let steps = self.levels.iter().map(|level| match level {
            Level::Object { name, .. } => format!(".{name}"),
            Level::Array(at) => format!("[{at}]"),
        });
        std::iter::once(body.to_owned()).chain(steps).collect()
    }
}

/// A value whose texts are templates. Names of objects are no templates, so that an item cannot change which names the
/// body has.
pub(super) fn value(setting: &str, json: &str, scope: Scope) -> Result<Vec<Placed>, SyntaxError> {
    let of_all = |expected: String| SyntaxError::new(1, expected).of(setting);
    let length = json.len();
    if length > TEMPLATE_BYTES_MAX {
        let expected = format!("the body has {length} bytes, {TEMPLATE_BYTES_MAX} are the most");
        return Err(of_all(expected));
    }
    if serde_json::from_str::<IgnoredAny>(json).is_err() {
        return Err(of_all("a JSON value is expected".to_owned()));
    }
    let mut scan = Scan::default();
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, one) in json.char_indices() {
        let was_in_text = scan.is_in_text;
        scan.step(one);
        if scan.is_name() {
            continue;
        }
        if scan.is_in_text && !was_in_text {
            text_into(&json[begin..at], 1, &mut parts);
            begin = at;
        }
        if was_in_text && !scan.is_in_text {
            let text = item::field_name(&json[begin..=at]);
            let setting = scan.setting(setting);
            let template = parse(&text, &TemplatePlace::Json, scope);
            string_into(template.map_err(|error| error.of(setting))?, &mut parts);
            begin = at + 1;
        }
    }
    text_into(&json[begin..], 1, &mut parts);
    match scan.levels_max <= LEVELS_MAX {
        true => Ok(parts),
        false => Err(of_all(too_deep())),
    }
}

fn too_deep() -> String {
    format!("the body has more than {LEVELS_MAX} levels")
}

/// Appends a template that is a whole text of JSON: a value where it is one placeholder that ends with `|json`.
fn string_into(template: Vec<Placed>, parts: &mut Vec<Placed>) {
    if let [(Part::Value(placeholder), at)] = &template[..]
        && placeholder.ends_with_json()
    {
        let mut placeholder = placeholder.clone();
        placeholder.is_json_value = true;
        return parts.push((Part::Value(placeholder), *at));
    }
    text_into("\"", 1, parts);
    for (part, at) in template {
        match part {
            Part::Text(text) => {
                let mut quoted = String::with_capacity(text.len());
                item::quote_into(&text, &mut quoted);
                text_into(&quoted, at, parts);
            }
            value => parts.push((value, at)),
        }
    }
    text_into("\"", 1, parts);
}

/// JSON written as one text.
pub(super) fn text(text: &str, scope: Scope) -> Result<Vec<Placed>, SyntaxError> {
    let read = parse(text, &TemplatePlace::Json, scope)?;
    let mut scan = Scan::default();
    let mut parts: Vec<Placed> = Vec::new();
    let mut read = read.into_iter().peekable();
    while let Some((part, at)) = read.next() {
        let mut placeholder = match part {
            Part::Text(text) => {
                text.chars().for_each(|one| scan.step(one));
                text_into(&text, at, &mut parts);
                continue;
            }
            Part::Value(placeholder) => placeholder,
        };
        if scan.is_in_text && scan.is_name() {
            let expected = "a name of a JSON body is no template";
            return Err(SyntaxError::new(at, expected));
        }
        if !scan.is_in_text && !placeholder.ends_with_json() {
            let expected = "outside of quotes a placeholder must end with `|json`";
            return Err(SyntaxError::new(at, expected));
        }
        placeholder.is_json_value = !scan.is_in_text;
        if scan.is_in_text
            && placeholder.ends_with_json()
            && let Some((Part::Text(before), _)) = parts.last_mut()
            && before.ends_with('"')
            && let Some((Part::Text(after), _)) = read.peek_mut()
            && after.starts_with('"')
            && is_opening(before)
        {
            placeholder.is_json_value = true;
            before.pop();
            after.remove(0);
            scan.step('"');
        }
        parts.push((Part::Value(placeholder), at));
    }
    check(&parts)?;
    Ok(parts)
}

/// Whether the quote at the end, which stands within a text, is the one that begins it.
fn is_opening(before: &str) -> bool {
    let backslashes = before.len() - 1 - before[..before.len() - 1].trim_end_matches('\\').len();
    backslashes == 0
}

/// Whether it is JSON, whatever the values are. It is checked when the settings are read, so that no item finds the
/// fault.
fn check(parts: &[Placed]) -> Result<(), SyntaxError> {
    let mut scan = Scan::default();
    let texts = parts.iter().map(|(part, _)| match part {
        Part::Text(text) => text,
        Part::Value(placeholder) if placeholder.is_json_value => VALUE,
        Part::Value(_) => TEXT,
    });
    let filled: String = texts.collect();
    filled.chars().for_each(|one| scan.step(one));
    if scan.levels_max > LEVELS_MAX {
        return Err(SyntaxError::new(1, too_deep()));
    }
    if serde_json::from_str::<IgnoredAny>(&filled).is_err() {
        let expected = "with every placeholder filled it must be JSON";
        return Err(SyntaxError::new(1, expected));
    }
    Ok(())
}
