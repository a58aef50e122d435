//! Secrets: given as they are, or by the file or environment variable that holds them.
//!
//! Deserialised with the other settings, resolved by [`load`](super::load), revealed by the catalog (to hash them)
//! and the admin API (to compare them).
//!
//! **Invariant**: neither `Debug`, `Serialize` nor any error shows the value; only [`Secret::reveal`] does.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands in the place of a secret wherever settings are shown.
pub const MASK: &str = "********";

/// The longest secret file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A secret and where it came from: `"text"`, `{ file = "…" }` or `{ env = "…" }`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    source: SecretSource,
    /// Present as soon as the secret was given as text or has been resolved.
    value: Option<String>,
}

/// Secrets: one, or a list of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct SecretList(Vec<Secret>);

impl Deref for SecretList {
    type Target = Vec<Secret>;

    fn deref(&self) -> &Vec<Secret> {
        &self.0
    }
}

impl DerefMut for SecretList {
    fn deref_mut(&mut self) -> &mut Vec<Secret> {
        &mut self.0
    }
}

/// How a [`SecretList`] can be written.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Secret),
    Many(Vec<Secret>),
}

impl From<OneOrMany> for SecretList {
    fn from(given: OneOrMany) -> Self {
        match given {
            OneOrMany::One(secret) => Self(vec![secret]),
            OneOrMany::Many(secrets) => Self(secrets),
        }
    }
}

/// How a secret was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// As text, in the setting itself.
    Text,
    /// By a file that holds it; whitespace around it is ignored.
    File(PathBuf),
    /// By an environment variable that holds it.
    Variable(String),
}

/// Why a secret could not be read from where it is said to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("the secret file {} does not exist", .0.display())]
    NoFile(PathBuf),
    #[error("the secret file {} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the environment variable {0} is not set")]
    NoVariable(String),
    #[error("the secret is empty")]
    Empty,
}

impl Secret {
    /// A secret that is given as text.
    pub fn new(value: impl Into<String>) -> Self {
        Secret {
            source: SecretSource::Text,
            value: Some(value.into()),
        }
    }

    /// The secret itself.
    ///
    /// # Panics
    ///
    /// If the settings were not loaded with [`load`](super::load), which resolves every secret or refuses.
    pub fn reveal(&self) -> &str {
        self.value
            .as_deref()
            .expect("load() resolves every secret of the settings that it returns")
    }

    /// How it was given.
    pub fn source(&self) -> &SecretSource {
        &self.source
    }

    /// Reads the value from its file or variable, if that has not been done.
    pub(super) fn resolve(&mut self, env: &HashMap<&str, &str>) -> Result<(), Unresolved> {
        let value = match (&self.value, &self.source) {
            (Some(value), _) => value.clone(),
            (None, SecretSource::Text) => String::new(),
            (None, SecretSource::File(path)) => read(path)?,
            (None, SecretSource::Variable(name)) => match env.get(name.as_str()) {
                Some(value) => value.trim().to_owned(),
                None => return Err(Unresolved::NoVariable(name.clone())),
            },
        };
        if value.is_empty() {
            return Err(Unresolved::Empty);
        }
        self.value = Some(value);
        Ok(())
    }

    /// Who else can read the file that it comes from, in a sentence.
    pub(super) fn readable_by_others(&self) -> Option<String> {
        match &self.source {
            SecretSource::File(path) => readable_by_others(path),
            _ => None,
        }
    }
}

/// Who can read a file beside this user, in a sentence that says what to do; none if nobody needs to know.
pub(super) fn readable_by_others(path: &Path) -> Option<String> {
    use rustix::process::{getegid, geteuid};
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.metadata().ok()?;
    let file = path.display();
    // A file of somebody else, such as root, is read by way of its group. This user's own group is often nobody else.
    let own = metadata.uid() == geteuid().as_raw() && metadata.gid() != getegid().as_raw();
    if metadata.mode() & 0o004 != 0 {
        Some(format!(
            "every user of this machine can read {file}; chmod 600 {file}"
        ))
    } else if metadata.mode() & 0o040 != 0 && own {
        Some(format!("its group can read {file}; chmod 600 {file}"))
    } else {
        None
    }
}

fn read(path: &Path) -> Result<String, Unresolved> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unresolved::NoFile(path.to_owned()),
        _ => Unresolved::Unreadable {
            path: path.to_owned(),
            source: error,
        },
    };
    let mut text = String::new();
    File::open(path)
        .map_err(failed)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::Error::other("it has more than 64 KiB")));
    }
    Ok(text.trim().to_owned())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            SecretSource::Text => write!(f, "Secret({MASK})"),
            SecretSource::File(path) => write!(f, "Secret(file {path:?})"),
            SecretSource::Variable(name) => write!(f, "Secret(env {name:?})"),
        }
    }
}

/// The mask for a secret given as text, otherwise the file or variable.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, place) = match &self.source {
            SecretSource::Text => return serializer.serialize_str(MASK),
            SecretSource::File(path) => ("file", path.to_string_lossy()),
            SecretSource::Variable(variable) => ("env", variable.as_str().into()),
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(name, &place)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, { file = \"…\" } or { env = \"…\" }")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Secret, E> {
        Ok(Secret::new(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
        let Some((name, place)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::custom("expected `file` or `env`"));
        };
        let source = match name.as_str() {
            "file" => SecretSource::File(PathBuf::from(place)),
            "env" => SecretSource::Variable(place),
            other => return Err(de::Error::unknown_field(other, &["file", "env"])),
        };
        if map.next_key::<String>()?.is_some() {
            return Err(de::Error::custom("expected `file` or `env`, not both"));
        }
        Ok(Secret {
            source,
            value: None,
        })
    }
}
