//! Items that were put: they are data, and so is their undo.
//!
//! **Invariant**: a PUT is undone only while the row is still the one that it wrote.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::intent::{PutIntent, undoing};
use super::key::{KeyState, is_frozen};
use super::record::{Change, UNDONE};
use super::undo::{Past, Undo};
use super::{ActRefused, Acting, Call, Fault, Made, Outcome, PUT, Undone};
use crate::change_set::ChangeSet;
use base::order::ChangeSeq;

/// What undo needs of a PUT.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct PutScope {
    pub(super) key: String,
    /// An undo puts it again as data.
    pub(super) before: Option<String>,
}

impl Call<'_> {
    /// Only the row that the PUT wrote is replaced, otherwise newer data of a source would be lost.
    pub(super) fn undo_put(&self, acting: &Acting<'_>, past: Past) -> Result<Undo, Fault> {
        let Some(put) = past.put else {
            return Err(ActRefused::NothingToUndo.into());
        };
        if let Some(intent) = undoing(acting.connection, self.stream, past.n)? {
            return Ok(Undo::Submit(Box::new(intent)));
        }
        let state = KeyState::of(acting.connection, self.stream, &put.key)?;
        let is_own = |form: &super::key::Form| form.request_id == past.request_id;
        let conflict = |because: &str| ActRefused::Conflict {
            verb: past.verb.clone(),
            because: vec![because.to_owned()],
        };
        if !state.source.as_ref().is_some_and(|(form, _)| is_own(form)) {
            return Err(conflict("the item was changed or removed since").into());
        }
        if put.before.is_none() && !state.overrides.is_empty() {
            return Err(conflict("the item that it made has overrides, and they would end").into());
        }
        let intent = PutIntent {
            undoes: Some(past.n),
            ..self.intent(&put.key, put.before)
        };
        intent.store(acting.connection)?;
        Ok(Undo::Submit(Box::new(intent)))
    }

    /// An item is to be put: what it replaces is known now.
    pub(super) fn intend_put(
        &self,
        acting: &Acting<'_>,
        key: &str,
        fields: &str,
    ) -> Result<PutIntent, rusqlite::Error> {
        let state = KeyState::of(acting.connection, self.stream, key)?;
        let intent = PutIntent {
            before: state.source.map(|(form, _)| form.fields),
            ..self.intent(key, Some(fields.to_owned()))
        };
        intent.store(acting.connection)?;
        Ok(intent)
    }

    /// An item was put: for undo and the audit log, under the next number.
    pub(super) fn put(
        &self,
        acting: &Acting<'_>,
        intent: &PutIntent,
        pass: &ChangeSet<'_>,
    ) -> Result<Made, rusqlite::Error> {
        let key = &*intent.key;
        let (fields, before) = (intent.fields.as_deref(), intent.before.as_deref());
        let state = KeyState::of(acting.connection, self.stream, key)?;
        let request_id = self.by.request_id.to_string();
        let is_there = state
            .source
            .as_ref()
            .is_some_and(|(form, _)| form.request_id == request_id);
        let is_shown = is_there && state.kept.is_none();
        let members = item::members(fields.unwrap_or("{}"));
        let names: BTreeSet<&str> = members.map(|(name, _)| name).collect();
        let hidden = state
            .overrides
            .keys()
            .filter(|name| names.contains(&***name));
        let hidden = hidden
            .map(|name| item::field_name(name).into_owned())
            .collect();
        let scope = PutScope {
            key: key.to_owned(),
            before: before.map(str::to_owned),
        };
        let described = |fields: Option<&str>| match fields {
            None => Value::Null,
            Some(fields) => super::edit::of_fields(key, &item::members(fields).collect()),
        };
        Ok(Made {
            outcome: Outcome {
                overridden: Some(hidden),
                ..Outcome::default()
            },
            record: Some(Change {
                n: pass.next(),
                before: described(before),
                after: described(fields),
                scope: serde_json::to_string(&scope).ok(),
            }),
            seq: is_shown.then(|| state.shown_seq()),
        })
    }

    /// The PUT with this number is undone, under the next number.
    pub(super) fn put_undone(
        &self,
        acting: &mut Acting<'_>,
        intent: &PutIntent,
        put: ChangeSeq,
        pass: &ChangeSet<'_>,
    ) -> Result<Made, rusqlite::Error> {
        let key = &*intent.key;
        let frozen = is_frozen(acting.connection, self.stream, key)?;
        let seq = KeyState::of(acting.connection, self.stream, key)?.shown_seq();
        acting.end_undo(self.stream, put, UNDONE)?;
        let changed = match frozen {
            true => Vec::new(),
            false => vec![key.to_owned()],
        };
        let undone = Undone {
            undone: PUT.to_owned(),
            changed,
            covered_by: Vec::new(),
            exact: true,
        };
        Ok(Made {
            record: Some(Change {
                n: pass.next(),
                before: Value::Null,
                after: json!({ "undone": PUT, "key": key }),
                scope: None,
            }),
            outcome: Outcome {
                undo: Some(undone),
                ..Outcome::default()
            },
            seq: Some(seq),
        })
    }
}
