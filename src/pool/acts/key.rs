//! A key: what its source says, what is kept of it while it is held, its overrides, and what is shown.
//!
//! **Invariant**: a key has a row in `shown` where what is shown, or its number, is not that of its row in `items`; and
//! what is shown is the base with the overrides over it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::fold::{self, Override, Write};
use super::{Acting, STREAM};
use crate::change_set::ChangeSet;
use crate::changes::Change;
use base::order::ChangeSeq;
use item::members;

/// An item, as it is stored or shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) fields: String,
    pub(super) updated_at: String,
    pub(super) request_id: String,
    /// The names of overridden fields, as a JSON array; empty: none.
    pub(super) overridden: String,
}

impl Form {
    fn of_row(row: &rusqlite::Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            fields: row.get(first)?,
            updated_at: row.get(first + 1)?,
            request_id: row.get(first + 2)?,
            overridden: String::new(),
        })
    }

    /// The value of a field, named as JSON writes names.
    pub(super) fn value(&self, field: &str) -> Option<&str> {
        let mut fields = members(&self.fields);
        fields
            .find(|(name, _)| *name == field)
            .map(|(_, value)| value)
    }
}

/// What is kept of a key that changed while it was held.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// None: there was nothing.
    pub(super) form: Option<Form>,
    /// Number of the newest removal that waits; 0: none does.
    pub(super) removal: ChangeSeq,
}

/// Everything that is known of a key.
#[derive(Debug)]
pub(super) struct KeyState {
    /// The row of `items`.
    pub(super) source: Option<(Form, ChangeSeq)>,
    pub(super) kept: Option<Kept>,
    pub(super) overrides: BTreeMap<String, Override>,
    /// Its row in `shown`: a number, and what is shown. Without acts there is none, so that a stream without acts pays
    /// nothing.
    stored: Option<(ChangeSeq, Option<Form>)>,
    /// Number under which renderers are told that it is gone; 0: they are not.
    removed: ChangeSeq,
}

impl KeyState {
    pub(super) fn of(
        connection: &Connection,
        stream: &str,
        key: &str,
    ) -> Result<Self, rusqlite::Error> {
        let one = [stream, key];
        let source = connection
            .prepare_cached("SELECT fields, updated_at, request_id, seq FROM items WHERE stream = ?1 AND key = ?2")?
            .query_row(one, |row| Ok((Form::of_row(row, 0)?, ChangeSeq::from_column(row.get(3)?))))
            .optional()?;
        let kept = connection
            .prepare_cached("SELECT fields, updated_at, request_id, removal FROM kept WHERE stream = ?1 AND key = ?2")?
            .query_row(one, read_kept)
            .optional()?;
        let stored = connection
            .prepare_cached("SELECT fields, updated_at, request_id, overridden, seq FROM shown WHERE stream = ?1 AND key = ?2")?
            .query_row(one, |row| {
                let form = match row.get_ref(0)? {
                    rusqlite::types::ValueRef::Null => None,
                    _ => Some(Form {
                        overridden: row.get(3)?,
                        ..Form::of_row(row, 0)?
                    }),
                };
                Ok((ChangeSeq::from_column(row.get(4)?), form))
            })
            .optional()?;
        let removed: Option<i64> = connection
            .prepare_cached("SELECT seq FROM removed WHERE stream = ?1 AND key = ?2")?
            .query_row(one, |row| row.get(0))
            .optional()?;
        let writes = writes_of(connection, stream, key)?;
        let folded = writes
            .into_iter()
            .filter_map(|(field, writes)| Some((field, fold::fold(&writes)?)));
        Ok(Self {
            source,
            kept,
            overrides: folded.collect(),
            stored,
            removed: ChangeSeq::from_column(removed.unwrap_or(0)),
        })
    }

    /// What is under the overrides.
    pub(super) fn base(&self) -> Option<&Form> {
        match &self.kept {
            Some(kept) => kept.form.as_ref(),
            None => self.source.as_ref().map(|(form, _)| form),
        }
    }

    pub(super) fn shown(&self) -> Option<&Form> {
        match &self.stored {
            Some((_, form)) => form.as_ref(),
            None => self.source.as_ref().map(|(form, _)| form),
        }
    }

    /// The number of what is shown now. It is not that of the source where an act has shown something since.
    pub(super) fn shown_seq(&self) -> ChangeSeq {
        match (&self.stored, &self.source) {
            (Some((seq, _)), _) | (None, Some((_, seq))) => *seq,
            (None, None) => self.removed,
        }
    }

    /// What is to be shown: the base with the overrides over it.
    pub(super) fn form(&self) -> Option<Form> {
        let base = self.base();
        if self.overrides.is_empty() {
            return base.cloned();
        }
        let mut fields = String::from("{");
        let mut put = |name: &str, value: &str| {
            if fields.len() > 1 {
                fields.push(',');
            }
            fields.push_str(name);
            fields.push(':');
            fields.push_str(value);
        };
        let mut there = HashSet::new();
        for (name, value) in members(base.map_or("{}", |base| &base.fields)) {
            there.insert(name);
            put(
                name,
                self.overrides.get(name).map_or(value, |own| &own.value),
            );
        }
        for (name, own) in self
            .overrides
            .iter()
            .filter(|(name, _)| !there.contains(&***name))
        {
            put(name, &own.value);
        }
        fields.push('}');
        let names: Vec<&str> = self.overrides.keys().map(String::as_str).collect();
        let newest = self
            .overrides
            .values()
            .map(|own| own.at)
            .max()
            .unwrap_or_default();
        Some(Form {
            fields,
            updated_at: base.map_or_else(
                || base::clock::rfc3339(newest),
                |base| base.updated_at.clone(),
            ),
            request_id: base.map_or_else(String::new, |base| base.request_id.clone()),
            overridden: format!("[{}]", names.join(",")),
        })
    }
}

fn read_kept(row: &rusqlite::Row<'_>) -> Result<Kept, rusqlite::Error> {
    let form = match row.get_ref(0)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(Form::of_row(row, 0)?),
    };
    Ok(Kept {
        form,
        removal: ChangeSeq::from_column(row.get(3)?),
    })
}

/// The writes of a key by their fields, as JSON writes names, oldest first; without those that a waiting removal ended.
pub(super) fn writes_of(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<BTreeMap<String, Vec<Write>>, rusqlite::Error> {
    let sql = format!(
        "SELECT field, {} FROM writes WHERE stream = ?1 AND key = ?2 AND hidden = 0 ORDER BY field, n",
        fold::COLUMNS
    );
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map([stream, key], |row| {
        Ok((row.get::<_, String>(0)?, Write::read(row, 1)?))
    })?;
    let mut writes: BTreeMap<String, Vec<Write>> = BTreeMap::new();
    for row in rows {
        let (field, write) = row?;
        writes.entry(field).or_default().push(write);
    }
    Ok(writes)
}

/// Whether a hold of the stream or of the key covers it.
pub(super) fn is_frozen(
    connection: &Connection,
    stream: &str,
    key: &str,
) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM holds WHERE stream = ?1 AND key IN (?2, ?3))",
        )?
        .query_row([stream, STREAM, key], |row| row.get(0))
}

impl Acting<'_> {
    /// Has a key shown as it is to be now. True: that is another form than before, and renderers are told.
    pub(super) fn show(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        pass: &mut ChangeSet<'_>,
    ) -> Result<bool, rusqlite::Error> {
        let state = KeyState::of(self.connection, stream, key)?;
        let form = state.form();
        let same = match (state.shown(), &form) {
            (Some(before), Some(form)) => {
                (&before.fields, &before.overridden) == (&form.fields, &form.overridden)
            }
            (None, None) => true,
            _ => false,
        };
        let mut seq = state.shown_seq();
        if !same {
            pass.count();
            seq = pass.seq();
            pass.publish_last(stream, key, |seq| change(seq, key, form.as_ref()));
        }
        self.store(stream, key, &state, seq, form.as_ref())?;
        Ok(!same)
    }

    /// Stores what is shown of a key under this number: in `shown`, or nowhere if `items` and `removed` say it.
    pub(super) fn store(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        state: &KeyState,
        seq: ChangeSeq,
        form: Option<&Form>,
    ) -> Result<(), rusqlite::Error> {
        let says_it = match &state.source {
            Some((_, of_row)) => *of_row == seq && form.is_some(),
            None => form.is_none(),
        };
        if says_it && state.kept.is_none() && state.overrides.is_empty() {
            self.connection
                .prepare_cached("DELETE FROM shown WHERE stream = ?1 AND key = ?2")?
                .execute([&**stream, key])?;
            if state.source.is_none() {
                self.removals.show(self.connection, stream, key, seq)?;
            }
            return Ok(());
        }
        self.acts.add(stream, key);
        self.connection
            .prepare_cached(
                "INSERT INTO shown (stream, key, seq, fields, updated_at, request_id, overridden) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (stream, key) DO UPDATE SET seq = excluded.seq, fields = excluded.fields,
                 updated_at = excluded.updated_at, request_id = excluded.request_id, overridden = excluded.overridden",
            )?
            .execute(params![
                &**stream,
                key,
                seq.to_column(),
                form.map(|form| &form.fields),
                form.map_or("", |form| &form.updated_at),
                form.map_or("", |form| &form.request_id),
                form.map_or("", |form| &form.overridden),
            ])?;
        Ok(())
    }
}

/// What renderers are told of a key that is shown so.
pub(super) fn change(seq: ChangeSeq, key: &str, form: Option<&Form>) -> Change {
    match form {
        Some(form) => Change::shown(seq, key, &form.fields, &form.overridden, &form.updated_at),
        None => Change::removed(seq, key),
    }
}
