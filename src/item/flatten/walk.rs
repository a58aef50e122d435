//! Walks one item: flattens its objects, copies its values.
//!
//! Owns the way from the opening brace of an item to its closing one. Called by `flatten` for each item.
//!
//! **Invariant**: between two steps, the output is what was written plus the body from `mark` to the place
//! that was read, so whatever does not belong to the output is left out by copying up to it and moving `mark`
//! behind it.

use super::ARRAY_LEVELS_MAX;
use super::error::{Detail, Fault, FlattenError, shortened};
use super::seen::{Name, Texts};
use super::{Flattener, KeyField, Outer};
use crate::{name_hash, quote_into, unescape};

/// A key as it stands in the body.
struct Key {
    /// Position of the opening quote.
    quote: usize,
    /// Position of the closing quote.
    end: usize,
    /// Where its canonical form is.
    name: Name,
    /// Whether its canonical form had to be written out.
    rewritten: bool,
}

impl<'a> Flattener<'a> {
    /// From the opening brace of an item to after its closing one.
    pub(super) fn walk(&mut self) -> Result<(), Fault> {
        self.mark = self.scan.at;
        self.scan.at += 1;
        self.space()?;
        if self.scan.peek() == b'}' {
            self.scan.at += 1;
            return self.copy_to(self.scan.at);
        }
        loop {
            let opened = self.member()?;
            if !opened && self.after_value()? {
                return self.copy_to(self.scan.at);
            }
        }
    }

    /// From the end of a value to the next key, leaving objects that end. Returns true at the item's end.
    #[inline]
    fn after_value(&mut self) -> Result<bool, Fault> {
        loop {
            if self.scan.comma_before_name() {
                return Ok(false);
            }
            self.space()?;
            match self.scan.peek() {
                b',' => {
                    self.scan.at += 1;
                    self.space()?;
                    return Ok(false);
                }
                b'}' => {
                    let Some(outer) = self.outer.pop() else {
                        self.scan.at += 1;
                        return Ok(true);
                    };
                    self.copy_to(self.scan.at)?;
                    self.scan.at += 1;
                    self.mark = self.scan.at;
                    self.path.truncate(outer.path_len);
                    self.object = outer.object;
                }
                _ => return Err(self.scan.expected(r#""," or "}" after a value"#)),
            }
        }
    }

    /// One member. Returns true if its value is an object with members: the next thing is its first key.
    #[inline]
    fn member(&mut self) -> Result<bool, Fault> {
        let (key, colon) = match self.scan.compact_name() {
            Some(end) => (self.plain_key(self.scan.at, end), end + 1),
            None => self.key_and_colon()?,
        };
        let value = self.scan.after_colon(colon);

        let first = self.scan.peek();
        if first == b'{' {
            self.scan.at += 1;
            self.scan.skip_space();
            if self.scan.peek() != b'}' {
                self.open(&key)?;
                return Ok(true);
            }
        }

        let is_item_key = self.name(&key)?;
        if colon != key.end + 1 {
            self.copy_to(key.end + 1)?;
            self.mark = colon;
        }
        if value != colon + 1 {
            self.copy_to(colon + 1)?;
            self.mark = value;
        }
        match first {
            b'{' => {
                // At the closing brace of an object without members: it is a value.
                self.copy_to(value + 1)?;
                self.mark = self.scan.at;
                self.scan.at += 1;
            }
            b'[' => self.array()?,
            _ => self.scan.scalar()?,
        }
        if is_item_key {
            self.key = match first {
                b'"' => KeyField::Text {
                    start: value + 1,
                    end: self.scan.at - 1,
                },
                b'{' => KeyField::Kind("an object"),
                b'[' => KeyField::Kind("an array"),
                b'n' => KeyField::Kind("null"),
                _ => KeyField::Text {
                    start: value,
                    end: self.scan.at,
                },
            };
        }
        Ok(false)
    }

    /// A key without escapes, between these quotes.
    #[inline]
    fn plain_key(&self, quote: usize, end: usize) -> Key {
        self.key(quote, end, quote + 1, end - quote - 1, false)
    }

    /// Reads a key that has escapes, or has white space behind it. Returns where its colon is.
    #[inline(never)]
    fn key_and_colon(&mut self) -> Result<(Key, usize), Fault> {
        let quote = self.scan.at;
        let rewritten = self.scan.name()?;
        let end = self.scan.at - 1;
        let key = if rewritten {
            let (start, len) = self.rewrite(quote, end);
            self.key(quote, end, start, len, true)
        } else {
            self.plain_key(quote, end)
        };
        self.scan.skip_space();
        let colon = self.scan.at;
        self.scan.colon()?;
        Ok((key, colon))
    }

    #[inline]
    fn key(&self, quote: usize, end: usize, start: usize, len: usize, rewritten: bool) -> Key {
        Key {
            quote,
            end,
            // A canonical name is never longer than the written one, so both fit: see BODY_BYTES_MAX.
            name: Name {
                object: self.object,
                start: start as u32,
                len: len as u32,
            },
            rewritten,
        }
    }

    /// Writes out the canonical form of a key with escapes. Returns where it is.
    fn rewrite(&mut self, quote: usize, end: usize) -> (usize, usize) {
        let start = self.rewritten.len();
        let text = unescape(self.scan.slice(quote + 1, end));
        quote_into(&text, &mut self.rewritten);
        (self.scan.len() + start, self.rewritten.len() - start)
    }

    /// Enters an object at its first key: its own key becomes part of the path.
    fn open(&mut self, key: &Key) -> Result<(), Fault> {
        self.copy_to(key.quote)?;
        self.mark = self.scan.at;
        let path_len = self.path.len();
        self.extend_path(key.name);
        let texts = Texts {
            body: self.scan.text(),
            rewritten: &self.rewritten,
        };
        let hash = || name_hash(self.path.as_bytes());
        if !self.seen.insert(key.name, hash, texts) {
            self.path.truncate(path_len);
            return Err(self.same_key_twice(key));
        }
        self.outer.push(Outer {
            path_len,
            object: self.object,
        });
        if matches!(self.key, KeyField::Missing) && self.is_item_key(&self.path) {
            self.key = KeyField::Kind("an object");
        }
        self.path.push('.');
        self.objects += 1;
        self.object = self.objects;
        Ok(())
    }

    /// Writes the name of a field where it differs from the key, and refuses a key that its object has had
    /// before. Returns whether the field is the item key.
    #[inline]
    fn name(&mut self, key: &Key) -> Result<bool, Fault> {
        let texts = Texts {
            body: self.scan.text(),
            rewritten: &self.rewritten,
        };
        let name = if self.path.is_empty() && !key.rewritten {
            self.scan.slice(key.quote + 1, key.end).as_bytes()
        } else {
            let before = self.scan.slice(self.mark, key.quote + 1);
            let name = texts.get(key.name);
            self.mark = key.end;
            match self.out.write_name(before, &self.path, name) {
                Ok(written) => written,
                Err(full) => return Err(self.full(full)),
            }
        };
        let is_item_key = self.item_key.as_deref().map(str::as_bytes) == Some(name);
        // Two keys of one object differ exactly if their paths do.
        let hash = name_hash(name);
        if !self.seen.insert(key.name, || hash, texts) {
            return Err(self.same_key_twice(key));
        }
        self.shape.add(hash);
        Ok(is_item_key)
    }

    /// Copies an array without the white space in it, to after its closing bracket.
    fn array(&mut self) -> Result<(), Fault> {
        loop {
            // At a value.
            match self.scan.peek() {
                open @ (b'[' | b'{') => {
                    let is_object = open == b'{';
                    self.nesting.push(is_object);
                    if self.nesting.len() > ARRAY_LEVELS_MAX {
                        return Err(self.too_deep());
                    }
                    self.scan.at += 1;
                    self.space()?;
                    let close = if is_object { b'}' } else { b']' };
                    if self.scan.peek() != close {
                        if is_object {
                            self.name_in_array()?;
                        }
                        continue;
                    }
                }
                _ => self.scan.scalar()?,
            }
            // After a value, or at the closing bracket of an empty array or object.
            loop {
                let Some(&is_object) = self.nesting.last() else {
                    return Ok(());
                };
                self.space()?;
                match (self.scan.peek(), is_object) {
                    (b',', _) => {
                        self.scan.at += 1;
                        self.space()?;
                        if is_object {
                            self.name_in_array()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.scan.at += 1;
                        self.nesting.pop();
                    }
                    (_, true) => return Err(self.scan.expected(r#""," or "}" after a value"#)),
                    (_, false) => return Err(self.scan.expected(r#""," or "]" after a value"#)),
                }
            }
        }
    }

    /// A key and its colon, in an object inside an array.
    fn name_in_array(&mut self) -> Result<(), Fault> {
        self.scan.name()?;
        self.space()?;
        self.scan.colon()?;
        self.space()
    }

    /// Leaves out the white space that is next.
    #[inline]
    fn space(&mut self) -> Result<(), Fault> {
        if self.scan.peek() > b' ' {
            return Ok(());
        }
        self.leave_out_space()
    }

    fn leave_out_space(&mut self) -> Result<(), Fault> {
        let start = self.scan.at;
        self.scan.skip_space();
        if self.scan.at != start {
            self.copy_to(start)?;
            self.mark = self.scan.at;
        }
        Ok(())
    }

    /// Copies the body from `mark` up to `end`; the caller moves `mark`, unless nothing follows.
    #[inline]
    fn copy_to(&mut self, end: usize) -> Result<(), Fault> {
        self.out
            .write(self.scan.slice(self.mark, end))
            .map_err(|full| self.full(full))
    }

    fn extend_path(&mut self, name: Name) {
        let texts = Texts {
            body: self.scan.text(),
            rewritten: &self.rewritten,
        };
        self.path.push_str(texts.get(name));
    }

    #[inline]
    fn is_item_key(&self, name: &str) -> bool {
        self.item_key.as_deref() == Some(name)
    }

    /// Where canonical names are to be found.
    #[inline]
    pub(super) fn texts(&self) -> Texts<'_> {
        Texts {
            body: self.scan.text(),
            rewritten: &self.rewritten,
        }
    }

    #[cold]
    fn too_deep(&self) -> Fault {
        let detail = self.scan.detail(self.scan.at);
        let message = format!(
            "item {} has an array that is nested more than {ARRAY_LEVELS_MAX} levels deep, at {}; send it flatter, or as text",
            self.item,
            detail.place()
        );
        FlattenError::new(message)
            .detail(Detail {
                item: Some(self.item),
                ..detail
            })
            .into()
    }

    #[cold]
    fn same_key_twice(&mut self, key: &Key) -> Fault {
        self.extend_path(key.name);
        let detail = self.scan.detail(key.quote);
        let message = format!(
            "item {} has the field \"{}\" twice, the second time at {}; keep one of them",
            self.item,
            shortened(&self.path),
            detail.place()
        );
        FlattenError::new(message)
            .detail(detail)
            .field(self.item, &self.path)
            .into()
    }
}
