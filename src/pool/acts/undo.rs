//! Undo: an operator's newest act, as if it had not been made.
//!
//! Overrides are folded again without the writes of the act. Holds, takes and resumes bring back what was kept, as far as
//! that can be: `exact` says whether all of it could. A PUT is data, and so is its undo.
//!
//! **Invariant**: one undo takes one act off the operator's list. Acts of others stand.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};
use serde_json::{Value, json};

use super::hold::{Held, Scope, held};
use super::key::is_frozen;
use super::put::PutScope;
use super::record::{Change, LISTED, OFF, UNDONE};
use super::{ActRefused, Acting, Call, Fault, Made, Outcome, PUT, PutIntent, STREAM, Undone};
use crate::change_set::ChangeSet;
use base::order::ChangeSeq;

/// What an undo comes to.
pub(super) enum Undo {
    Made(Box<Made>),
    /// It is data first.
    Submit(Box<PutIntent>),
}

/// An act that is to be undone.
pub(super) struct Past {
    pub(super) n: ChangeSeq,
    pub(super) verb: String,
    pub(super) request_id: String,
    scope: Scope,
    /// Of a PUT.
    pub(super) put: Option<PutScope>,
}

impl Past {
    fn undone(&self, changed: Vec<String>, covered_by: Vec<String>, exact: bool) -> Undone {
        Undone {
            undone: self.verb.clone(),
            changed,
            covered_by,
            exact,
        }
    }
}

impl Call<'_> {
    pub(super) fn undo(
        &self,
        acting: &mut Acting<'_>,
        skip: bool,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Undo, Fault> {
        let past = self.newest(acting)?.ok_or(ActRefused::NothingToUndo)?;
        let n = pass.next();
        let mut state = UNDONE;
        let undone = if skip {
            state = OFF;
            pass.count();
            past.undone(Vec::new(), Vec::new(), false)
        } else {
            match &*past.verb {
                "override" | "add" | "release" => self.undo_writes(acting, &past, pass)?,
                "hold" => self.undo_hold(acting, &past, pass)?,
                "take" | "resume" => self.undo_shown(acting, &past, pass)?,
                _ => return self.undo_put(acting, past),
            }
        };
        acting.end_undo(self.stream, past.n, state)?;
        Ok(Undo::Made(Box::new(Made {
            record: Some(Change {
                n,
                before: Value::Null,
                after: json!({ "undone": past.verb, "request_id": past.request_id, "skipped": skip, "changed": undone.changed.len() }),
                scope: None,
            }),
            outcome: Outcome {
                undo: Some(undone),
                ..Outcome::default()
            },
            seq: None,
        })))
    }

    fn newest(&self, acting: &Acting<'_>) -> Result<Option<Past>, rusqlite::Error> {
        acting
            .connection
            .prepare_cached(
                "SELECT n, verb, request_id, coalesce(scope, '') FROM acts
                 WHERE stream = ?1 AND operator = ?2 AND state = ?3 ORDER BY n DESC LIMIT 1",
            )?
            .query_row(params![&**self.stream, &*self.by.operator, LISTED], |row| {
                let verb: String = row.get(1)?;
                let scope = row.get_ref(3)?.as_str()?;
                Ok(Past {
                    n: ChangeSeq::from_column(row.get(0)?),
                    request_id: row.get(2)?,
                    scope: Scope::read(scope),
                    put: (verb == PUT)
                        .then(|| serde_json::from_str(scope).ok())
                        .flatten(),
                    verb,
                })
            })
            .optional()
    }

    fn undo_writes(
        &self,
        acting: &mut Acting<'_>,
        past: &Past,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Undone, Fault> {
        let of_act = params![&**self.stream, past.n.to_column()];
        let keys: Vec<String> = {
            let sql = "SELECT DISTINCT key FROM writes WHERE n = ?2 AND stream = ?1 ORDER BY key";
            let mut select = acting.connection.prepare_cached(sql)?;
            let keys = select.query_map(of_act, |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        let covered_by: Vec<String> = {
            let sql = "SELECT later.by_name, min(later.n) AS first FROM writes AS own JOIN writes AS later
                 ON later.stream = own.stream AND later.key = own.key AND later.field = own.field AND later.n > own.n
                 WHERE own.n = ?2 AND own.stream = ?1 AND own.hidden = 0 AND later.hidden = 0 AND later.ended = 0
                 AND later.operator <> own.operator GROUP BY later.operator ORDER BY first";
            let mut select = acting.connection.prepare_cached(sql)?;
            let names = select.query_map(of_act, |row| row.get(0))?;
            names.collect::<Result<_, _>>()?
        };
        acting
            .connection
            .prepare_cached("DELETE FROM writes WHERE stream = ?1 AND n = ?2")?
            .execute(of_act)?;
        pass.count();
        let mut changed = Vec::new();
        for key in keys {
            if acting.show(self.stream, &key, pass)? {
                changed.push(key);
            }
        }
        Ok(past.undone(changed, covered_by, true))
    }

    /// Like a resume; holds that were there before with another time have that again.
    fn undo_hold(
        &self,
        acting: &mut Acting<'_>,
        past: &Past,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Undone, Fault> {
        self.conflict(acting, past)?;
        pass.count();
        let mut ended = Vec::new();
        for key in &past.scope.touched {
            let now = held(acting.connection, self.stream, key)?;
            // Its time has passed, or it is another one by now.
            if now.is_none_or(|now| now.n != past.n.get()) {
                continue;
            }
            match past.scope.before.iter().find(|before| before.key == *key) {
                Some(before) if before.until().is_none_or(|until| !until.is_over()) => {
                    acting.put_hold(self.stream, before)?;
                }
                _ => ended.push(key.clone()),
            }
        }
        let changed = acting.end_holds(self.stream, &ended, None, pass)?;
        Ok(past.undone(changed, Vec::new(), true))
    }

    /// Of a take or a resume: holds and kept rows come back.
    fn undo_shown(
        &self,
        acting: &mut Acting<'_>,
        past: &Past,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Undone, Fault> {
        self.conflict(acting, past)?;
        pass.count();
        let mut exact = true;
        if past.verb == "resume" {
            exact &= self.hold_again(acting, &past.scope.before)?;
            exact &= !self.changed_since(acting, past)?;
        }
        let keys: Vec<String> = {
            let sql = "SELECT key FROM kept_of WHERE stream = ?1 AND n = ?2 ORDER BY key";
            let mut select = acting.connection.prepare_cached(sql)?;
            let keys = select.query_map(params![&**self.stream, past.n.to_column()], |row| {
                row.get(0)
            })?;
            keys.collect::<Result<_, _>>()?
        };
        let mut changed = Vec::new();
        for key in keys {
            match self.keep_again(acting, &key, past.n)? {
                true if acting.show(self.stream, &key, pass)? => changed.push(key),
                true => {}
                false => exact = false,
            }
        }
        Ok(past.undone(changed, Vec::new(), exact))
    }

    /// Holds are there again. False: the time of one has passed.
    fn hold_again(
        &self,
        acting: &mut Acting<'_>,
        before: &[Held],
    ) -> Result<bool, rusqlite::Error> {
        let mut all = true;
        for hold in before {
            if hold.until().is_some_and(super::Until::is_over) {
                all = false;
            } else if held(acting.connection, self.stream, &hold.key)?.is_none() {
                acting.put_hold(self.stream, hold)?;
            }
        }
        Ok(all)
    }

    /// Whether the source has changed a key since that is frozen again and did not wait then.
    fn changed_since(&self, acting: &Acting<'_>, past: &Past) -> Result<bool, rusqlite::Error> {
        let of = |table: &str| {
            format!(
                "SELECT EXISTS (SELECT 1 FROM {table} AS row WHERE row.stream = ?1 AND row.seq > ?2
                 AND NOT EXISTS (SELECT 1 FROM kept_of WHERE kept_of.stream = ?1 AND kept_of.n = ?2 AND kept_of.key = row.key)
                 AND (?3 OR row.key IN (SELECT value FROM json_each(?4))))"
            )
        };
        let touched = &past.scope.touched;
        let whole = touched.iter().any(|key| key == STREAM);
        let keys = Value::from(touched.as_slice()).to_string();
        let changed = |sql: String| {
            let values = params![&**self.stream, past.n.to_column(), whole, keys];
            let mut ask = acting.connection.prepare_cached(&sql)?;
            ask.query_row(values, |row| row.get::<_, bool>(0))
        };
        Ok(changed(of("items"))? || changed(of("removed"))?)
    }

    /// What was kept of a key is kept again, and so are its overrides of then. False: that cannot be.
    fn keep_again(
        &self,
        acting: &mut Acting<'_>,
        key: &str,
        n: ChangeSeq,
    ) -> Result<bool, rusqlite::Error> {
        let one = params![&**self.stream, key, n.to_column()];
        let (was_shown, works): (bool, bool) = acting
            .connection
            .prepare_cached(
                "SELECT fields IS NOT NULL, EXISTS (SELECT 1 FROM writes WHERE writes.stream = ?1 AND writes.key = ?2 AND writes.n > ?3 AND hidden = 0)
                 FROM kept_of WHERE stream = ?1 AND key = ?2 AND n = ?3",
            )?
            .query_row(one, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let frozen = is_frozen(acting.connection, self.stream, key)?;
        if !frozen || (!was_shown && works) {
            return Ok(false);
        }
        for sql in [
            "INSERT INTO kept (stream, key, fields, updated_at, request_id, removal)
             SELECT stream, key, fields, updated_at, request_id, removal FROM kept_of WHERE stream = ?1 AND key = ?2 AND n = ?3
             ON CONFLICT (stream, key) DO UPDATE SET fields = excluded.fields, updated_at = excluded.updated_at,
             request_id = excluded.request_id, removal = max(removal, excluded.removal)",
            "UPDATE writes SET hidden = 0 WHERE stream = ?1 AND key = ?2 AND hidden = ?3",
        ] {
            acting.connection.prepare_cached(sql)?.execute(one)?;
        }
        acting.acts.add(self.stream, key);
        Ok(true)
    }

    /// Somebody else held, took or resumed there since. An undo would bring back what the other operator has decided
    /// about since.
    fn conflict(&self, acting: &Acting<'_>, past: &Past) -> Result<(), Fault> {
        let later: Vec<(String, String, String)> = {
            let sql = "SELECT verb, by_name, coalesce(scope, '') FROM acts
                 WHERE stream = ?1 AND n > ?2 AND operator NOT IN (?3, ?4) AND state <> ?5 AND verb IN ('hold', 'take', 'resume') ORDER BY n";
            let mut select = acting.connection.prepare_cached(sql)?;
            let values = params![
                &**self.stream,
                past.n.to_column(),
                &*self.by.operator,
                super::HEADGATE,
                UNDONE
            ];
            let rows =
                select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        let own = past.holds();
        let because: Vec<String> = later
            .into_iter()
            .filter(|(verb, _, scope)| {
                let scope = Scope::read(scope);
                match &**verb {
                    // It showed what this hold kept.
                    "take" => match &scope.keys {
                        None => own.contains(STREAM),
                        Some(keys) => {
                            own.contains(STREAM) || keys.iter().any(|key| own.contains(&**key))
                        }
                    },
                    _ => scope.touched.iter().any(|key| own.contains(&**key)),
                }
            })
            .map(|(verb, by, scope)| match Scope::read(&scope).keys {
                None => format!("{by} did {verb} for the stream since"),
                Some(keys) => format!("{by} did {verb} for {} since", keys.join(", ")),
            })
            .collect();
        match because.is_empty() {
            true => Ok(()),
            false => Err(ActRefused::Conflict {
                verb: past.verb.clone(),
                because,
            }
            .into()),
        }
    }
}

impl Past {
    /// The holds that it is about, by their keys.
    fn holds(&self) -> BTreeSet<&str> {
        match &*self.verb {
            "take" => match &self.scope.keys {
                None => BTreeSet::from([STREAM]),
                Some(keys) => keys.iter().map(String::as_str).chain([STREAM]).collect(),
            },
            _ => self.scope.touched.iter().map(String::as_str).collect(),
        }
    }
}
