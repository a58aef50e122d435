//! The house rules that a text search can hold: imports go down, and each large dependency has one home.

use std::path::{Path, PathBuf};

/// Modules by floor; the crate documentation explains them.
const FLOORS: [(&str, u8); 21] = [
    ("cli", 6),
    ("daemon", 5),
    ("http", 4),
    ("ingest", 3),
    ("delivery", 3),
    ("plugin", 2),
    ("live", 2),
    ("backup", 2),
    ("repair", 2),
    ("catalog", 1),
    ("journal", 1),
    ("pool", 1),
    ("item", 0),
    ("batch", 0),
    ("error", 0),
    ("config", 0),
    ("metrics", 0),
    ("clock", 0),
    ("backoff", 0),
    ("sqlite", 0),
    ("text", 0),
];

/// Dependencies and the modules that may name them.
const HOMES: [(&str, &[&str]); 18] = [
    ("salvo_core", &["http"]),
    ("salvo_oapi", &["http"]),
    ("salvo_extra", &["http"]),
    ("tungstenite", &["http"]),
    ("maud", &["http"]),
    ("wasmtime", &["plugin"]),
    ("wasmtime_wasi", &["plugin"]),
    ("wasmtime_wasi_http", &["plugin"]),
    ("hyper_util", &["plugin"]),
    ("hyper_rustls", &["plugin"]),
    ("sqlx", &["journal", "plugin", "pool", "sqlite"]),
    (
        "rusqlite",
        &["backup", "catalog", "journal", "pool", "repair", "sqlite"],
    ),
    ("figment", &["config"]),
    ("toml_edit", &["config"]),
    ("clap", &["cli"]),
    ("reqwest", &["cli"]),
    ("moka", &["journal"]),
    ("jsonschema", &["plugin"]),
];

/// A source file: its module on the top level, its path, its code without comments.
struct Source {
    module: String,
    path: PathBuf,
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the source folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let inside = path.strip_prefix(&root).expect("below src");
            let first = inside.iter().next().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a source file");
            sources.push(Source {
                module: first.trim_end_matches(".rs").to_owned(),
                code: without_comments(&text),
                path,
            });
        }
    }
    assert!(sources.len() > 50, "only {} files found", sources.len());
    sources
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules that code names after `crate::`, also in `crate::{a, b::c}`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        if let Some(list) = after.strip_prefix('{') {
            let mut depth = 0;
            let mut name = String::new();
            for character in list.chars() {
                match character {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(std::mem::take(&mut name)),
                    _ if depth == 0 => name.push(character),
                    _ => {}
                }
            }
            found.push(name);
        } else {
            found.push(after.to_owned());
        }
    }
    found
        .iter()
        .map(|text| {
            text.trim_start()
                .chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect()
        })
        .filter(|name: &String| !name.is_empty())
        .collect()
}

fn floor(module: &str) -> Option<u8> {
    let found = FLOORS.iter().find(|(name, _)| *name == module);
    found.map(|(_, floor)| *floor)
}

#[test]
fn imports_go_down_only() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some(own) = floor(&source.module) else {
            continue;
        };
        for import in imports(&source.code) {
            let Some(other) = floor(&import) else {
                continue;
            };
            if import != source.module && other >= own && !(own == 0 && other == 0) {
                breaches.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn each_large_dependency_has_one_home() {
    let mut breaches = Vec::new();
    for source in sources() {
        for (dependency, homes) in HOMES {
            let named = source.code.contains(&format!("{dependency}::"))
                || source.code.contains(&format!("use {dependency};"));
            if named && !homes.contains(&source.module.as_str()) {
                breaches.push(format!("{} names {dependency}", source.path.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_file_says_what_it_owns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for source in sources() {
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let shown = source.path.strip_prefix(root).unwrap_or(&source.path);
        assert!(text.starts_with("//!"), "{}", shown.display());
    }
}

#[test]
fn the_check_sees_imports_in_all_their_forms() {
    let code = "use crate::a::b; use crate::{c, d::{e, f}, g as h}; crate::i::j();";
    assert_eq!(imports(code), ["a", "c", "d", "g", "i"]);
}
