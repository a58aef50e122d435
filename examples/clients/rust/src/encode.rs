//! Values as JSON, exactly: what JSON cannot hold is an error with its path, never something else in its place.
//!
//! `serde_json` writes null for NaN, so this is a serializer of its own. Raw values keep their text, but for white space
//! between tokens; [`std::time::SystemTime`] becomes ISO 8601 in UTC.
//!
//! **Invariant**: what is written is one line of valid JSON without half a character.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{self, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, code};

/// How `serde_json` marks what it writes as it is.
const RAW: &str = "$serde_json::private::RawValue";
const NUMBER: &str = "$serde_json::private::Number";
/// How serde marks a moment.
const TIME: &str = "SystemTime";

/// Writes a value.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, Error> {
    let mut writer = Writer::default();
    let written = value.serialize(&mut writer);
    written.map_err(|wrong| {
        let subject = match writer.path.concat() {
            path if path.is_empty() => "the item".to_owned(),
            path => format!("{:?}", path.trim_start_matches('.')),
        };
        invalid(format!("{subject} cannot be sent as JSON: {wrong}"))
    })?;
    let text = String::from_utf8(writer.out).map_err(|_| invalid("the item is not UTF-8"))?;
    RawValue::from_string(text)
        .map_err(|error| invalid(format!("the item cannot be sent as JSON: {error}")))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(code::INVALID_PAYLOAD, message)
}

/// Why a value cannot be written.
#[derive(Debug)]
struct NotJson(String);

impl Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotJson {}

impl ser::Error for NotJson {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// What was written, and where in the value it stands. After an error the path is that of what is wrong.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    path: Vec<String>,
}

impl Writer {
    fn plain<T: Serialize>(&mut self, value: T) -> Result<(), NotJson> {
        Ok(serde_json::to_writer(&mut self.out, &value)?)
    }

    fn float(&mut self, value: f64, text: impl Serialize) -> Result<(), NotJson> {
        match value.is_finite() {
            true => self.plain(text),
            false => Err(NotJson(format!("{value} is not a JSON number"))),
        }
    }

    /// What lies at one more step of the path.
    fn inner<T: Serialize + ?Sized>(&mut self, step: String, value: &T) -> Result<(), NotJson> {
        self.path.push(step);
        value.serialize(&mut *self)?;
        self.path.pop();
        Ok(())
    }

    /// Copies JSON without the white space between its tokens.
    fn raw(&mut self, text: &str) -> Result<(), NotJson> {
        if let Some(escape) = lone_surrogate(text) {
            return Err(NotJson(format!("{escape} is one half of a character")));
        }
        let (mut in_text, mut escaped) = (false, false);
        for byte in text.bytes() {
            if in_text {
                in_text = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            } else {
                in_text = byte == b'"';
                if byte.is_ascii_whitespace() {
                    continue;
                }
            }
            self.out.push(byte);
        }
        Ok(())
    }

    fn open(&mut self, begin: &[u8], end: &'static [u8]) -> Compound<'_> {
        self.out.extend_from_slice(begin);
        Compound {
            writer: self,
            count: 0,
            form: Form::Json,
            end,
            key: String::new(),
        }
    }

    fn variant(&mut self, name: &str) -> Result<(), NotJson> {
        self.out.push(b'{');
        self.plain(name)?;
        self.out.push(b':');
        Ok(())
    }
}

/// An escape such as `\ud800` that has no other half.
fn lone_surrogate(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        let Some(unit) = unit16(rest) else {
            rest = rest.get(2..)?;
            continue;
        };
        let (escape, after) = rest.split_at(6);
        rest = after;
        match (unit, unit16(rest)) {
            (0xd800..=0xdbff, Some(0xdc00..=0xdfff)) => rest = &rest[6..],
            (0xd800..=0xdfff, _) => return Some(escape),
            _ => {}
        }
    }
    None
}

fn unit16(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Of what a list, a map or a struct is written.
enum Form {
    Json,
    /// The text is the JSON.
    Raw,
    /// Seconds and nanoseconds.
    Time(u64, u32),
}

struct Compound<'a> {
    writer: &'a mut Writer,
    count: usize,
    form: Form,
    end: &'static [u8],
    key: String,
}

impl Compound<'_> {
    fn next(&mut self) {
        if self.count > 0 {
            self.writer.out.push(b',');
        }
        self.count += 1;
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        self.next();
        let step = format!("[{}]", self.count - 1);
        self.writer.inner(step, value)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), NotJson> {
        match &mut self.form {
            Form::Json => {}
            Form::Raw => {
                let text = serde_json::to_value(value)?;
                return self.writer.raw(text.as_str().unwrap_or_default());
            }
            Form::Time(seconds, nanoseconds) => {
                let given = serde_json::to_value(value)?.as_u64().unwrap_or_default();
                match name {
                    "secs_since_epoch" => *seconds = given,
                    _ => *nanoseconds = given as u32,
                }
                return Ok(());
            }
        }
        self.next();
        self.writer.plain(name)?;
        self.writer.out.push(b':');
        self.writer.inner(format!(".{name}"), value)
    }

    fn close(self) -> Result<(), NotJson> {
        match self.form {
            Form::Json => self.writer.out.extend_from_slice(self.end),
            Form::Raw => {}
            Form::Time(seconds, nanoseconds) => {
                self.writer.plain(iso_8601(seconds, nanoseconds))?;
            }
        }
        Ok(())
    }
}

/// A moment in UTC; fractions of a second only if there are any.
fn iso_8601(seconds: u64, nanoseconds: u32) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, in cycles of 400 of them.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let fraction = match nanoseconds {
        0 => String::new(),
        _ => format!(".{nanoseconds:09}")
            .trim_end_matches('0')
            .to_owned(),
    };
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The name of a member: a text, or a number or boolean as one.
fn name_of<T: Serialize + ?Sized>(key: &T) -> Result<String, NotJson> {
    match serde_json::to_value(key)? {
        Value::String(text) => Ok(text),
        other @ (Value::Number(_) | Value::Bool(_)) => Ok(other.to_string()),
        _ => Err(NotJson("the name of a field must be a text".to_owned())),
    }
}

/// Lists of all kinds.
macro_rules! list {
    ($($form:ident $method:ident),*) => { $(
        impl ser::$form for Compound<'_> {
            type Ok = ();
            type Error = NotJson;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
                self.element(value)
            }

            fn end(self) -> Result<(), NotJson> {
                self.close()
            }
        }
    )* };
}

list! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

/// Structs of both kinds.
macro_rules! members {
    ($($form:ident)*) => { $(
        impl ser::$form for Compound<'_> {
            type Ok = ();
            type Error = NotJson;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), NotJson> {
                self.member(name, value)
            }

            fn end(self) -> Result<(), NotJson> {
                self.close()
            }
        }
    )* };
}

members! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NotJson> {
        self.key = name_of(key)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NotJson> {
        let key = std::mem::take(&mut self.key);
        self.member(&key, value)
    }

    fn end(self) -> Result<(), NotJson> {
        self.close()
    }
}

/// Values that are written as `serde_json` writes them.
macro_rules! plain {
    ($($method:ident $type:ty),*) => { $(
        fn $method(self, value: $type) -> Result<(), NotJson> {
            self.plain(value)
        }
    )* };
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = NotJson;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    plain! {
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64, serialize_i128 i128,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64, serialize_u128 u128,
        serialize_char char, serialize_str &str, serialize_bytes &[u8]
    }

    fn serialize_f32(self, value: f32) -> Result<(), NotJson> {
        self.float(value.into(), value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), NotJson> {
        self.float(value, value)
    }

    fn serialize_none(self) -> Result<(), NotJson> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NotJson> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NotJson> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), NotJson> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), NotJson> {
        self.plain(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), NotJson> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NotJson> {
        self.variant(variant)?;
        self.inner(format!(".{variant}"), value)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Compound<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Compound<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Compound<'a>, NotJson> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'a>, NotJson> {
        self.variant(variant)?;
        Ok(self.open(b"[", b"]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Compound<'a>, NotJson> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Compound<'a>, NotJson> {
        let form = match name {
            RAW | NUMBER => Form::Raw,
            TIME => Form::Time(0, 0),
            _ => return Ok(self.open(b"{", b"}")),
        };
        Ok(Compound {
            form,
            ..self.open(b"", b"")
        })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Compound<'a>, NotJson> {
        self.variant(variant)?;
        Ok(self.open(b"{", b"}}"))
    }
}

#[cfg(test)]
mod tests;
