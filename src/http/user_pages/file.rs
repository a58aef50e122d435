//! Maps the path of a request to a file in the directory.
//!
//! **Invariant**: each name of a path is opened relative to the directory before it, and links are not followed. So the
//! file that was checked is the file that is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use percent_encoding::percent_decode_str;
use rustix::fs::{Mode, OFlags, open, openat};

use crate::error::ApiError;

/// Maximum bytes of a file.
pub(super) const BYTES_MAX: u64 = 32 << 20;

/// Media types of served files, by file extension. Others are not served, because a file may be there by mistake.
const KINDS: [(&str, &str); 32] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json; charset=utf-8"),
    ("webmanifest", "application/manifest+json; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/plain; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("xml", "application/xml; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("svg", "image/svg+xml; charset=utf-8"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("woff2", "font/woff2"),
    ("woff", "font/woff"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("ogv", "video/ogg"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("wav", "audio/wav"),
    ("m4a", "audio/mp4"),
    ("wasm", "application/wasm"),
];

/// The media type of a file name, if its kind is served.
pub(super) fn kind(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    let found = KINDS
        .iter()
        .find(|(kind, _)| kind.eq_ignore_ascii_case(end));
    found.map(|(_, content_type)| *content_type)
}

/// Why no file is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    NoFile,
    Kind,
    TooLarge,
    Unreadable,
}

impl From<Missing> for ApiError {
    fn from(missing: Missing) -> Self {
        let message = match missing {
            Missing::NoFile => "there is no such file in the directory pages of the data directory",
            Missing::Kind => {
                "the daemon does not serve files of this type; the guide lists the types"
            }
            Missing::TooLarge => "the file exceeds the limit of 32 MiB",
            Missing::Unreadable => {
                "the daemon is not allowed to read the file; check its owner and mode"
            }
        };
        ApiError::not_found("NOT_FOUND", message)
    }
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Unreadable,
            _ => Self::NoFile,
        }
    }
}

impl From<rustix::io::Errno> for Missing {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

/// The target of a path.
pub(super) enum Found {
    File { file: File, bytes: u64, tag: String },
    Folder,
}

/// The names in a path below the directory; a directory means its `index.html`. `None` if no file can have them.
pub(super) fn names(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut parts = path.strip_prefix("/pages")?.strip_prefix('/')?.split('/');
    while let Some(part) = parts.next() {
        let is_last = parts.clone().next().is_none();
        let part = if part.is_empty() && is_last {
            "index.html"
        } else {
            part
        };
        let name = percent_decode_str(part).decode_utf8().ok()?;
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return None;
        }
        names.push(name.into_owned());
    }
    Some(names)
}

/// Opens the file or directory with these names.
pub(super) fn find(folder: &Path, names: &[String]) -> Result<Found, Missing> {
    let (last, way) = names.split_last().ok_or(Missing::NoFile)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let into = flags | OFlags::DIRECTORY;
    let mut within = open(folder, into, Mode::empty())?;
    for name in way {
        within = openat(&within, name, into, Mode::empty())?;
    }
    // Opening a pipe without a writer must not block.
    let file = openat(&within, last, flags | OFlags::NONBLOCK, Mode::empty())?;
    let file = File::from(file);
    let about = file.metadata()?;
    if about.is_dir() {
        return Ok(Found::Folder);
    }
    if !about.is_file() {
        return Err(Missing::NoFile);
    }
    let bytes = about.len();
    if bytes > BYTES_MAX {
        return Err(Missing::TooLarge);
    }
    // The tag changes when a file is rewritten, copied over or moved there.
    let tag = format!(
        "\"{bytes:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
        about.ino(),
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec()
    );
    Ok(Found::File { file, bytes, tag })
}

#[cfg(test)]
mod tests;
