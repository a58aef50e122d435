//! The manifest of a backup: what is in the folder, and that it is complete.
//!
//! **Invariant**: it is JSON that people can read, and holds no secret.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::MANIFEST;
use base::order::{Epoch, Seq};

/// The form of manifests that this version writes.
pub(super) const LAYOUT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of this manifest.
    #[serde(rename = "headgate_backup")]
    pub layout: u32,
    /// The version that made it.
    pub version: String,
    /// When it was complete, RFC 3339.
    pub made_at: String,
    /// The epoch of the pool's positions.
    pub epoch: Epoch,
    /// The highest sequence number of a request in it.
    pub highest_seq: Seq,
    pub files: Vec<CopiedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFile {
    /// Its name in the folder.
    pub name: String,
    /// The format that its owner wrote into it.
    pub format: i64,
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// The bytes of all copies together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn to_json(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads the manifest of a folder.
    pub(super) fn read(dir: &Path) -> Result<Self, String> {
        let text =
            std::fs::read_to_string(dir.join(MANIFEST)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    "it has no manifest.json: it is not a backup, or the backup was not finished"
                        .to_owned()
                }
                _ => format!("manifest.json cannot be read: {error}"),
            })?;
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| format!("manifest.json is damaged: {error}"))?;
        if manifest.layout != LAYOUT {
            return Err(format!(
                "it was created by version {}, in a form that this version does not know; restore it with that version or a newer one",
                manifest.version
            ));
        }
        Ok(manifest)
    }
}
