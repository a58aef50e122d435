//! Archives of plugins, for machines without access to the sources.
//!
//! A tar archive: `plugins.json` with name, source and SHA-256 of each plugin, then the components, by their digests.
//!
//! **Invariant**: each component has the digest in the list.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::fetch::{COMPONENT_BYTES_MAX, Fetched};
use crate::error::CliError;

const LIST: &str = "plugins.json";
/// The position of the magic bytes.
const MAGIC_AT: u64 = 257;
const MAGIC: &[u8; 5] = b"ustar";

#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    name: String,
    source: String,
    sha256: String,
}

/// Writes an archive, completely or not at all.
pub(super) fn write(path: &Path, all: &[Fetched]) -> Result<(), CliError> {
    let unfinished = path.with_extension("unfinished");
    let written = write_to(&unfinished, all).and_then(|()| std::fs::rename(&unfinished, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&unfinished);
        CliError::failed(format!("cannot write {}: {error}", path.display()))
    })
}

fn write_to(path: &Path, all: &[Fetched]) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(File::create(path)?);
    let listed: Vec<Listed> = (all.iter())
        .map(|one| Listed {
            name: one.name.clone(),
            source: one.source.clone(),
            sha256: one.sha256(),
        })
        .collect();
    let list = serde_json::to_vec_pretty(&listed).map_err(std::io::Error::other)?;
    add(&mut archive, LIST, &list)?;
    let components: BTreeMap<String, &Bytes> = (all.iter())
        .map(|one| (one.sha256(), &one.component))
        .collect();
    for (sha256, component) in components {
        add(&mut archive, &format!("{sha256}.wasm"), component)?;
    }
    archive.into_inner()?.sync_all()
}

fn add(archive: &mut tar::Builder<File>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, Cursor::new(bytes))
}

/// Reads the plugins of an archive; `None`: the file is not an archive, or does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Fetched>>, CliError> {
    let read = File::open(path).and_then(|file| match is_archive(&file)? {
        true => read_from(file).map(Some),
        false => Ok(None),
    });
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map_err(|error| {
            CliError::wrong_use(format!(
                "cannot read the plugins in {}: {error}",
                path.display()
            ))
        }),
    }
}

fn is_archive(mut file: &File) -> std::io::Result<bool> {
    let mut magic = Vec::new();
    file.seek(SeekFrom::Start(MAGIC_AT))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(magic == MAGIC)
}

fn read_from(file: File) -> std::io::Result<Vec<Fetched>> {
    let mut archive = tar::Archive::new(BufReader::new(file));
    let mut listed: Option<Vec<Listed>> = None;
    let mut all = Vec::new();
    for entry in archive.entries()? {
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.take(COMPONENT_BYTES_MAX).read_to_end(&mut bytes)?;
        if name == LIST {
            listed = Some(serde_json::from_slice(&bytes)?);
            continue;
        }
        let of_digest = listed.iter().flatten();
        for one in of_digest.filter(|one| name.strip_suffix(".wasm") == Some(&one.sha256)) {
            let fetched = Fetched {
                name: one.name.clone(),
                source: one.source.clone(),
                component: Bytes::from(bytes.clone()),
            };
            if fetched.sha256() != one.sha256 {
                let message = format!("the component of {} is damaged", one.name);
                return Err(std::io::Error::other(message));
            }
            all.push(fetched);
        }
    }
    match listed {
        Some(listed) if listed.len() == all.len() => Ok(all),
        Some(_) => Err(std::io::Error::other("a component is missing")),
        None => Err(std::io::Error::other(
            "it was not written by `headgate plugin export`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plugins.tar");
        let of = |name: &str, component: &'static [u8]| Fetched {
            name: name.to_owned(),
            source: format!("https://example.com/{name}"),
            component: Bytes::from_static(component),
        };
        let all = [of("cart", b"one"), of("chat", b"two"), of("again", b"one")];
        write(&path, &all).expect("room");
        let mut read_back = read(&path).expect("it reads").expect("an archive");
        read_back.sort_by(|a, b| a.source.cmp(&b.source));
        let names: Vec<_> = read_back.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["again", "cart", "chat"]);
        assert_eq!(read_back[2].component, all[1].component);
        assert_eq!(read_back[1].source, "https://example.com/cart");
        let mut bytes = std::fs::read(&path).expect("a file");
        let at = bytes
            .windows(3)
            .rposition(|part| part == b"two")
            .expect("the component");
        bytes[at] = b'x';
        std::fs::write(&path, bytes).expect("room");
        let damaged = read(&path).expect_err("it is damaged");
        assert!(damaged.message.contains("chat is damaged"), "{damaged}");
        std::fs::write(&path, b"\0asm").expect("room");
        assert!(read(&path).expect("it reads").is_none());
    }
}
