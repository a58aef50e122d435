//! Backups.
//!
//! **Invariant**: 201 is answered for a backup that is complete and was read back.

use salvo_core::{Request, Router};
use salvo_oapi::{RouterExt, ToSchema, endpoint};
use serde::Deserialize;

use super::by;
use backup::manifest::{CopiedFile, Manifest};
use http::body;
use http::envelope::{self, Success};
use http::error::ApiError;
use operate::Operator;
use wire::{BackupData, BackupFile};

/// Making a backup.
pub(super) fn routes(operator: &Operator) -> Router {
    Router::with_path("backups")
        .oapi_tag("backups")
        .post(PostBackup(operator.clone()))
}

/// The place of a backup.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct WantedBackup {
    /// Absolute path of a missing or empty directory on the daemon's machine, in one of `admin.backup_dirs`. Default: a
    /// new directory in `backups` of the data directory.
    dir: Option<String>,
}

fn backup_data(dir: String, manifest: Manifest) -> BackupData {
    let file = |file: CopiedFile| BackupFile {
        name: file.name,
        bytes: file.bytes,
        sha256: file.sha256,
    };
    BackupData {
        dir,
        bytes: manifest.bytes(),
        version: manifest.version,
        made_at: manifest.made_at,
        epoch: manifest.epoch.get(),
        highest_seq: manifest.highest_seq.get(),
        files: manifest.files.into_iter().map(file).collect(),
    }
}

struct PostBackup(Operator);

/// Create a backup.
///
/// A consistent copy of the catalog, the data pool and the journal, verified before the response. The daemon keeps
/// accepting requests. Large files take minutes. The backup is completed even if the client disconnects.
/// `headgate restore` creates a data directory from it.
#[endpoint(
    operation_id = "make_backup",
    request_body(content = Option<WantedBackup>, description = "Optional. Default: a new directory in `backups` of the data directory.", example = json!({"dir": "/var/backups/headgate-1"})),
    responses(
        (status_code = 201, body = Success<BackupData>, description = "The backup is complete."),
        (status_code = 400, description = "The body or the directory is invalid."),
        (status_code = 409, description = "Another backup is in progress, or the directory is not empty."),
        (status_code = 500, description = "The backup failed; the message says why. Its files were deleted."),
        (status_code = 503, description = "The daemon is stopping. The files of the backup were deleted."),
        (status_code = 507, description = "The disk has too little free space. The incomplete backup was deleted."),
    ),
)]
impl PostBackup {
    async fn handle(&self, req: &mut Request) -> Result<Success<BackupData>, ApiError> {
        let wanted: Option<WantedBackup> = body::small_json(req).await?;
        let dir = match wanted.and_then(|wanted| wanted.dir) {
            Some(dir) => dir,
            None => self.0.backups.suggested().to_string_lossy().into_owned(),
        };
        let manifest = self.0.back_up(&dir, by(req)).await?;
        Ok(envelope::created(backup_data(dir, manifest)))
    }
}
