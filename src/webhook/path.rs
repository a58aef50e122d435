//! Paths into a body: names with dots between them, `[]` after a name for each element of the array that stands there.
//!
//! Places, items and the fields of items are found with them, straight from the text.
//!
//! **Invariant**: what is found is text as it came: no number is parsed and printed again. A path that leads nowhere finds
//! nothing.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Bytes and steps of a path.
const PATH_LEN_MAX: usize = 512;
/// The walk recurses once for each step.
const STEPS_MAX: usize = 32;
/// How often a field that holds JSON text may be walked into on one way. Each such text is decoded into memory of its
/// length.
const TEXTS_MAX: u8 = 2;

/// A way into a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Messages and files show it as it was written.
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The field of this name.
    Name(String),
    Each,
}

impl Path {
    /// The path that a text says: `data.object.id`, `entry[].changes[]`, `labels."app.kubernetes.io/name"`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Path, String> {
        let wrong = |what: &str| format!("the path `{}` {what}", text.escape_debug());
        if text.len() > PATH_LEN_MAX {
            return Err(format!("a path has more than {PATH_LEN_MAX} bytes"));
        }
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            if steps.len() >= STEPS_MAX {
                return Err(wrong(&format!("has more than {STEPS_MAX} steps")));
            }
            if let Some(quoted) = rest.strip_prefix('"') {
                let (name, after) = quoted
                    .split_once('"')
                    .ok_or_else(|| wrong("has a quote that does not end"))?;
                steps.push(Step::Name(name.to_owned()));
                rest = after;
            } else {
                let end = rest.find(['.', '[', ']', '"']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                // A body that is itself an array begins with `[]`.
                if !name.is_empty() {
                    steps.push(Step::Name(name.to_owned()));
                } else if !(steps.is_empty() && after.starts_with("[]")) {
                    return Err(wrong("has an empty name"));
                }
                rest = after;
            }
            while let Some(after) = rest.strip_prefix("[]") {
                steps.push(Step::Each);
                rest = after;
            }
            rest = match rest.strip_prefix('.') {
                Some(after) => after,
                None if rest.is_empty() => break,
                None => {
                    return Err(wrong(
                        "is not names separated by dots, with `[]` only after a name; put other names in quotes",
                    ));
                }
            };
        }
        let text = text.to_owned();
        Ok(Path { text, steps })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether it goes through arrays.
    pub fn walks_arrays(&self) -> bool {
        self.steps.contains(&Step::Each)
    }

    /// The name of the field that it leads to in a flattened item.
    pub fn flat(&self) -> Cow<'_, str> {
        if !self.text.contains(['"', '[']) {
            return self.text.as_str().into();
        }
        let names = self.steps.iter().filter_map(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::Each => None,
        });
        names.collect::<Vec<_>>().join(".").into()
    }

    /// What it leads to in a body: texts, numbers and truth values, in order.
    pub fn find_all(&self, body: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let Some(text) = text_of(body) else {
            return found;
        };
        let _ = walk(text, &self.steps, TEXTS_MAX, &mut |raw| {
            found.extend(scalar(raw));
            ControlFlow::Continue(())
        });
        found
    }

    /// The same as one text, a line each; `None` if nothing is found.
    pub fn find(&self, body: &[u8]) -> Option<String> {
        let found = self.find_all(body);
        (!found.is_empty()).then(|| found.join("\n"))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A body as text, without a byte order mark.
pub(crate) fn text_of(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The text of a text, a number or a truth value; `None` for null, arrays and objects.
pub(crate) fn scalar(raw: &str) -> Option<String> {
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(raw.to_owned()),
    }
}

/// Hands over each value at the end of the steps, from the value of this text on. It stops when it is asked to, so that
/// the rest of a large body is not read.
pub(crate) fn walk(
    text: &str,
    steps: &[Step],
    texts: u8,
    then: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let text = text.trim_ascii();
    let Some((step, rest)) = steps.split_first() else {
        return then(text);
    };
    match (text.as_bytes().first(), step) {
        (Some(b'{'), Step::Name(name)) => match member(text, name) {
            Some(value) => walk(value, rest, texts, then),
            None => ControlFlow::Continue(()),
        },
        (Some(b'['), Step::Each) => {
            let mut flow = ControlFlow::Continue(());
            elements(text, &mut |element| {
                flow = walk(element, rest, texts, then);
                flow
            });
            flow
        }
        (Some(b'"'), _) if texts > 0 => match inner(text) {
            Some(inner) => walk(&inner, steps, texts - 1, then),
            None => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    }
}

/// The JSON that a text holds, if it is an object or an array.
pub(crate) fn inner(raw: &str) -> Option<String> {
    let inner: String = serde_json::from_str(raw).ok()?;
    inner
        .trim_ascii_start()
        .starts_with(['{', '['])
        .then_some(inner)
}

/// The value of a member of an object; `None` also where its name stands twice, or the object is none. A signature over
/// one of two values would otherwise be believed for the other.
pub(crate) fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    struct Member<'n>(&'n str);
    impl<'de> Visitor<'de> for Member<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            let (mut found, mut twice) = (None, false);
            while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
                if name == self.0 {
                    twice |= found.replace(fields.next_value()?).is_some();
                } else {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found.filter(|_| !twice))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(object);
    let found = reader.deserialize_map(Member(name)).ok()?;
    found.map(RawValue::get)
}

/// Hands over the elements of an array one by one. A list of all would take much more memory than the text.
pub(crate) fn elements<'t>(array: &'t str, then: &mut dyn FnMut(&'t str) -> ControlFlow<()>) {
    struct Elements<'f, 't>(&'f mut dyn FnMut(&'t str) -> ControlFlow<()>);
    impl<'de> Visitor<'de> for Elements<'_, 'de> {
        type Value = ();

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
            while let Some(element) = elements.next_element::<&'de RawValue>()? {
                if (self.0)(element.get()).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }
    let mut reader = serde_json::Deserializer::from_str(array);
    // What is no array has no elements; what is broken is refused where the body is flattened.
    let _ = reader.deserialize_seq(Elements(then));
}
