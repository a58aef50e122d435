//! Backups.
//!
//! **Invariant**: a backup is reported only after it is complete and was verified.

use std::path::PathBuf;

use serde_json::json;

use super::{By, Operator};
use backup::BackupError;
use backup::manifest::Manifest;
use catalog::{AuditChange, ResourceKind};

impl Operator {
    /// Creates a backup in a directory that is missing or empty.
    ///
    /// # Errors
    /// See [`BackupError`]; nothing of it is left then.
    pub async fn back_up(&self, dir: &str, by: By) -> Result<Manifest, BackupError> {
        if self.cluster.is_some() {
            return Err(BackupError::OfCluster);
        }
        let manifest = self.backups.make(PathBuf::from(dir)).await?;
        let made = json!({ "bytes": manifest.bytes(), "highest_seq": manifest.highest_seq });
        self.record(
            by,
            AuditChange::done("create", ResourceKind::Backup, dir, made),
        )
        .await;
        Ok(manifest)
    }
}
