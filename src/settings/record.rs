//! A record that people set, described once: a row for each field.
//!
//! The struct, its defaults, the check of a file and of a body, `config/default.toml`, the tables of the guide, the
//! OpenAPI documents, the command line and the forms are made of these rows. They match on the shape of a row, never on
//! its name.
//!
//! **Invariant**: a row's default is null exactly where the row says what null means.

mod shape;

use serde_json::Value;

/// One field of a record.
#[derive(Clone, Copy)]
pub struct Field {
    /// As files and bodies name it.
    pub name: &'static str,
    /// The sentence about it, which needs no other beside it. Read it with [`Field::about`].
    pub doc: &'static str,
    /// What it can hold.
    pub shape: Shape,
    /// Its value where nobody sets it.
    pub default: fn() -> Value,
    /// Some source must set it. Only meaningful in list elements: everything else has a default.
    pub required: bool,
    /// A body can leave it out all the same: its default counts.
    pub assumed: bool,
    /// A body sets it when the record is created, and never again.
    pub fixed: bool,
    /// Only a file sets it.
    pub declared: bool,
    /// Only the form that changes a record asks for it.
    pub late: bool,
    /// A form has a box to tick for each of the streams.
    pub boxes: bool,
    /// Entries of a list, at most. The catalog holds what is made at run time to it.
    pub entries_max: usize,
    /// The meaning of null; empty: the field is never null.
    pub none: &'static str,
    /// The word for null on the command line; empty: an empty text.
    pub none_word: &'static str,
    /// Answers of the API have what counts where it is null.
    pub effective: bool,
    /// The setting that counts in its place where it is null.
    pub inherits: &'static str,
    /// The option of the command line, where it is not the name.
    pub flag: &'static str,
    /// What the help has in place of a value.
    pub placeholder: &'static str,
    /// A value for `default.toml`, where the default is none.
    pub example: &'static str,
    /// In `default.toml` it is commented out even where the rest is not: it excludes another field.
    pub alternative: bool,
    /// The default in the guide, where it takes words.
    pub usual: &'static str,
    /// What the guide says beyond the sentence.
    pub guide: &'static str,
    /// What a form calls it.
    pub label: &'static str,
    /// What a form says below it, where that is not the sentence.
    pub hint: &'static str,
    /// Fields of one group stand side by side in a form.
    pub group: &'static str,
    /// The form of a sink has it only with this `mode`; empty: with any.
    pub mode: &'static str,
    /// The form of a sink has it only if the plugin asks for one of these; empty: always.
    pub asks: &'static [&'static str],
    /// The words of a choice in a form.
    pub choices: &'static [(&'static str, &'static str)],
}

impl Field {
    /// A field about which nothing is said.
    pub const PLAIN: Self = Self {
        name: "",
        doc: "",
        shape: Shape::Boolean,
        default: || Value::Null,
        required: false,
        assumed: false,
        fixed: false,
        declared: false,
        late: false,
        boxes: false,
        entries_max: usize::MAX,
        none: "",
        none_word: "",
        effective: false,
        inherits: "",
        flag: "",
        placeholder: "",
        example: "",
        alternative: false,
        usual: "",
        guide: "",
        label: "",
        hint: "",
        group: "",
        mode: "",
        asks: &[],
        choices: &[],
    };

    /// The sentence about it.
    pub fn about(&self) -> &'static str {
        self.doc.trim_start()
    }
}

/// A check of one text: the message says what is wrong with it.
pub type Check = fn(&str) -> Result<(), String>;

/// A kind of text.
#[derive(Clone, Copy)]
pub struct TextKind {
    /// Its check.
    pub check: Check,
    /// The characters that it has at least and at most, as far as that can be said without the check.
    pub chars: Option<(usize, usize)>,
    /// A regular expression that all of them match, and nothing else, as far as there is one.
    pub pattern: &'static str,
    /// The words that there are and how people call them, if they are known.
    pub words: fn() -> Vec<(&'static str, &'static str)>,
    /// In a body it may begin like a key: it names something that may be called so, or is part of a signature.
    pub any_start: bool,
}

impl TextKind {
    /// A kind of which there is a check and no more.
    pub const fn of(check: Check) -> Self {
        Self {
            check,
            chars: None,
            pattern: "",
            words: Vec::new,
            any_start: false,
        }
    }
}

/// What each table of a list holds. It is known by its `name`.
pub struct Element {
    /// Its fields.
    pub fields: &'static [Field],
    /// Exactly one of these must be there.
    pub one_of: &'static [&'static str],
}

impl Element {
    /// For messages: `` `secret`, `sha256` or `verify` ``.
    pub fn either(&self) -> String {
        let quoted: Vec<String> = self.one_of.iter().map(|name| format!("`{name}`")).collect();
        match quoted.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => quoted.concat(),
        }
    }
}

/// The name of a field: one that is a word of the language stands in a row as `r#where`.
pub(crate) const fn plain_name(written: &'static str) -> &'static str {
    match written.as_bytes() {
        [b'r', b'#', ..] => written.split_at(2).1,
        _ => written,
    }
}

/// Rows alone, of a struct of another package: the sentence, the name, the [`Shape`] and words. What a row does not say is
/// that of the first.
macro_rules! rows {
    ($usual:expr; $(
        $(#[doc = $doc:literal])+
        $name:ident, $shape:ident $(($($bound:expr),*))? $(, $word:ident: $said:expr)*;
    )*) => {
        &[$($crate::record::Field {
            name: $crate::record::plain_name(stringify!($name)),
            doc: concat!($($doc),+),
            shape: $crate::record::Shape::$shape $(($($bound),*))?,
            $($word: $said,)*
            ..$usual
        },)*]
    };
}

/// A record and its rows. A row is the sentence, the name, the type, the default if it is not that of the type, the
/// [`Shape`], and the words that faces need, which are the fields of [`Field`]. Fields that nobody sets follow `beside`.
macro_rules! record {
    ($(#[doc = $about:literal])+ $(#[derive($($derived:ident),+)])? pub struct $Record:ident { $(
        $(#[doc = $doc:literal])+
        $name:ident: $kind:ty $(= $default:expr)?, $shape:ident $(($($bound:expr),*))? $(, $word:ident: $said:expr)*;
    )* } $(beside { $(
        $(#[doc = $own_doc:literal])+
        $own:ident: $own_kind:ty = $own_default:expr;
    )* })?) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize $($(, $derived)+)?)]
        #[serde(default, deny_unknown_fields)]
        pub struct $Record {
            $($(#[doc = $doc])+ pub $name: $kind,)*
            $($($(#[doc = $own_doc])+ #[serde(skip)] pub $own: $own_kind,)*)?
        }

        impl Default for $Record {
            fn default() -> Self {
                Self {
                    $($name: record!(@default $($default)?),)*
                    $($($own: $own_default,)*)?
                }
            }
        }

        impl $Record {
            /// What the record is.
            pub const ABOUT: &'static str = concat!($($about),+);

            /// Its rows.
            pub const FIELDS: &'static [$crate::record::Field] = $crate::record::rows! {
                $crate::record::Field::PLAIN;
                $(
                    $(#[doc = $doc])+
                    $name, $shape $(($($bound),*))?, default: || {
                        let value: $kind = record!(@default $($default)?);
                        serde_json::to_value(value).unwrap_or_default()
                    } $(, $word: $said)*;
                )*
            };

            /// The record with what these fields set, which passed the check of their rows; the rest is as usual.
            ///
            /// # Errors
            /// A value is of another type.
            pub fn of(values: &serde_json::Map<String, serde_json::Value>) -> serde_json::Result<Self> {
                let mut record = Self::default();
                record.set_all(values)?;
                Ok(record)
            }

            /// Sets fields to values that passed the check of their rows.
            ///
            /// # Errors
            /// A value is of another type.
            pub fn set_all(
                &mut self,
                values: &serde_json::Map<String, serde_json::Value>,
            ) -> serde_json::Result<()> {
                values.iter().try_for_each(|(name, value)| self.set(name, value.clone()))
            }

            /// Sets a field to a value that passed the check of its row.
            ///
            /// # Errors
            /// The value is of another type.
            pub fn set(&mut self, name: &str, value: serde_json::Value) -> serde_json::Result<()> {
                match name {
                    $(_ if name == $crate::record::plain_name(stringify!($name)) => {
                        self.$name = serde_json::from_value(value)?;
                    })*
                    _ => {}
                }
                Ok(())
            }
        }
    };
    (@default $default:expr) => { $default };
    (@default) => { Default::default() };
}

pub use shape::Shape;
pub(super) use {record, rows};
