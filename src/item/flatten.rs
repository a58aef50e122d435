//! Flattens a request body into [`Items`], straight from its bytes.
//!
//! Owns the rules of "Items and flattening": strict JSON (RFC 8259), one object or an array of objects,
//! nested objects joined with `.`, everything else copied as written. Called by the ingest pipeline, once for
//! each request, between reading the body and the journal. Its files: `scan` (tokens), `walk` (one item), `finish` (the
//! end of an item), `seen` (keys that were used), `scratch` (memory that the next request uses again), `error` (what to
//! tell the caller).
//!
//! Decisions beyond the rules:
//!
//! - A byte order mark before the body is skipped (RFC 8259, section 8.1 allows it).
//! - Field names are written in one canonical form (see [`quote_into`]), so `"a\u0062"` is `"ab"`. Text
//!   values keep their escapes as written.
//! - Arrays lose the white space between their tokens and are otherwise not touched: a key that stands twice
//!   in an object *inside an array* is kept as it is. They nest at most 900 levels deep: SQLite's JSON
//!   functions, and with them the views of the pool, end at 1,000. Objects nest without a limit.
//! - An item `{}` has no fields. An empty object below the top level is a field with the value `{}`.
//! - Columns in messages count characters from 1; a line ends with a line feed.
//!
//! How it works: the output is the body with a few places left out or put in, so bytes are copied in the
//! longest runs there are. An item written compactly and without nesting is one copy.
//!
//! **Invariant**: time and memory are linear in the size of the body plus the size of the output, which
//! never exceeds [`FlattenLimits::flattened_bytes_max`]. There is no recursion: depth costs heap, one frame a level.

mod error;
mod finish;
mod scan;
mod scratch;
mod seen;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;

use crate::{Items, ItemsWriter, ShapeHash, quote_into};

use error::Fault;
pub use error::{Detail, FlattenError};
use finish::KeyField;
use scan::Scan;
use scratch::{Outer, Scratch};
use seen::Seen;

/// Longest item key in bytes.
pub const ITEM_KEY_BYTES_MAX: usize = 512;
/// Items with an unusable key are listed up to this many, then parsing stops. The message must fit a response.
const DETAILS_MAX: usize = 20;
/// Positions are kept in 32 bits, those of rewritten names after those of the body.
const BODY_BYTES_MAX: usize = 1 << 30;

/// Levels of arrays, and of objects inside them, that one field may have.
const ARRAY_LEVELS_MAX: usize = 900;

/// What one request may become.
#[derive(Clone, Copy, Debug)]
pub struct FlattenLimits {
    /// Bytes of the encoded items. Deep paths repeat their prefix in each field, so a small body can grow.
    pub flattened_bytes_max: usize,
    /// Bytes of the fields of one item.
    pub item_bytes_max: usize,
}

/// The field that identifies each item, and who said so.
#[derive(Clone, Copy, Debug)]
pub struct ItemKey<'a> {
    /// Name of the field on the flattened item, as text: `order.id`.
    pub field: &'a str,
    /// For messages: "item 3 has no field "id", which `named_by` names".
    pub named_by: &'a str,
}

/// Flattens a request body. Items are identified by the field that `X-Item-Key` names (looked up on the
/// flattened item, so `order.id` works), or by their position (`"0"`, `"1"`, …) if there is none.
///
/// # Errors
/// See [`flatten_by`].
pub fn flatten(
    body: &[u8],
    item_key: Option<&str>,
    limits: FlattenLimits,
) -> Result<Items, FlattenError> {
    let named_by = "X-Item-Key";
    flatten_by(
        body,
        item_key.map(|field| ItemKey { field, named_by }),
        limits,
    )
}

/// Like [`flatten`], for an item key that may come from elsewhere than the header.
///
/// # Errors
/// A message that says what is wrong, where, and what to do; the caller answers 400 with it. A body with
/// unusable item keys lists up to 20 of them, unless it turns out to be malformed before that.
pub fn flatten_by(
    body: &[u8],
    item_key: Option<ItemKey<'_>>,
    limits: FlattenLimits,
) -> Result<Items, FlattenError> {
    let flattened = scan::text(body).and_then(|text| {
        let mut flattener = Flattener::new(text, item_key, limits);
        flattener.body()?;
        Ok(flattener.into_items())
    });
    flattened.map_err(|fault| *fault)
}

/// The state of one request.
struct Flattener<'a> {
    scan: Scan<'a>,
    out: ItemsWriter,
    item_bytes_max: usize,
    /// Where the part of the body begins that belongs to the output and is not yet copied.
    mark: usize,
    /// Name of the item-key field, in canonical form.
    item_key: Option<Cow<'a, str>>,
    /// Who named it.
    named_by: &'a str,
    /// Items whose key is unusable, in order.
    unusable: Vec<FlattenError>,
    /// Position of the item being read.
    item: u64,
    /// Path of the object being read, with a `.` at its end; empty at the item's top level.
    path: String,
    /// The objects around the one being read, outermost first.
    outer: Vec<Outer>,
    /// Number of the object being read: 0 is the item itself.
    object: u32,
    /// How many objects with members the item has so far beside itself.
    objects: u32,
    /// The keys of the item so far, of all its objects.
    seen: Box<Seen>,
    /// Canonical forms of the item's keys that were written with escapes.
    rewritten: String,
    /// Shape of the fields so far.
    shape: ShapeHash,
    /// What the item-key field turned out to be.
    key: KeyField,
    /// Brackets that are open in the array being copied: true for `{`.
    nesting: Vec<bool>,
}

impl<'a> Flattener<'a> {
    fn new(text: &'a str, item_key: Option<ItemKey<'a>>, limits: FlattenLimits) -> Self {
        // A compact single item needs room for one record and its key; the items of an array for one each.
        let records = match text.starts_with('{') {
            true => 64,
            false => 64 + text.len() / 4,
        };
        let Scratch {
            path,
            outer,
            seen,
            rewritten,
            nesting,
        } = Scratch::take();
        Self {
            scan: Scan::new(text),
            out: ItemsWriter::new(limits.flattened_bytes_max, text.len() + records),
            item_bytes_max: limits.item_bytes_max,
            mark: 0,
            item_key: item_key.map(|item_key| canonical(item_key.field)),
            named_by: item_key.map_or("", |item_key| item_key.named_by),
            unusable: Vec::new(),
            item: 0,
            path,
            outer,
            object: 0,
            objects: 0,
            seen,
            rewritten,
            shape: ShapeHash::default(),
            key: KeyField::Missing,
            nesting,
        }
    }

    /// What was written. The next request uses the memory of the rest.
    fn into_items(self) -> Items {
        let scratch = Scratch {
            path: self.path,
            outer: self.outer,
            seen: self.seen,
            rewritten: self.rewritten,
            nesting: self.nesting,
        };
        scratch.keep();
        self.out.into_items()
    }

    /// The whole body: an object, or an array of objects.
    fn body(&mut self) -> Result<(), Fault> {
        self.scan.skip_space();
        if self.scan.is_at_end() {
            return Err(Fault::from(FlattenError::new(
                "the body is empty; send an object or an array of objects",
            )));
        }
        if self.scan.peek() == b'[' {
            self.array_of_items()?;
        } else {
            self.expect_object(None)?;
            self.item()?;
        }
        self.scan.skip_space();
        if !self.scan.is_at_end() {
            return Err(self
                .scan
                .expected("the end of the body (several items go into one array)"));
        }
        error::unusable_keys(std::mem::take(&mut self.unusable))
    }

    fn array_of_items(&mut self) -> Result<(), Fault> {
        self.scan.at += 1;
        self.scan.skip_space();
        if self.scan.peek() == b']' {
            self.scan.at += 1;
            return Ok(());
        }
        loop {
            self.expect_object(Some(self.item))?;
            self.item()?;
            self.scan.skip_space();
            match self.scan.peek() {
                b',' => self.scan.at += 1,
                b']' => {
                    self.scan.at += 1;
                    return Ok(());
                }
                _ => return Err(self.scan.expected(r#""," or "]" after an item"#)),
            }
            self.scan.skip_space();
            self.item += 1;
        }
    }

    /// Refuses what is not an object: by its kind where it begins like JSON, else as malformed.
    fn expect_object(&self, item: Option<u64>) -> Result<(), Fault> {
        if self.scan.peek() == b'{' {
            return Ok(());
        }
        let Some(kind) = self.scan.kind() else {
            return Err(self.scan.expected("an object"));
        };
        let subject = item.map_or_else(|| "the body".to_owned(), |item| format!("item {item}"));
        let message = format!("{subject} is {kind}; send an object or an array of objects");
        let detail = Detail {
            item,
            ..self.scan.detail(self.scan.at)
        };
        Err(FlattenError::new(message).detail(detail).into())
    }

    /// One item, from its opening brace to after its closing one.
    fn item(&mut self) -> Result<(), Fault> {
        self.path.clear();
        self.object = 0;
        self.objects = 0;
        self.seen.clear();
        self.rewritten.clear();
        self.shape = ShapeHash::default();
        self.key = KeyField::Missing;
        self.out.begin().map_err(|full| self.full(full))?;
        self.walk()?;
        self.refuse_too_large()?;
        self.refuse_equal_paths()?;
        self.finish()
    }
}

/// The name of a field as names are written in items.
fn canonical(field: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\');
    if field.bytes().all(is_plain) {
        return Cow::Borrowed(field);
    }
    let mut canonical = String::with_capacity(field.len() + 8);
    quote_into(field, &mut canonical);
    Cow::Owned(canonical)
}
