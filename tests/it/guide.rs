//! The README and the guide: their commands run as they stand, and what they must name is named.
//!
//! A block that is marked `sh` is run, one marked `console` is shown only, with the reason in a comment before it.
//!
//! **Invariant**: what a page says is tried, or compared with what it is about.

mod machines; // what it says of other machines
mod printed; // every block of commands, as a reader would paste it
mod problems; // what the status lists
mod recipes; // each against a fake of its tool
mod senders; // tools that sign nothing, and the programs themselves
mod served; // under `/docs` of both listeners

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of the guide.
pub(crate) fn pages() -> Vec<PathBuf> {
    let pages = guide::PAGES.iter();
    pages
        .map(|page| root().join(format!("src/guide/{}.md", page.name)))
        .collect()
}

/// The blocks of one language.
pub(crate) fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    let blocks = text.split(&begin).skip(1);
    blocks
        .map(|block| block.split("\n```").next().unwrap_or_default())
        .collect()
}

/// Every block says what it is, and only those that are run look like it.
#[test]
fn the_table_of_presets_names_every_preset_and_no_other() {
    let page = read("src/guide/tools.md");
    let (_, table) = page.split_once("\n## Presets\n").expect("the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let presets = webhook::presets();
    let mut known: Vec<&str> = presets.iter().map(|preset| &*preset.name).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn every_block_names_its_language() {
    const LANGUAGES: &[&str] = &[
        "console",
        "csharp",
        "dockerfile",
        "go",
        "html",
        "ini",
        "js",
        "json",
        "nginx",
        "python",
        "rust",
        "sh",
        "text",
        "toml",
        "yaml",
    ];
    let mut files = pages();
    files.push(root().join("README.md"));
    for file in files {
        let text = read(&file);
        let fences = text.lines().filter(|line| line.starts_with("```"));
        for fence in fences.step_by(2) {
            let language = fence.trim_start_matches('`');
            assert!(LANGUAGES.contains(&language), "{}: {fence}", file.display());
        }
    }
}

/// The text without its tests.
fn code(path: &Path) -> String {
    let text = read(path);
    let code = text.split("#[cfg(test)]").next();
    code.unwrap_or_default().to_owned()
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
}

/// What stands between two marks and looks like an error code.
fn codes(text: &str, mark: char) -> BTreeSet<String> {
    let is_code = |part: &&str| {
        part.len() >= 6
            && *part != "DELETE"
            && !part.starts_with("CARGO_")
            && !part.starts_with("HEADGATE_")
            && part
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    text.split(mark)
        .filter(is_code)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_guide_has_every_error_code_and_no_other() {
    let of_others = ["src/ingest/error.rs", "src/pool/acts/refusal.rs"];
    let mut sources: Vec<_> = of_others.map(|path| root().join(path)).into();
    for package in ["http", "feed", "api", "web"] {
        files(&root().join("src").join(package), "rs", &mut sources);
    }
    let mut known = BTreeSet::new();
    for source in sources {
        known.append(&mut codes(&code(&source), '"'));
    }
    assert!(known.len() > 20, "{known:?}");
    let page = read("src/guide/http.md");
    let (_, table) = page.split_once("## Error codes").expect("a section");
    let (table, _) = table.split_once("\n## ").expect("the next section");
    assert_eq!(codes(table, '`'), known);
}

/// The settings of `config/default.toml`, those of the examples in comments too.
fn settings() -> BTreeSet<String> {
    let mut settings = BTreeSet::new();
    let mut section = String::new();
    for line in read("config/default.toml").lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.trim_start_matches('[').split(']').next();
            section = name.unwrap_or_default().to_owned();
            continue;
        }
        let Some((name, _)) = line.split_once(" = ") else {
            continue;
        };
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit();
        if !section.is_empty() && name.bytes().all(is_name) {
            settings.insert(format!("{section}.{name}"));
        }
    }
    settings
}

#[test]
fn the_guide_names_every_setting_and_no_other() {
    let known = settings();
    assert!(known.len() > 60, "{known:?}");
    let page = read("src/guide/configure.md");
    let (_, tables) = page.split_once("\n## Settings").expect("a section");
    let rows = tables.lines().filter(|line| line.starts_with("| `"));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let named: BTreeSet<String> = first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, known);
}

/// `guide/rustdoc.md` leads the references of the pages to the pages of the crate's documentation.
#[test]
fn every_reference_of_the_guide_is_known_to_rustdoc() {
    let mut lines = BTreeSet::new();
    for page in pages() {
        let text = read(&page);
        let definitions = text.lines().filter(|line| line.starts_with('['));
        for (label, target) in definitions.filter_map(|line| line.split_once("]: ")) {
            let target = match (target.split_once(".md"), target.strip_prefix("../../")) {
                (_, Some(file)) => format!("../../../../{file}"),
                (Some((page, anchor)), _) => format!("crate::{page}{anchor}"),
                _ => format!("../../../../src/guide/{target}"),
            };
            lines.insert(format!("{label}]: {target}\n"));
        }
    }
    let expected: String = lines.into_iter().collect();
    assert_eq!(read("src/guide/rustdoc.md"), expected);
}

#[test]
fn every_file_of_the_guide_is_part_of_it() {
    let mut known: BTreeSet<PathBuf> = pages().into_iter().collect();
    let folder = root().join("src/guide");
    known.extend(guide::FILES.iter().map(|file| folder.join(file.name())));
    known.insert(folder.join("rustdoc.md"));
    for extension in ["md", "webp", "png"] {
        let mut found = Vec::new();
        files(&folder, extension, &mut found);
        for file in found {
            assert!(known.contains(&file), "{}", file.display());
        }
    }
    for file in guide::FILES {
        assert!(file.bytes.len() < 60_000, "{} is large", file.path);
    }
    let readme = read("README.md");
    assert!(readme.lines().count() <= 200);
    for page in guide::PAGES {
        let link = format!("(src/guide/{}.md)", page.name);
        assert!(readme.contains(&link), "{link} is not in the README");
    }
}
