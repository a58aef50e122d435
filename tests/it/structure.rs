//! The house rules that a text search can hold: imports go down, and each large dependency has one home.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules by floor; the crate documentation explains them.
const FLOORS: [(&str, u8); 28] = [
    ("cli", 7),
    ("daemon", 6),
    ("http", 5),
    ("operate", 4),
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
    ("budget", 0),
    ("opaque", 0),
    ("process", 0),
    ("sender", 0),
    ("sqlite", 0),
    ("telemetry", 0),
    ("text", 0),
    ("guide", 0),
];

/// Files of `http` by floor, as far as they have one; all others lie between these.
const HTTP_FLOORS: [(&str, u8); 12] = [
    ("envelope", 0),
    ("error", 0),
    ("forwarded", 0),
    ("head", 0),
    ("middleware", 0),
    ("body", 0),
    ("rate", 0),
    ("strangers", 0),
    ("tls", 0),
    ("api", 2),
    ("web", 2),
    ("docs", 2),
];

/// Subjects and pages of `http/web`. What several of them show lies beside them, and knows none of them.
const SUBJECTS: [&str; 10] = [
    "audit",
    "connector",
    "overview",
    "read_key",
    "renderers",
    "request",
    "settings",
    "signed_in",
    "sink",
    "stream",
];

/// Dependencies and the modules that may name them.
const HOMES: [(&str, &[&str]); 28] = [
    ("arc_swap", &["http"]),
    ("tokio_rustls", &["http"]),
    ("proxy_header", &["http"]),
    ("landlock", &["process"]),
    ("seccompiler", &["process"]),
    ("flate2", &["cli", "sender"]),
    ("ring::hmac", &["sender"]),
    ("ruzstd", &["sender"]),
    ("pulldown_cmark", &["guide"]),
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
    ("qrcode", &["cli"]),
    ("reqwest", &["cli", "telemetry"]),
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

/// The file of `http` that a source belongs to, without what is below it; none: it is not in `http`.
fn file_of_http(source: &Source) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    let inside = source.path.strip_prefix(&root).ok()?;
    let first = inside.iter().next()?.to_string_lossy();
    Some(first.trim_end_matches(".rs").to_owned())
}

fn http_floor(file: &str) -> u8 {
    let found = HTTP_FLOORS.iter().find(|(name, _)| *name == file);
    found.map_or(1, |(_, floor)| *floor)
}

#[test]
fn imports_inside_http_go_down_only() {
    let sources = sources();
    let files: Vec<String> = sources.iter().filter_map(file_of_http).collect();
    assert!(files.contains(&"web".to_owned()), "{files:?}");
    let mut breaches = Vec::new();
    for source in &sources {
        let Some(own) = file_of_http(source) else {
            continue;
        };
        for import in names_after(
            &source.code,
            &["crate::http::", "super::super::", "super::"],
        ) {
            let is_file = files.contains(&import) && import != own;
            // What lies below a file may be called like another file.
            let is_own = source.path.with_file_name(format!("{import}.rs")).exists()
                && source
                    .path
                    .parent()
                    .is_some_and(|folder| !folder.ends_with("http"));
            if is_file && !is_own && http_floor(&import) > http_floor(&own) {
                breaches.push(format!("{} imports {import}", source.path.display()));
            }
            let faces = ["api", "web"];
            if is_file && !is_own && faces.contains(&&*own) && faces.contains(&&*import) {
                breaches.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn pages_take_nothing_from_pages_of_another_subject() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/web");
    let mut breaches = Vec::new();
    let mut pages = 0;
    for source in sources() {
        let Ok(inside) = source.path.strip_prefix(&root) else {
            continue;
        };
        let first = inside.iter().next().expect("a name").to_string_lossy();
        let own = first.trim_end_matches(".rs");
        pages += usize::from(SUBJECTS.contains(&own));
        let mut prefixes = vec!["crate::http::web::"];
        if inside.components().count() == 1 {
            prefixes.push("super::");
        }
        for import in names_after(&source.code, &prefixes) {
            if SUBJECTS.contains(&&*import) && import != own {
                breaches.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(pages > SUBJECTS.len(), "only {pages} pages found");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// What stands first after each of these, also in `{a, b::c}`.
fn names_after(code: &str, prefixes: &[&str]) -> Vec<String> {
    let found = prefixes.iter().flat_map(|prefix| {
        let marked = code.replace(prefix, "\u{1}").replace("crate::", "");
        imports(&marked.replace('\u{1}', "crate::"))
    });
    found.collect()
}

#[test]
fn the_catalog_and_what_operators_do_know_neither_routes_nor_flags() {
    let mut breaches = Vec::new();
    for source in sources() {
        let tests = source.path.ends_with("tests.rs");
        if !matches!(&*source.module, "catalog" | "operate") || tests {
            continue;
        }
        for word in ["/api/", "force=true", "--force", "StatusCode"] {
            if source.code.contains(word) {
                breaches.push(format!("{} says {word}", source.path.display()));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Lines of a function that every one may have; of those that have more, `LONG_FUNCTIONS_MAX` are the most.
const FUNCTION_LINES: usize = 60;
const LONG_FUNCTIONS_MAX: usize = 10;
/// Lines that no function may have.
const FUNCTION_LINES_MAX: usize = 100;

/// The functions of a formatted file: their names with how many lines each has. One ends at the first brace that is
/// indented as it is.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = name_of_function(line).filter(|_| !line.ends_with(';')) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| {
            let rest = line.strip_prefix(indent);
            rest.is_some_and(|rest| rest.starts_with('}'))
        };
        let more = match line.ends_with('}') {
            true => 0,
            false => lines[first..].iter().position(is_end).unwrap_or(0),
        };
        found.push((name, more + 1));
    }
    found
}

/// The name of the function that begins in a line.
fn name_of_function(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(named) = rest.strip_prefix("fn ") {
            return named.split(['(', '<']).next();
        }
        let (word, after) = rest.split_once(' ')?;
        let qualifiers = ["const", "async", "unsafe", "extern", "\"C\""];
        if !qualifiers.contains(&word) && !word.starts_with("pub") && !word.ends_with(')') {
            return None;
        }
        rest = after;
    }
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for source in sources() {
        let text = std::fs::read_to_string(&source.path).expect("a source file");
        let is_test =
            source.path.iter().any(|part| part == "tests") || source.path.ends_with("tests.rs");
        if is_test {
            continue;
        }
        let own = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        for (name, lines) in functions(own) {
            if lines > FUNCTION_LINES {
                long.push((lines, format!("{lines} {}: {name}", source.path.display())));
            }
        }
    }
    long.sort();
    let listed: Vec<&str> = long.iter().map(|(_, shown)| shown.as_str()).collect();
    let listed = listed.join("\n");
    let longest = long.last().map_or(0, |(lines, _)| *lines);
    assert!(
        longest <= FUNCTION_LINES_MAX,
        "cut the longest into parts:\n{listed}"
    );
    assert!(
        long.len() <= LONG_FUNCTIONS_MAX,
        "{} are long; cut one into parts:\n{listed}",
        long.len()
    );
}

/// Names that more than two public types have; a type that is visible outside its file is to carry its noun. No name may
/// be added.
const SHARED_NAMES: [&str; 8] = [
    "Answer", "Batch", "Kind", "Limits", "Page", "Refused", "Standing", "Stream",
];

#[test]
fn public_types_carry_their_noun() {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.code.lines() {
            let mut words = line.split_whitespace();
            let (public, kind) = (words.next(), words.next());
            if public != Some("pub") || !matches!(kind, Some("struct" | "enum" | "type")) {
                continue;
            }
            let name = words.next().unwrap_or_default();
            let name = name.split(|c: char| !c.is_alphanumeric()).next();
            let named = named.entry(name.unwrap_or_default().to_owned());
            named.or_default().push(source.path.display().to_string());
        }
    }
    assert!(named.len() > 200, "only {} types found", named.len());
    named.retain(|name, places| places.len() > 2 && !SHARED_NAMES.contains(&&**name));
    assert!(named.is_empty(), "give these names their nouns: {named:#?}");
}

/// Printed for whoever runs it with `--nocapture`: whether the rooms stay small.
#[test]
fn the_figures_of_the_tree() {
    let mut lines: Vec<(usize, String)> = sources()
        .iter()
        .map(|source| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let shown = source.path.strip_prefix(root).unwrap_or(&source.path);
            (source.code.lines().count(), shown.display().to_string())
        })
        .collect();
    lines.sort_unstable();
    let at = |percent: usize| lines[(lines.len() - 1) * percent / 100].0;
    let all: usize = lines.iter().map(|(count, _)| count).sum();
    let (longest, file) = lines.last().expect("files");
    println!(
        "{} files, {all} lines; median {}, ninety per cent below {}, longest {longest} ({file})",
        lines.len(),
        at(50),
        at(90)
    );
    assert!(*longest < 1_500, "{file} has {longest} lines");
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
fn the_check_sees_functions_in_all_their_forms() {
    let code = "\
pub(in crate::http) async fn long<T>(
    a: T,
) -> bool {
    if a {
    }
}

impl X {
    pub const fn short(&self) {}

    unsafe extern \"C\" fn three() {
        let function = 1;
    }

    fn declared();
}
// fn not_code() {
";
    assert_eq!(functions(code), [("long", 6), ("short", 1), ("three", 3)]);
}

#[test]
fn the_check_sees_imports_in_all_their_forms() {
    let code = "use crate::a::b; use crate::{c, d::{e, f}, g as h}; crate::i::j();";
    assert_eq!(imports(code), ["a", "c", "d", "g", "i"]);
    let code = "use crate::http::api::X; use super::super::{body, error::E}; use super::web;";
    let files = names_after(code, &["crate::http::", "super::super::", "super::"]);
    for file in ["api", "body", "error", "web"] {
        assert!(files.contains(&file.to_owned()), "{file}: {files:?}");
    }
}
