//! Source changes of keys that acts concern: they go on beneath what is shown.
//!
//! **Invariant**: rows of `items` are what the source made of them, whatever is shown. A change of a key that is not held is
//! told, also if overrides cover it; one of a held key waits. A removal that took the item ends its overrides: at once, or
//! when what waits is shown.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::Acting;
use super::key::{self, Form, KeyState};
use crate::change_set::ChangeSet;
use base::order::ChangeSeq;

/// A key before its source changed it.
pub(crate) struct Before {
    state: KeyState,
    seq: ChangeSeq,
}

/// What the source did to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Did {
    /// A removal took the item, or would have if there had been one.
    pub(crate) took_away: bool,
    /// Renderers are to hear of it.
    pub(crate) published: bool,
}

impl Before {
    /// The changes of the source that follow are not told as they are, because the key may be shown otherwise than
    /// its source says.
    pub(crate) fn of(
        connection: &Connection,
        stream: &str,
        key: &str,
        pass: &mut ChangeSet<'_>,
    ) -> Result<Self, rusqlite::Error> {
        pass.withhold(true);
        Ok(Self {
            state: KeyState::of(connection, stream, key)?,
            seq: pass.seq(),
        })
    }
}

impl Acting<'_> {
    /// The source has changed a key, if it has: what is shown now, and told.
    pub(crate) fn beneath(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        before: &Before,
        did: Did,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        pass.withhold(false);
        let changed = pass.seq() != before.seq;
        if !changed {
            if !did.took_away || before.state.shown().is_none() {
                return Ok(());
            }
            pass.count();
        }
        match key::is_frozen(self.connection, stream, key)? {
            true => self.keep(stream, key, &before.state, did, pass.seq()),
            false => self.pass_on(stream, key, did, pass),
        }
    }

    /// The change waits: what was shown stays. Only the newest is kept, because nothing else will be shown.
    fn keep(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        before: &KeyState,
        did: Did,
        seq: ChangeSeq,
    ) -> Result<(), rusqlite::Error> {
        if before.kept.is_none() {
            let base = before.base();
            self.connection
                .prepare_cached("INSERT INTO kept (stream, key, fields, updated_at, request_id, removal) VALUES (?1, ?2, ?3, ?4, ?5, 0)")?
                .execute(params![
                    &**stream,
                    key,
                    base.map(|base| &base.fields),
                    base.map_or("", |base| &base.updated_at),
                    base.map_or("", |base| &base.request_id),
                ])?;
            let shown: Option<Form> = before.shown().cloned();
            let state = KeyState::of(self.connection, stream, key)?;
            self.store(stream, key, &state, before.shown_seq(), shown.as_ref())?;
        }
        if did.took_away {
            self.connection
                .prepare_cached("UPDATE kept SET removal = ?3 WHERE stream = ?1 AND key = ?2")?
                .execute(params![&**stream, key, seq.to_column()])?;
        }
        Ok(())
    }

    fn pass_on(
        &mut self,
        stream: &Arc<str>,
        key: &str,
        did: Did,
        pass: &mut ChangeSet<'_>,
    ) -> Result<(), rusqlite::Error> {
        let seq = pass.seq();
        if did.took_away {
            self.connection
                .prepare_cached("DELETE FROM writes WHERE stream = ?1 AND key = ?2 AND hidden = 0")?
                .execute([&**stream, key])?;
            // If undo brings back what was kept, this removal waits again.
            self.connection
                .prepare_cached("UPDATE kept_of SET removal = ?3 WHERE stream = ?1 AND key = ?2")?
                .execute(params![&**stream, key, seq.to_column()])?;
        }
        let state = KeyState::of(self.connection, stream, key)?;
        let form = state.form();
        self.store(stream, key, &state, seq, form.as_ref())?;
        match did.published {
            true => pass.publish_last(stream, key, |seq| key::change(seq, key, form.as_ref())),
            false => pass.log_last(stream, key),
        }
        Ok(())
    }
}

/// The row of `items`, if it is there, for who tells renderers of it again.
pub(crate) fn published_again(
    acting: &mut Acting<'_>,
    stream: &Arc<str>,
    key: &str,
    pass: &mut ChangeSet<'_>,
) -> Result<(), rusqlite::Error> {
    let before = Before::of(acting.connection, stream, key, pass)?;
    let touched = acting
        .connection
        .prepare_cached("UPDATE items SET seq = ?3 WHERE stream = ?1 AND key = ?2 RETURNING 1")?
        .query_row(params![&**stream, key, pass.next().to_column()], |_| Ok(()))
        .optional()?;
    if touched.is_some() {
        pass.keep_quiet(stream, key);
    }
    let did = Did {
        took_away: false,
        published: true,
    };
    acting.beneath(stream, key, &before, did, pass)
}
