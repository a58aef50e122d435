//! Chooses the fields of many items.
//!
//! **Invariant**: of an item nothing is read behind the last field that is named.

use std::collections::{BTreeMap, HashSet};

use item::{field_name, members, string_into};

use super::{FieldEntry, Fields, shown};
use crate::by_name::ByName;
use crate::scope::{Record, Source};

/// The values of so many entries need no memory of their own.
const FEW: usize = 16;

/// Chooses the fields of many items.
#[derive(Debug)]
pub struct Chooser<'a> {
    fields: &'a Fields,
    /// Of each entry: its name as JSON writes it, with the colon. They are written once instead of for each item.
    names: Vec<String>,
    /// The entries that a field has, by its name as JSON writes it: several where it is named several times.
    places: ByName<&'a str, Vec<usize>>,
    /// Names that beginnings make room for, as JSON writes them. An item would otherwise have a name twice.
    taken: HashSet<String>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(fields: &'a Fields) -> Self {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let (mut names, mut taken) = (Vec::new(), HashSet::new());
        for (at, entry) in fields.entries.iter().enumerate() {
            let mut quoted = String::new();
            if let FieldEntry::One { source, .. } = entry {
                let (_, name) = shown(entry);
                string_into(&name, &mut quoted);
                taken.insert(quoted.clone());
                if let Source::Field(field) = source {
                    places.entry(field).or_default().push(at);
                }
            }
            names.push(quoted + ":");
        }
        Self {
            fields,
            names,
            places: places.into(),
            taken,
        }
    }

    /// Appends the chosen fields of an item as a flat JSON object.
    pub fn choose_into(&self, record: &Record<'_>, out: &mut String) {
        if self.fields.is_empty() {
            return out.push_str(record.fields);
        }
        out.push('{');
        let begin = out.len();
        if self.fields.leaves_out {
            for (name, value) in members(record.fields) {
                if !self.is_left_out(name) {
                    comma(begin, out);
                    out.extend([name, ":", value]);
                }
            }
        } else {
            self.named_into(record, begin, out);
        }
        out.push('}');
    }

    fn is_left_out(&self, quoted: &str) -> bool {
        if self.places.get(quoted).is_some() {
            return true;
        }
        let name = field_name(quoted);
        self.fields.entries.iter().any(|entry| match entry {
            FieldEntry::Beginning(beginning) => name.starts_with(&**beginning),
            FieldEntry::One { .. } => false,
        })
    }

    /// The fields are read once in the order of the item, and written in that of the list.
    fn named_into(&self, record: &Record<'_>, begin: usize, out: &mut String) {
        let entries = &self.fields.entries;
        let (mut few, mut many) = ([None; FEW], Vec::new());
        let values = match few.get_mut(..entries.len()) {
            Some(values) => values,
            None => {
                many.resize(entries.len(), None);
                &mut many[..]
            }
        };
        // An item has a field once: behind the last one nothing is read.
        let mut unseen = self.places.len();
        let mut fields = members(record.fields);
        while unseen > 0
            && let Some((name, value)) = fields.next()
        {
            let Some(places) = self.places.get(name) else {
                continue;
            };
            unseen -= 1;
            for place in places {
                values[*place] = Some(value);
            }
        }
        let mut written = HashSet::new();
        for ((entry, name), value) in entries.iter().zip(&self.names).zip(values) {
            match (entry, *value) {
                (FieldEntry::One { .. }, Some(value)) => {
                    comma(begin, out);
                    out.extend([name, value]);
                }
                (FieldEntry::One { source, .. }, None) => {
                    if let Source::Own(own) = source {
                        comma(begin, out);
                        out.push_str(name);
                        record.own(*own).json_into(true, out);
                    }
                }
                (FieldEntry::Beginning(beginning), _) => {
                    for (name, value) in members(record.fields) {
                        let is_chosen = field_name(name).starts_with(&**beginning);
                        if is_chosen && !self.taken.contains(name) && written.insert(name) {
                            comma(begin, out);
                            out.extend([name, ":", value]);
                        }
                    }
                }
            }
        }
    }
}

/// Appends a comma unless the object is empty.
fn comma(begin: usize, out: &mut String) {
    if out.len() > begin {
        out.push(',');
    }
}
