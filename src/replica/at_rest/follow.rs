//! Brings both copies to the head of the log.
//!
//! **Invariant**: a copy that does not fit the log is replaced as a whole, never mended.

use super::copy::Copy;
use super::{AtRestError, CopiesAtRest};
use crate::log::{FollowedEntry, Log};
use crate::{ApplyError, LogPlace, NewerLog, ReplicaFile};

impl CopiesAtRest<'_> {
    /// Applies entries up to the head of the log; none: the copies are missing or of no use. It ends at the head that
    /// it has read, because others append meanwhile and there may always be one more.
    pub(super) async fn follow(self, log: &mut Log) -> Result<Option<LogPlace>, AtRestError> {
        let Some(mut copies) = self.open()? else {
            return Ok(None);
        };
        loop {
            let from = copies.iter().map(|copy| copy.place);
            let from = from.min_by_key(|place| place.n).unwrap_or_default();
            let followed = log.follow(from).await?;
            let is_level = copies.iter().all(|copy| copy.place == from);
            let head = followed.head.place;
            if head == LogPlace::default() {
                // A node that was killed while it began the log has copies at entry 0.
                return match copies.iter().all(|copy| copy.place.n == 0) {
                    true => Ok(None),
                    false => Err(AtRestError::NoLog),
                };
            }
            // What a copy has was appended before, so the log has lost it.
            if (copies.iter()).any(|copy| copy.place.n >= head.n && copy.place != head) {
                tracing::warn!(
                    "the copies of this node have entries that the database has lost: it takes new ones, and screens begin anew"
                );
                log.note_loss().await?;
                return Ok(None);
            }
            match followed.entries.is_empty() {
                true if followed.fits && is_level => return Ok(Some(from)),
                false if followed.fits => {}
                _ => return Ok(None),
            }
            for copy in &mut copies {
                match self.apply(copy, &followed.entries).await {
                    Err(AtRestError::Apply(error)) if is_of_no_use(&error) => {
                        if matches!(error, ApplyError::OtherEntry(_)) {
                            log.note_loss().await?;
                        }
                        tracing::warn!(%error, "the copies of this node cannot be brought further: it takes new ones");
                        return Ok(None);
                    }
                    applied => applied?,
                }
            }
            // Others append meanwhile: there may always be one more.
            if copies.iter().all(|copy| copy.place == head) {
                return Ok(Some(head));
            }
        }
    }

    /// Applies those that a copy lacks, and upgrades it where the log has a newer format. The upgrade is repeated if
    /// the node is killed before the place is stored, so it must change nothing the second time.
    pub(super) async fn apply(
        self,
        copy: &mut Copy,
        entries: &[FollowedEntry],
    ) -> Result<(), AtRestError> {
        while let Some((place, format)) = copy.apply(entries)? {
            if format > self.format {
                // Raised since this node has asked for the head, which names the version.
                let newer = NewerLog {
                    format,
                    known: self.format,
                    version: String::new(),
                };
                return Err(newer.into());
            }
            if format < self.format {
                // The code that leads to it is in older versions; this one leads to its own format.
                let reason = format!("entry {} leads to format {format}", place.n);
                return Err(ApplyError::DoesNotFit(reason).into());
            }
            let (file, path, upgrade) = (copy.recorder.file, copy.path.clone(), self.upgrade);
            tracing::info!(file = %path.display(), entry = place.n, "upgrading the copy");
            let upgraded = tokio::task::spawn_blocking(move || upgrade(file, &path)).await;
            let upgraded = upgraded
                .map_err(|error| error.to_string())
                .and_then(|done| done);
            upgraded.map_err(|error| AtRestError::Upgrade(copy.path.clone(), error))?;
            // Who is killed before this upgrades once more what is upgraded.
            *copy = Copy::open(&copy.path.clone(), file)?;
            place.store(&copy.connection)?;
            copy.place = place;
        }
        Ok(())
    }

    /// Both, unless one is missing or damaged.
    pub(super) fn open(self) -> Result<Option<[Copy; 2]>, AtRestError> {
        let mut copies = Vec::new();
        for (file, path) in ReplicaFile::ALL.into_iter().zip(self.files) {
            if !path.exists() {
                continue;
            }
            match Copy::open(path, file) {
                Ok(copy) => copies.push(copy),
                Err(AtRestError::File(error)) if sqlite::damage::is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(copies.try_into().ok())
    }
}

/// Whether another copy has to take the place of this one. A copy of a newer format is none of them, because a newer
/// version can use it.
fn is_of_no_use(error: &ApplyError) -> bool {
    match error {
        ApplyError::DoesNotFit(_) | ApplyError::OtherEntry(_) => true,
        ApplyError::File(error) => sqlite::damage::is_damage(error),
        ApplyError::Newer(_) => false,
    }
}
