//! Content-addressed store of components: installed by `headgate plugin add`, with the earlier versions of each name.
//!
//! `store/<sha256>.wasm` is the content of a component, which never changes. `<name>.wasm` next to it is a copy of the
//! current version, which sinks load. `plugins.lock` has the current version of each name, its origin, and the earlier
//! versions.
//!
//! **Invariant**: content is used only if its digest equals its name. The next start finishes an interrupted
//! installation. If an operator replaces a copy, the daemon uses the new file and never overwrites it.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use base::text::hex;
use base::tree::{self, Data, Node};
use base::whole_file;

/// In the plugins directory.
const LOCK: &str = "plugins.lock";
const CONTENT: &str = "store";
/// Maximum number of earlier versions of a name. Each of them stays on the disk for a rollback.
const PREVIOUS_MAX: usize = 5;

/// Current version of a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Installed {
    pub name: String,
    /// SHA-256 of the component, 64 hex digits.
    pub sha256: String,
    /// The component's version of itself.
    pub version: String,
    /// Its origin, as given when it was added.
    pub source: String,
    /// RFC 3339.
    pub added_at: String,
    /// Earlier versions, newest first.
    pub previous: Vec<String>,
}

/// Why the store changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// `plugins.lock` cannot be parsed.
    #[error("{}, line {line}: {reason}; correct the file, or delete it and add the plugins again", path.display())]
    Lock {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    /// The content does not have the digest in its name.
    #[error(
        "{} is not the component that was added: its SHA-256 is {found}; delete the file and add the plugin again", path.display()
    )]
    Changed { path: PathBuf, found: String },
}

#[derive(Debug, Clone)]
pub struct Store(PathBuf);

impl Store {
    pub fn of(plugins_dir: &Path) -> Self {
        Self(plugins_dir.to_owned())
    }

    /// The file that sinks load for a name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.wasm"))
    }

    /// The file of a content.
    pub fn content(&self, sha256: &str) -> PathBuf {
        self.0.join(CONTENT).join(format!("{sha256}.wasm"))
    }

    /// The current version of each name. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub fn installed(&self) -> Result<Vec<Installed>, StoreError> {
        Ok(self.lock()?.into_iter().map(|one| one.installed).collect())
    }

    /// Stores content; returns its SHA-256. Blocks.
    ///
    /// # Errors
    /// The disk is full, or the directory cannot be written.
    pub fn keep(&self, component: &[u8]) -> Result<String, StoreError> {
        let sha256 = hex(&Sha256::digest(component));
        let folder = self.0.join(CONTENT);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(&folder)(error));
            }
            _ => {}
        }
        write_whole(&self.content(&sha256), component)?;
        Ok(sha256)
    }

    /// Reads content, as it was added. Blocks. The digest is compared again, because the file may have changed since it
    /// was added.
    ///
    /// # Errors
    /// It does not exist, cannot be read, or has changed.
    pub fn read(&self, sha256: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.content(sha256);
        let component = std::fs::read(&path).map_err(at(&path))?;
        let found = hex(&Sha256::digest(&component));
        match found == sha256 {
            true => Ok(component),
            false => Err(StoreError::Changed { path, found }),
        }
    }

    /// Whether the file of a name has its current version; `None`: there is no file. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_unchanged(&self, name: &str, sha256: &str) -> Result<Option<bool>, StoreError> {
        let path = self.file(name);
        match std::fs::read(&path) {
            Ok(found) => Ok(Some(hex(&Sha256::digest(found)) == sha256)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Makes stored content the current version of a name. Blocks. The lock says first that the change is unfinished,
    /// so that the next start can finish it.
    ///
    /// # Errors
    /// The content does not exist or has changed, or a file cannot be written. Then the name keeps its version, or the
    /// next start finishes the change.
    pub fn install(&self, mut installed: Installed) -> Result<(), StoreError> {
        installed.previous.truncate(PREVIOUS_MAX);
        let component = self.read(&installed.sha256)?;
        let mut all = self.lock()?;
        all.retain(|one| one.installed.name != installed.name);
        let path = self.file(&installed.name);
        all.push(Locked {
            installed,
            is_unfinished: true,
        });
        self.store_lock(&all)?;
        write_whole(&path, &component)?;
        for one in &mut all {
            one.is_unfinished = false;
        }
        self.store_lock(&all)
    }

    /// Removes a name, and deletes its file. Blocks. The file goes first, so that a kill in between leaves an entry
    /// that the next start removes.
    ///
    /// # Errors
    /// A file cannot be written or deleted.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.file(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
            _ => {}
        }
        let mut all = self.lock()?;
        all.retain(|one| one.installed.name != name);
        self.store_lock(&all)
    }

    /// Finishes interrupted changes, and deletes content that is no version of any name. Blocks. Content goes last,
    /// because an entry may still need it.
    ///
    /// # Errors
    /// The lock cannot be read, or a file cannot be written.
    pub fn recover(&self) -> Result<(), StoreError> {
        let mut all = self.lock()?;
        if all.iter().any(|one| one.is_unfinished) {
            for one in all.iter_mut().filter(|one| one.is_unfinished) {
                let component = self.read(&one.installed.sha256)?;
                write_whole(&self.file(&one.installed.name), &component)?;
                one.is_unfinished = false;
            }
            self.store_lock(&all)?;
        }
        // Somebody has deleted the file: the name means nothing any more.
        let before = all.len();
        all.retain(|one| self.file(&one.installed.name).exists());
        if all.len() < before {
            self.store_lock(&all)?;
        }
        let is_meant = |file: &str| {
            let all = all.iter().map(|one| &one.installed);
            let mut digests = all.flat_map(|one| one.previous.iter().chain([&one.sha256]));
            digests.any(|digest| file.strip_suffix(".wasm") == Some(digest))
        };
        let kept = std::fs::read_dir(self.0.join(CONTENT))
            .into_iter()
            .flatten();
        for file in kept.flatten() {
            if !file.file_name().to_str().is_some_and(is_meant) {
                std::fs::remove_file(file.path()).map_err(at(&file.path()))?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<Vec<Locked>, StoreError> {
        let path = self.0.join(LOCK);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&path)(error)),
        };
        let wrong = |line: Option<usize>, reason: String| StoreError::Lock {
            path: path.clone(),
            line: line.unwrap_or(1),
            reason,
        };
        let read = tree::parse(&text).map_err(|fault| wrong(fault.line, fault.message))?;
        let Some(Node {
            data: Data::List(all),
            ..
        }) = read.get("plugin")
        else {
            return Ok(Vec::new());
        };
        let locked = |node: &Node| {
            Locked::of(node).map_err(|name| wrong(node.line, format!("{name} is missing")))
        };
        all.iter().map(locked).collect()
    }

    fn store_lock(&self, all: &[Locked]) -> Result<(), StoreError> {
        let mut text =
            "# Which components the names of plugins mean. Written by Headgate.\n".to_owned();
        for one in all {
            one.write(&mut text);
        }
        write_whole(&self.0.join(LOCK), text.as_bytes())
    }
}

/// An entry of `plugins.lock`.
#[derive(Debug, Clone)]
struct Locked {
    installed: Installed,
    /// The file of the name is being written, so the next start finishes it.
    is_unfinished: bool,
}

impl Locked {
    /// Or the missing part of the entry.
    fn of(node: &Node) -> Result<Self, &'static str> {
        let text = |name: &'static str| match node.get(name).map(|found| &found.data) {
            Some(Data::Text(text)) => Ok(text.clone()),
            _ => Err(name),
        };
        let previous = match node.get("previous").map(|found| &found.data) {
            Some(Data::List(all)) => all.iter().filter_map(|one| match &one.data {
                Data::Text(text) => Some(text.clone()),
                _ => None,
            }),
            _ => return Err("previous"),
        };
        Ok(Self {
            installed: Installed {
                name: text("name")?,
                sha256: text("sha256")?,
                version: text("version")?,
                source: text("source")?,
                added_at: text("added_at")?,
                previous: previous.collect(),
            },
            is_unfinished: node.get("unfinished").is_some(),
        })
    }

    fn write(&self, into: &mut String) {
        let one = &self.installed;
        // What JSON writes as a string TOML reads as one.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        into.push_str("\n[[plugin]]\n");
        for (name, value) in [
            ("name", &one.name),
            ("sha256", &one.sha256),
            ("version", &one.version),
            ("source", &one.source),
            ("added_at", &one.added_at),
        ] {
            let _ = writeln!(into, "{name} = {}", quoted(value));
        }
        let previous: Vec<String> = one.previous.iter().map(|one| quoted(one)).collect();
        let _ = writeln!(into, "previous = [{}]", previous.join(", "));
        if self.is_unfinished {
            into.push_str("unfinished = true\n");
        }
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::File {
        path: path.clone(),
        source,
    }
}

/// Writes a file that only this user can read.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    whole_file::write(path, bytes, 0o600).map_err(at(path))
}

#[cfg(test)]
mod tests;
