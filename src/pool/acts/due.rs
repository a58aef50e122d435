//! Overrides and holds that end at a time.
//!
//! The daemon asks when the next one ends, and has it ended then.
//!
//! **Invariant**: what ends takes a number and is audited as done by `headgate`. What is over is over by that number, whatever
//! the clock says afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::params;
use serde_json::{Value, json};

use super::fold::{Write, fold};
use super::key::writes_of;
use super::record::Change;
use super::{Acting, Author, HEADGATE, Until, edit};
use crate::change_set::ChangeSet;
use crate::{Pool, PoolError};
use base::clock::{Lived, Unix};
use uuid::Uuid;

/// When something ends next. Both clocks are named, because an end can be a span or a time of day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextEnd {
    /// By time lived.
    pub lived: Option<Lived>,
    /// By the wall clock.
    pub wall: Option<Unix>,
}

impl NextEnd {
    pub fn is_over(&self) -> bool {
        self.lived
            .is_some_and(|lived| Until::Lived(lived).is_over())
            || self.wall.is_some_and(|wall| Until::Wall(wall).is_over())
    }
}

const NEXT: &str = "SELECT
    (SELECT min(until_lived) FROM (SELECT until_lived FROM writes WHERE until_lived IS NOT NULL AND ended = 0
        UNION ALL SELECT until_lived FROM holds)),
    (SELECT min(until_wall) FROM (SELECT until_wall FROM writes WHERE until_wall IS NOT NULL AND ended = 0
        UNION ALL SELECT until_wall FROM holds))";
const OVER: &str = "(until_lived <= ?1 OR until_wall <= ?2)";

impl Pool {
    /// When an override or a hold ends next. Blocks.
    pub fn next_end(&self) -> Result<NextEnd, PoolError> {
        self.read(|connection| {
            connection.prepare_cached(NEXT)?.query_row([], |row| {
                Ok(NextEnd {
                    lived: row.get::<_, Option<i64>>(0)?.map(Lived::from_column),
                    wall: row.get::<_, Option<i64>>(1)?.map(Unix::from_column),
                })
            })
        })
    }

    /// Ends what is over. Blocks.
    pub fn end_acts(&self) -> Result<(), PoolError> {
        let streams = self.change(|writer, pass| {
            writer.removals.begin();
            writer.acting().end_due(pass)
        })?;
        streams
            .iter()
            .try_for_each(|stream| self.settle_acts(stream))
    }
}

impl Acting<'_> {
    /// Ends what is over by now: of which streams.
    pub(super) fn end_due(
        &mut self,
        pass: &mut ChangeSet<'_>,
    ) -> Result<BTreeSet<Arc<str>>, rusqlite::Error> {
        let over = [Lived::now().to_column(), Unix::now().to_column()];
        let mut streams = BTreeSet::new();
        for (stream, key) in self.over("holds", over)? {
            self.end_hold(&stream, key, pass)?;
            streams.insert(stream);
        }
        for (stream, key) in self.over("writes", over)? {
            self.end_writes(&stream, &key, over, pass)?;
            streams.insert(stream);
        }
        Ok(streams)
    }

    fn over(
        &self,
        table: &str,
        over: [i64; 2],
    ) -> Result<BTreeSet<(Arc<str>, String)>, rusqlite::Error> {
        let sql = match table {
            "holds" => format!("SELECT stream, key FROM holds WHERE {OVER}"),
            _ => "SELECT stream, key FROM writes WHERE until_lived IS NOT NULL AND ended = 0 AND until_lived <= ?1
                 UNION SELECT stream, key FROM writes WHERE until_wall IS NOT NULL AND ended = 0 AND until_wall <= ?2"
                .to_owned(),
        };
        let mut select = self.connection.prepare_cached(&sql)?;
        let rows = select.query_map(over, |row| Ok((row.get::<_, Arc<str>>(0)?, row.get(1)?)))?;
        rows.collect()
    }

    fn end_hold(
        &mut self,
        stream: &Arc<str>,
        key: String,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        pass.count();
        let n = pass.seq();
        let after = match key.is_empty() {
            true => json!({ "held": false }),
            false => json!({ "keys": [&key], "held": false }),
        };
        self.end_holds(stream, &[key], None, pass)?;
        let change = Change {
            n,
            before: Value::Null,
            after,
            scope: None,
        };
        self.record(stream, "resume", &by_headgate(), &change)
    }

    fn end_writes(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        over: [i64; 2],
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let before = writes_of(self.connection, stream, key)?;
        pass.count();
        let n = pass.seq();
        self.connection
            .prepare_cached(&format!(
                "UPDATE writes SET ended = ?5 WHERE stream = ?3 AND key = ?4 AND ended = 0 AND {OVER}"
            ))?
            .execute(params![over[0], over[1], &**stream, key, n.to_column()])?;
        let after = writes_of(self.connection, stream, key)?;
        self.show(stream, key, pass)?;
        let now = |field: &String| after.get(field).and_then(fold);
        let ended = before
            .iter()
            .filter_map(|(field, writes): (&String, &Vec<Write>)| {
                let own = fold(writes)?;
                now(field).is_none().then_some((field, own.value))
            });
        let ended: Vec<(&String, String)> = ended.collect();
        if !ended.is_empty() {
            let fields = ended
                .iter()
                .map(|(field, value)| (field.as_str(), value.as_str()));
            let change = Change {
                n,
                before: edit::of_fields(key, &fields.collect()),
                after: Value::Null,
                scope: None,
            };
            self.record(stream, "release", &by_headgate(), &change)?;
        }
        self.compact(stream, key)
    }
}

/// An end has an author as every other act, so that the audit log has no change without one.
fn by_headgate() -> Author {
    Author {
        operator: HEADGATE.into(),
        name: HEADGATE.into(),
        client: String::new(),
        request_id: Uuid::now_v7(),
    }
}
