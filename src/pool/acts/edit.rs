//! Overrides: set, add, release.
//!
//! **Invariant**: an act is made in all its fields or in none.

use std::collections::BTreeMap;

use rusqlite::params;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fold::Op;
use super::key::{KeyState, writes_of};
use super::record::Change;
use super::{Act, ActRefused, Acting, Call, Fault, Made, Outcome, Until, json_name, number};
use crate::change_set::ChangeSet;
use base::clock::Unix;
use base::order::ChangeSeq;
use item::{Action, ItemMeta, ItemRef, field_name, members, shape};

/// Overridden fields of a stream.
const OVERRIDES_MAX: u64 = 10_000;

/// A write that is to be made.
struct NewWrite<'a> {
    field: &'a str,
    op: Op,
    value: &'a str,
    step: &'a str,
    start: &'a str,
    until: Option<Until>,
    keeps_until: bool,
}

impl Call<'_> {
    pub(super) fn set(
        &self,
        acting: &mut Acting<'_>,
        key: &str,
        (fields, until, create): (&str, Option<Until>, bool),
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let state = KeyState::of(acting.connection, self.stream, key)?;
        let names: Vec<&str> = members(fields).map(|(name, _)| name).collect();
        if !create {
            is_shown(&state, key, &names)?;
        }
        self.limit_overrides(acting, &state, &names)?;
        let n = pass.next();
        for (field, value) in members(fields) {
            let write = NewWrite {
                field,
                op: Op::Set,
                value,
                step: "",
                start: "",
                until,
                keeps_until: false,
            };
            self.write(acting, key, n, &write)?;
        }
        pass.count();
        acting.note_fields(self.stream, key, fields);
        acting.show(self.stream, key, pass)?;
        Ok(Made {
            outcome: Outcome::default(),
            record: Some(Change {
                n,
                before: of_fields(key, &shown_values(&state, &names)),
                after: of_fields(key, &members(fields).collect()),
                scope: None,
            }),
            seq: None,
        })
    }

    pub(super) fn add(
        &self,
        acting: &mut Acting<'_>,
        act: &Act,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let Act::Add {
            key,
            field,
            step,
            until,
            create,
        } = act
        else {
            return Ok(Made::nothing(Outcome::default()));
        };
        let name = json_name(field);
        let state = KeyState::of(acting.connection, self.stream, key)?;
        if !create {
            is_shown(&state, key, &[&name])?;
        }
        let before = state.shown().and_then(|form| form.value(&name));
        let value = number::sum(before.unwrap_or("0"), step);
        let value = value.ok_or_else(|| ActRefused::NotANumber {
            field: field.clone(),
        })?;
        self.limit_overrides(acting, &state, &[&name])?;
        let n = pass.next();
        let write = NewWrite {
            field: &name,
            op: Op::Add,
            value: &value,
            step,
            start: state
                .base()
                .and_then(|base| base.value(&name))
                .unwrap_or(""),
            until: until.flatten(),
            keeps_until: until.is_none(),
        };
        self.write(acting, key, n, &write)?;
        pass.count();
        let fields = format!("{{{name}:{value}}}");
        acting.note_fields(self.stream, key, &fields);
        acting.show(self.stream, key, pass)?;
        Ok(Made {
            outcome: Outcome {
                value: RawValue::from_string(value).ok(),
                ..Outcome::default()
            },
            record: Some(Change {
                n,
                before: of_fields(key, &shown_values(&state, &[&name])),
                after: of_fields(key, &members(&fields).collect()),
                scope: None,
            }),
            seq: None,
        })
    }

    pub(super) fn release(
        &self,
        acting: &mut Acting<'_>,
        key: Option<&str>,
        fields: Option<&[String]>,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Made, Fault> {
        let keys = match key {
            Some(key) => vec![key.to_owned()],
            None => self.overridden_keys(acting)?,
        };
        let fields: Option<Vec<String>> =
            fields.map(|fields| fields.iter().map(|field| json_name(field)).collect());
        let n = pass.next();
        let mut released = 0;
        let mut touched = Vec::new();
        for key in keys {
            let state = KeyState::of(acting.connection, self.stream, &key)?;
            let ended = self.end_overrides(acting, &key, n, &state, fields.as_deref())?;
            if ended > 0 {
                released += ended;
                touched.push((key, state));
            }
        }
        let outcome = Outcome {
            released: Some(released),
            ..Outcome::default()
        };
        let Some((first, state)) = touched.first() else {
            return Ok(Made::nothing(outcome));
        };
        let before = match key {
            Some(_) => released_values(first, state, fields.as_deref()),
            None => json!({ "items": touched.len(), "fields": released }),
        };
        pass.count();
        for (key, _) in &touched {
            acting.show(self.stream, key, pass)?;
        }
        Ok(Made {
            outcome,
            record: Some(Change {
                n,
                before,
                after: Value::Null,
                scope: None,
            }),
            seq: None,
        })
    }

    /// Writes that overrides of a key end, all or these; how many.
    fn end_overrides(
        &self,
        acting: &mut Acting<'_>,
        key: &str,
        n: ChangeSeq,
        state: &KeyState,
        fields: Option<&[String]>,
    ) -> Result<u64, rusqlite::Error> {
        let wanted = |name: &&String| fields.is_none_or(|fields| fields.contains(name));
        let mut ended = 0;
        for field in state.overrides.keys().filter(wanted) {
            let write = NewWrite {
                field,
                op: Op::Release,
                value: "",
                step: "",
                start: "",
                until: None,
                keeps_until: false,
            };
            self.write(acting, key, n, &write)?;
            ended += 1;
        }
        Ok(ended)
    }

    fn overridden_keys(&self, acting: &Acting<'_>) -> Result<Vec<String>, rusqlite::Error> {
        let sql = "SELECT key FROM shown WHERE stream = ?1 AND overridden <> '' ORDER BY key";
        let mut select = acting.connection.prepare_cached(sql)?;
        let keys = select.query_map([&**self.stream], |row| row.get(0))?;
        keys.collect()
    }

    /// As many fields of the stream may be overridden, with these.
    fn limit_overrides(
        &self,
        acting: &Acting<'_>,
        state: &KeyState,
        names: &[&str],
    ) -> Result<(), Fault> {
        let new = names
            .iter()
            .filter(|name| !state.overrides.contains_key(**name));
        let new = new.count() as u64;
        let fields: i64 = acting
            .connection
            .prepare_cached("SELECT coalesce(sum(json_array_length(overridden)), 0) FROM shown WHERE stream = ?1 AND overridden <> ''")?
            .query_row([&**self.stream], |row| row.get(0))?;
        let fields = fields.unsigned_abs() + new;
        if new > 0 && fields > OVERRIDES_MAX {
            let max = OVERRIDES_MAX;
            return Err(ActRefused::TooManyOverrides { fields, max }.into());
        }
        Ok(())
    }

    fn write(
        &self,
        acting: &mut Acting<'_>,
        key: &str,
        n: ChangeSeq,
        write: &NewWrite<'_>,
    ) -> Result<(), rusqlite::Error> {
        let (lived, wall) = Until::columns(write.until);
        acting.acts.add(self.stream, key);
        acting
            .connection
            .prepare_cached(
                "INSERT OR REPLACE INTO writes (stream, key, field, n, op, value, step, start, operator, by_name, at_ms, until_lived, until_wall, keeps_until)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                &**self.stream,
                key,
                write.field,
                n.to_column(),
                write.op as u8,
                write.value,
                write.step,
                write.start,
                &*self.by.operator,
                &*self.by.name,
                Unix::now().to_column(),
                lived,
                wall,
                write.keeps_until,
            ])?;
        Ok(())
    }
}

impl Acting<'_> {
    /// Views get columns for what is shown.
    fn note_fields(&mut self, stream: &std::sync::Arc<str>, key: &str, fields: &str) {
        let item = ItemRef {
            key,
            fields,
            shape: shape(fields),
            action: Action::Upsert,
            meta: ItemMeta::default(),
            sent_version: "",
        };
        self.views.note(stream, std::iter::once(&item));
    }

    /// Drops writes of a field that nothing can bring back: those before the newest set or release that cannot be undone
    /// any more, and that one if it is a release. Otherwise a field that is overridden every second would keep each of
    /// its values.
    pub(super) fn compact(&self, stream: &str, key: &str) -> Result<(), rusqlite::Error> {
        let mut listed = self
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM acts WHERE n = ?1 AND state = 0)")?;
        let mut forget = self.connection.prepare_cached(
            "DELETE FROM writes WHERE stream = ?1 AND key = ?2 AND field = ?3 AND n < ?4 AND hidden = 0",
        )?;
        for (field, writes) in writes_of(self.connection, stream, key)? {
            for write in writes.iter().rev() {
                let is_listed: bool = listed.query_row([write.n.to_column()], |row| row.get(0))?;
                if write.op == Op::Add || is_listed {
                    continue;
                }
                let is_nothing = write.op == Op::Release || write.ended != ChangeSeq::MIN;
                let before = write.n.to_column() + i64::from(is_nothing);
                forget.execute(params![stream, key, field, before])?;
                break;
            }
        }
        Ok(())
    }
}

/// The item and all these fields are shown.
fn is_shown(state: &KeyState, key: &str, names: &[&str]) -> Result<(), ActRefused> {
    let Some(form) = state.shown() else {
        return Err(ActRefused::NoItem(vec![key.to_owned()]));
    };
    let missing = names.iter().filter(|name| form.value(name).is_none());
    let missing: Vec<String> = missing.map(|name| field_name(name).into_owned()).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(ActRefused::NoField(missing)),
    }
}

fn shown_values<'a>(state: &'a KeyState, names: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    let shown = state.shown();
    let value = |name: &&'a str| Some((*name, shown?.value(name)?));
    names.iter().filter_map(value).collect()
}

/// For the audit log: the overrides of an item that were released, all or these.
fn released_values(key: &str, state: &KeyState, fields: Option<&[String]>) -> Value {
    let overrides = state.overrides.iter();
    let values = overrides.map(|(name, own)| (&**name, &*own.value));
    let is_released =
        |name: &str| fields.is_none_or(|fields| fields.iter().any(|field| field == name));
    of_fields(key, &values.filter(|(name, _)| is_released(name)).collect())
}

/// For the audit log: an item with some fields; of large ones their names alone. Large values are left out, so that an
/// act cannot fill the audit log.
pub(super) fn of_fields(key: &str, fields: &BTreeMap<&str, &str>) -> Value {
    const BYTES_MAX: usize = 4 << 10;
    const NAMED_MAX: usize = 50;
    let bytes: usize = fields
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let names = fields.keys().map(|name| field_name(name));
    if bytes > BYTES_MAX {
        let named: Vec<_> = names.take(NAMED_MAX).collect();
        return json!({ "key": key, "fields": named, "count": fields.len() });
    }
    let values = fields
        .values()
        .map(|value| serde_json::from_str(value).unwrap_or(Value::Null));
    let fields: serde_json::Map<String, Value> = names.map(String::from).zip(values).collect();
    json!({ "key": key, "fields": fields })
}
