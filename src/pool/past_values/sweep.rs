//! Deleting values that do not count any more, a chunk at a time: of streams that are gone, or keep fewer now.
//!
//! The daemon asks for it now and then.
//!
//! **Invariant**: lanes go on between chunks. A stream is dirty in the file until everything of it was looked at.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::params;

use super::{Recorded, Recording};
use crate::{Pool, PoolError, Writer};

/// Values that are looked at in one transaction, because lanes wait meanwhile.
const CHUNK: u32 = 1_000;
/// It ends after this time, at the next chunk.
const SWEEP_TIME: Duration = Duration::from_millis(100);

/// Which value of which stream was looked at last.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    stream: Option<Arc<str>>,
    at: (String, String, i64),
}

impl Pool {
    /// Deletes values that do not count any more, for a moment, or until `stop` says so. Blocks. In chunks, because
    /// deleting all of a large stream would hold up the lanes.
    ///
    /// # Errors
    /// SQLite's; what was deleted before stays so.
    pub fn sweep_past_values(&self, stop: impl Fn() -> bool) -> Result<(), PoolError> {
        self.apply_history()?;
        let began = Instant::now();
        while self.sweep_chunk()? && began.elapsed() < SWEEP_TIME && !stop() {}
        Ok(())
    }

    /// False: there is nothing left.
    fn sweep_chunk(&self) -> Result<bool, PoolError> {
        if self.lock().recording.dirty().is_none() {
            return Ok(false);
        }
        let sweep = |writer: &mut Writer| {
            let Some((stream, recorded)) = writer.recording.dirty() else {
                return Ok(None);
            };
            let sweep = &mut writer.recording.sweep;
            if sweep.stream.as_ref() != Some(&stream) {
                *sweep = Sweep {
                    stream: Some(Arc::clone(&stream)),
                    ..Sweep::default()
                };
            }
            let last = writer.sweep(&stream, recorded)?;
            Ok(Some((stream, recorded, last)))
        };
        self.write_then(sweep, |writer, swept| {
            let Some((stream, recorded, last)) = swept else {
                return false;
            };
            let recording = &mut writer.recording;
            match last {
                Some(last) => recording.sweep.at = last,
                None if recorded.keep == 0 => _ = recording.of.remove(&stream),
                None => {
                    let clean = Recorded {
                        dirty: false,
                        ..recorded
                    };
                    recording.of.insert(stream, clean);
                }
            }
            true
        })
    }
}

impl Recording {
    /// A stream of which something is left to delete.
    fn dirty(&self) -> Option<(Arc<str>, Recorded)> {
        let mut dirty = self.of.iter().filter(|(_, one)| one.dirty);
        let (stream, recorded) = dirty.next()?;
        Some((Arc::clone(stream), *recorded))
    }
}

impl Writer {
    /// Looks at a chunk of a stream; returns the last value of it. None: that was everything, and the stream is clean.
    fn sweep(
        &self,
        stream: &str,
        recorded: Recorded,
    ) -> Result<Option<(String, String, i64)>, rusqlite::Error> {
        let connection = &self.connection;
        let (key, field, n) = &self.recording.sweep.at;
        let mut select = connection.prepare_cached(&format!(
            "SELECT key, field, n, seq <= ?5 OR ?6 = 0 OR n <= (SELECT max(n) FROM past_values AS other
                 WHERE other.stream = ?1 AND other.key = past_values.key AND other.field = past_values.field) - ?6
             FROM past_values WHERE stream = ?1 AND (key, field, n) > (?2, ?3, ?4) ORDER BY key, field, n LIMIT {CHUNK}"
        ))?;
        let since = recorded.since.to_column();
        let rows = select.query_map(
            params![stream, key, field, n, since, recorded.keep],
            |row| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?)),
        )?;
        let looked_at: Vec<((String, String, i64), bool)> = rows.collect::<Result<_, _>>()?;
        let mut delete = connection.prepare_cached(
            "DELETE FROM past_values WHERE stream = ?1 AND key = ?2 AND field = ?3 AND n = ?4",
        )?;
        for ((key, field, n), is_over) in &looked_at {
            if *is_over {
                delete.execute(params![stream, key, field, n])?;
            }
        }
        if looked_at.len() >= CHUNK as usize {
            return Ok(looked_at.into_iter().next_back().map(|(last, _)| last));
        }
        let end = match recorded.keep {
            0 => "DELETE FROM recorded_streams WHERE stream = ?1",
            _ => "UPDATE recorded_streams SET dirty = 0 WHERE stream = ?1",
        };
        connection.prepare_cached(end)?.execute([stream])?;
        Ok(None)
    }
}
