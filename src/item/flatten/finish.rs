//! The end of an item: what is too large or has equal paths is refused, and the key is found.
//!
//! **Invariant**: a finished item has a key of 1 to [`ITEM_KEY_BYTES_MAX`] bytes, and each field once.

use std::borrow::Cow;
use std::collections::HashSet;

use super::error::{Detail, Fault, FlattenError};
use super::{DETAILS_MAX, Flattener, ITEM_KEY_BYTES_MAX, error};
use crate::{Full, members, unescape};

/// What stands in the item-key field.
#[derive(Clone, Copy)]
pub(super) enum KeyField {
    Missing,
    /// Text of the key in the body, without quotes.
    Text {
        start: usize,
        end: usize,
    },
    /// A kind that cannot be a key.
    Kind(&'static str),
}

impl<'a> Flattener<'a> {
    /// Refuses what every renderer would have to take in one piece.
    pub(super) fn refuse_too_large(&self) -> Result<(), Fault> {
        let (bytes, bytes_max) = (self.out.written_len(), self.item_bytes_max);
        if bytes <= bytes_max {
            return Ok(());
        }
        let message = format!(
            "item {} takes {bytes} bytes once it is flattened (each field repeats its whole path), and an item has at most {bytes_max}; \
             send less in one item or nest less deeply, or raise limits.max_item_bytes",
            self.item
        );
        let detail = Detail {
            item: Some(self.item),
            ..self.scan.detail(self.scan.at)
        };
        Err(FlattenError::new(message).detail(detail).into())
    }

    /// Refuses two places of an item that flatten to the same field. Keys of one object are known to differ,
    /// so this takes an object below the top level, and two paths of which `seen` does not know that they differ.
    pub(super) fn refuse_equal_paths(&self) -> Result<(), Fault> {
        if self.objects == 0 || !self.seen.may_have_equal_paths(self.texts()) {
            return Ok(());
        }
        let mut names = HashSet::new();
        match members(self.out.written()).find(|(name, _)| !names.insert(*name)) {
            None => Ok(()),
            Some((name, _)) => {
                let name = &name[1..name.len() - 1];
                let message = format!(
                    "item {} has two places that flatten to the field \"{}\"; rename one of them",
                    self.item,
                    error::shortened(name)
                );
                Err(FlattenError::new(message).field(self.item, name).into())
            }
        }
    }

    /// Ends the item with its key, or notes that the key is unusable.
    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        let Some(item_key) = &self.item_key else {
            let mut digits = [0; 20];
            let position = decimal(self.item, &mut digits);
            let finished = self.out.finish(position, self.shape.finish());
            return finished.map_err(|full| self.full(full));
        };
        let problem = match self.key {
            KeyField::Text { start, end } => {
                let key: Cow<'a, str> = unescape(self.scan.slice(start, end));
                match key.len() {
                    0 => "is empty; give each item its own key".to_owned(),
                    1..=ITEM_KEY_BYTES_MAX => {
                        let finished = self.out.finish(&key, self.shape.finish());
                        return finished.map_err(|full| self.full(full));
                    }
                    len => format!("is {len} bytes long; a key has at most {ITEM_KEY_BYTES_MAX}"),
                }
            }
            KeyField::Kind(kind) => format!("is {kind}; use a string, a number or a boolean"),
            KeyField::Missing => String::new(),
        };
        let (item, name, by) = (self.item, error::shortened(item_key), self.named_by);
        let message = if problem.is_empty() {
            format!("item {item} has no field \"{name}\", which {by} names")
        } else {
            format!("item {item}: the field \"{name}\", which {by} names, {problem}")
        };
        let unusable = FlattenError::new(message).field(item, item_key);
        self.unusable.push(unusable);
        if self.unusable.len() < DETAILS_MAX {
            return Ok(());
        }
        error::unusable_keys(std::mem::take(&mut self.unusable))
    }

    #[cold]
    pub(super) fn full(&self, full: Full) -> Fault {
        let message = format!(
            "item {} takes the flattened form of the request over {} bytes (each field repeats its whole \
             path); send fewer items at once or nest less deeply",
            self.item, full.bytes_max
        );
        let detail = Detail {
            item: Some(self.item),
            ..self.scan.detail(self.scan.at)
        };
        FlattenError::new(message).detail(detail).into()
    }
}

/// A number in digits, several times as fast as formatting it: this is done for each item.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[start..]).expect("digits are ASCII")
}
