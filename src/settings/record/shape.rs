//! What a field holds: its shape, and what is expected where it does not fit.
//!
//! **Invariant**: a shape says in words what its check takes.

use super::{Element, Field, TextKind};

/// What a field can hold.
#[derive(Clone, Copy)]
pub enum Shape {
    /// A section, merged key by key.
    Table(&'static [Field]),
    /// A list of tables, merged by their names.
    Tables(&'static Element),
    /// A list of strings with at least so many entries, replaced as a whole.
    List(TextKind, usize),
    /// An integer from the first to the second, both included.
    Integer(u64, u64),
    /// `true` or `false`.
    Boolean,
    /// A string.
    Text(TextKind),
    /// The path of a file; a relative one starts at the folder of the file that names it.
    File,
    /// The name of a built-in plugin, or the path of a file.
    Plugin,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A secret: its text, or the file or variable that holds it.
    Secret,
    /// A list of secrets, or one; replaced as a whole.
    SecretList,
    /// A table of secrets, merged key by key; the kind is that of their names.
    Secrets(TextKind),
    /// A table whose keys are not ours, merged key by key: the plugin's schema checks it.
    Free,
    /// 64 hex digits; capitals become lowercase. The kind says whose.
    Digest(TextKind),
    /// An RFC 3339 time, quoted or not.
    Time,
}

impl Shape {
    /// The shape of a key of a table, if it is known.
    pub fn of(&self, name: &str) -> Option<&Shape> {
        match self {
            Shape::Table(fields) => {
                let field = fields.iter().find(|field| field.name == name)?;
                Some(&field.shape)
            }
            Shape::Secrets(_) => Some(&Shape::Secret),
            Shape::Free => Some(&Shape::Free),
            _ => None,
        }
    }

    /// For messages: what is wanted of a body.
    pub fn wants_in_body(&self) -> String {
        match self {
            Shape::Table(_) | Shape::Secrets(_) | Shape::Free => "an object".to_owned(),
            Shape::Tables(_) => "a list of objects".to_owned(),
            Shape::List(..) | Shape::SecretList => "a list of texts".to_owned(),
            Shape::Integer(..) => "a whole number".to_owned(),
            Shape::Time => "a time like \"2030-01-31T12:00:00Z\"".to_owned(),
            Shape::Boolean | Shape::Choice(_) => self.wants(),
            _ => "a text".to_owned(),
        }
    }

    /// For messages: what is wanted.
    pub fn wants(&self) -> String {
        match self {
            Shape::Table(_) | Shape::Secrets(_) | Shape::Free => "a table".to_owned(),
            Shape::Tables(_) => "a list of tables".to_owned(),
            Shape::List(..) => "a list of strings".to_owned(),
            Shape::Integer(..) => "an integer".to_owned(),
            Shape::Boolean => "true or false".to_owned(),
            Shape::Text(_) | Shape::File | Shape::Plugin | Shape::Digest(_) => {
                "a string".to_owned()
            }
            Shape::Choice(choices) => {
                let quoted: Vec<String> =
                    choices.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(" or ")
            }
            Shape::Secret => "a string, { file = \"…\" } or { env = \"…\" }".to_owned(),
            Shape::SecretList => {
                "a list of strings, a string, { file = \"…\" } or { env = \"…\" }".to_owned()
            }
            Shape::Time => "an RFC 3339 time such as 2030-01-31T00:00:00Z".to_owned(),
        }
    }
}
