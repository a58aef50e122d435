//! Holds: what is shown stays, what comes waits, until it is taken or the hold ends.
//!
//! The stream and single keys are held apart from each other; a key is frozen while either covers it.
//!
//! **Invariant**: what waits is the newest of each key, however much came. What is shown after it has new numbers: those of
//! its source are older than what screens already have.

mod held;
mod waiting;

use serde_json::{Value, json};

use super::key::{KeyState, is_frozen};
use super::record::Change;
use super::{ActRefused, Acting, Call, Fault, Made, Outcome, STREAM, Until};
use crate::change_set::ChangeSet;
use base::clock::{self, Unix};
use held::held_keys;
pub(super) use held::{Held, Scope, held};

/// Held keys of a stream.
const HELD_MAX: u64 = 10_000;
/// Items of a stream that is held as a whole. Each of them may wait, and all are shown again in one transaction when
/// the hold ends.
const ITEMS_MAX: u64 = 1_000_000;

/// For the audit log.
fn described(keys: Option<&[String]>, more: Value) -> Value {
    const NAMED_MAX: usize = 50;
    let mut value = match keys {
        None => json!({}),
        Some(keys) => json!({ "keys": &keys[..keys.len().min(NAMED_MAX)], "count": keys.len() }),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

impl Call<'_> {
    pub(super) fn hold(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        until: Option<Option<Until>>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        self.may_hold(acting, keys)?;
        let n = pass.next();
        let mut scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            ..Scope::default()
        };
        for key in names(keys) {
            let before = held(acting.connection, self.stream, key)?;
            let until = match (&before, until) {
                (Some(_), None) => continue,
                (Some(before), Some(until)) if before.until() == until => continue,
                (_, until) => until.flatten(),
            };
            let (lived, wall) = Until::columns(until);
            let (since, by) = match &before {
                Some(before) => (before.since, before.by.clone()),
                None => (Unix::now().ms(), self.by.name.to_string()),
            };
            acting.put_hold(
                self.stream,
                &Held {
                    key: key.to_owned(),
                    n: n.get(),
                    since,
                    by,
                    until_lived: lived,
                    until_wall: wall,
                },
            )?;
            scope.touched.push(key.to_owned());
            scope.before.extend(before);
        }
        let outcome = Outcome {
            changed_holds: Some(scope.touched.len() as u64),
            ..Outcome::default()
        };
        if scope.touched.is_empty() {
            return Ok(Made::nothing(outcome));
        }
        pass.count();
        let until = until.flatten().map(|until| clock::rfc3339(until.time()));
        Ok(Made {
            outcome,
            record: Some(Change {
                n,
                before: Value::Null,
                after: described(keys, json!({ "held": true, "until": until })),
                scope: scope.json(),
            }),
            seq: None,
        })
    }

    /// All keys are shown, and there are not too many.
    fn may_hold(&self, acting: &Acting<'_>, keys: Option<&[String]>) -> Result<(), Fault> {
        let Some(keys) = keys else {
            let items = self.items;
            return match items > ITEMS_MAX {
                true => Err(ActRefused::TooLargeToHold {
                    items,
                    max: ITEMS_MAX,
                }
                .into()),
                false => Ok(()),
            };
        };
        let (mut missing, mut new) = (Vec::new(), 0);
        for key in keys {
            let state = KeyState::of(acting.connection, self.stream, key)?;
            if state.shown().is_none() {
                missing.push(key.clone());
            }
            new += u64::from(held(acting.connection, self.stream, key)?.is_none());
        }
        if !missing.is_empty() {
            return Err(ActRefused::NoneToHold(missing).into());
        }
        let held: i64 = acting
            .connection
            .prepare_cached("SELECT count(*) FROM holds WHERE stream = ?1 AND key <> ''")?
            .query_row([&**self.stream], |row| row.get(0))?;
        let keys = held.unsigned_abs() + new;
        match new > 0 && keys > HELD_MAX {
            true => Err(ActRefused::TooManyHeld {
                keys,
                max: HELD_MAX,
            }
            .into()),
            false => Ok(()),
        }
    }

    pub(super) fn take(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let n = pass.next();
        let waiting = acting.waiting(self.stream, keys)?;
        let outcome = Outcome {
            taken: Some(waiting.len() as u64),
            ..Outcome::default()
        };
        if waiting.is_empty() {
            return Ok(Made::nothing(outcome));
        }
        pass.count();
        for key in &waiting {
            acting.take(self.stream, key, Some(n), pass)?;
        }
        let scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            ..Scope::default()
        };
        Ok(Made {
            record: Some(Change {
                n,
                before: Value::Null,
                after: described(keys, json!({ "taken": waiting.len() })),
                scope: scope.json(),
            }),
            outcome,
            seq: None,
        })
    }

    pub(super) fn resume(
        &self,
        acting: &mut Acting<'_>,
        keys: Option<&[String]>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let n = pass.next();
        let mut before = Vec::new();
        for key in names(keys) {
            before.extend(held(acting.connection, self.stream, key)?);
        }
        let changed = before.len() as u64;
        if changed > 0 {
            pass.count();
            let ended: Vec<String> = before.iter().map(|held| held.key.clone()).collect();
            acting.end_holds(self.stream, &ended, Some(n), pass)?;
        }
        let still_held = match keys {
            None => held_keys(acting.connection, self.stream)?,
            Some(keys) => {
                let mut frozen = Vec::new();
                for key in keys {
                    if is_frozen(acting.connection, self.stream, key)? {
                        frozen.push(key.clone());
                    }
                }
                frozen
            }
        };
        let outcome = Outcome {
            changed_holds: Some(changed),
            still_held: Some(still_held),
            ..Outcome::default()
        };
        if changed == 0 {
            return Ok(Made::nothing(outcome));
        }
        let scope = Scope {
            keys: keys.map(<[_]>::to_vec),
            touched: before.iter().map(|held| held.key.clone()).collect(),
            before,
        };
        Ok(Made {
            outcome,
            record: Some(Change {
                n,
                before: described(keys, json!({ "held": true })),
                after: described(keys, json!({ "held": false })),
                scope: scope.json(),
            }),
            seq: None,
        })
    }
}

/// The keys of holds: those that are named, or the stream's.
fn names(keys: Option<&[String]>) -> Vec<&str> {
    match keys {
        None => vec![STREAM],
        Some(keys) => {
            let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        }
    }
}
