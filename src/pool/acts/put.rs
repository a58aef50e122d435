//! Items that were put: they are data, and so is their undo.
//!
//! **Invariant**: a PUT is undone only while the row is still the one that it wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::key::{KeyState, is_frozen};
use super::record::{Change, UNDONE};
use super::undo::{Past, Undo};
use super::{
    ActRefused, Acted, Acting, Author, Call, Fault, Made, Outcome, PUT, PutBefore, Repeatable,
    Undone,
};
use crate::change_set::ChangeSet;
use crate::{Pool, PoolError};

/// What undo needs of a PUT.
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct PutScope {
    pub(super) key: String,
    pub(super) before: Option<String>,
}

impl Call<'_> {
    pub(super) fn undo_put(&self, acting: &Acting<'_>, past: Past) -> Result<Undo, Fault> {
        let Some(put) = past.put else {
            return Err(ActRefused::NothingToUndo.into());
        };
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
        Ok(Undo::Submit(PutBefore {
            n: past.n,
            key: put.key,
            fields: put.before,
        }))
    }

    /// An item was put: for undo and the audit log.
    pub(super) fn put(
        &self,
        acting: &mut Acting<'_>,
        (key, fields, before): (&str, &str, Option<&str>),
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let state = KeyState::of(acting.connection, self.stream, key)?;
        let request_id = self.by.request_id.to_string();
        let is_there = state
            .source
            .as_ref()
            .is_some_and(|(form, _)| form.request_id == request_id);
        let is_shown = is_there && state.kept.is_none();
        let names: BTreeSet<&str> = item::members(fields).map(|(name, _)| name).collect();
        let hidden = state
            .overrides
            .keys()
            .filter(|name| names.contains(&***name));
        let hidden = hidden
            .map(|name| item::field_name(name).into_owned())
            .collect();
        let n = pass.next();
        pass.count();
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
                n,
                before: described(before),
                after: described(Some(fields)),
                scope: serde_json::to_string(&scope).ok(),
            }),
            seq: is_shown.then(|| state.shown_seq()),
        })
    }
}

impl Pool {
    /// The data that undoes a PUT was accepted, and `item_is_shown` so far. Blocks.
    ///
    /// # Errors
    /// SQLite's.
    pub fn undone(
        &self,
        stream: &Arc<str>,
        by: &Author,
        repeatable: Option<&Repeatable>,
        put: &PutBefore,
    ) -> Result<Acted, PoolError> {
        self.in_act(stream, |acting, pass| {
            let call = Call {
                stream,
                by,
                repeatable,
                items: 0,
            };
            let frozen = is_frozen(acting.connection, stream, &put.key)?;
            let seq = KeyState::of(acting.connection, stream, &put.key)?.shown_seq();
            let n = pass.next();
            pass.count();
            acting.end_undo(stream, put.n, UNDONE)?;
            let changed = match frozen {
                true => Vec::new(),
                false => vec![put.key.clone()],
            };
            let undone = Undone {
                undone: PUT.to_owned(),
                changed,
                covered_by: Vec::new(),
                exact: true,
            };
            let made = Made {
                record: Some(Change {
                    n,
                    before: Value::Null,
                    after: json!({ "undone": PUT, "key": put.key }),
                    scope: None,
                }),
                outcome: Outcome {
                    undo: Some(undone),
                    ..Outcome::default()
                },
                seq: Some(seq),
            };
            match call.done(acting, "undo", made, pass) {
                Ok(acted) => Ok(acted),
                Err(Fault::Sql(error)) => Err(error),
                Err(Fault::Refused(_)) => Err(rusqlite::Error::QueryReturnedNoRows),
            }
        })
    }
}
