//! The README and the guide: their commands run as they stand, and what they must name is named.
//!
//! A block that is marked `sh` is run, one marked `console` is shown only: it needs root, another machine, or a sink that
//! fails.
//!
//! **Invariant**: a command that fails, and a `curl` that is answered with an error, fails the test.

mod problems; // what the status lists
mod recipes; // each against a fake of its tool
mod served; // under `/docs` of both listeners

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::demo::{ONE_AT_A_TIME, there_is};
use crate::command_line::{finish, headgate};

/// What every script begins with: a shell that stops at the first failure, and programs in the background that end with
/// it.
const BEGIN: &str = r#"
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
curl() { command curl --fail-with-body --silent --show-error "$@"; }
again() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; "$@"; }
"#;

/// A daemon with the README's configuration and an item; after it the commands of a page.
const WITH_A_DAEMON: &str = r#"
export SHOP_KEY=$(headgate key new | head -n 1) SCREEN_KEY=$(headgate key new --read | head -n 1)
headgate serve --config headgate.toml > serve.log 2>&1 &
again headgate healthcheck
echo '{"id": 1, "customer": {"name": "Ada"}}' | headgate send --key "$SHOP_KEY" --item-key id
again sqlite3 data/pool.db 'SELECT "customer.name" FROM stream_orders'
"#;

/// The one page that begins with nothing.
const WITHOUT_A_CONFIGURATION: &str = "
headgate serve > serve.log 2>&1 &
again headgate healthcheck
";

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

/// Runs a script in a folder of its own, on ports of its own.
fn run_script(name: &str, script: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))
        .expect("a link");
    let configuration = blocks(&read("README.md"), "toml").join("\n");
    fs::write(folder.path().join("headgate.toml"), configuration).expect("a file");
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address")
    };
    let (service, admin) = (free(), free());
    let script = script
        .replace("http://127.0.0.1:8080", &format!("http://{service}"))
        .replace("http://127.0.0.1:8081", &format!("http://{admin}"));
    let program = Path::new(env!("CARGO_BIN_EXE_headgate"));
    let mut path = program.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let clean = headgate(folder.path());
    let mut shell = Command::new("bash");
    for (name, _) in clean.get_envs() {
        shell.env_remove(name);
    }
    shell
        .args(["-c", &format!("{BEGIN}{script}")])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HEADGATE_URL", format!("http://{service}"))
        .env("HEADGATE_ADMIN_URL", format!("http://{admin}"))
        .env("HEADGATE_SERVER__LISTEN", service.to_string())
        .env("HEADGATE_ADMIN__LISTEN", admin.to_string());
    let done = finish(&mut shell, "");
    let log = fs::read_to_string(folder.path().join("serve.log")).unwrap_or_default();
    assert_eq!(
        done.code,
        Some(0),
        "{name}:\n{}\n{}\n{log}",
        done.out,
        done.err
    );
}

#[test]
fn the_commands_of_the_readme_work_as_they_stand() {
    if !there_is("curl") || !there_is("sqlite3") {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut script = String::new();
    let text = read("README.md");
    let blocks = blocks(&text, "sh");
    assert!(blocks.len() >= 4, "{blocks:?}");
    for block in blocks {
        // What the reader builds is built already.
        let block = block.replace("cargo run --release -- demo", "headgate demo > demo.log &");
        let block = block.replace("cargo test", "true");
        assert!(!block.contains("cargo"), "{block}");
        if block.contains("stream_scoreboard") {
            script.push_str("again grep Serving demo.log\nagain ");
        }
        script.push_str(&block);
        script.push('\n');
        if block.contains("headgate serve") {
            script.push_str("again headgate healthcheck\n");
        }
    }
    run_script("README.md", &script);
}

#[test]
fn the_commands_of_the_guide_work_as_they_stand() {
    if !there_is("curl") || !there_is("sqlite3") {
        return;
    }
    let mut run = 0;
    for page in pages() {
        let text = read(&page);
        let blocks = blocks(&text, "sh");
        if blocks.is_empty() {
            continue;
        }
        run += blocks.len();
        let name = page.file_stem().expect("a name").to_string_lossy();
        let begin = match &*name {
            "connect" => WITHOUT_A_CONFIGURATION,
            _ => WITH_A_DAEMON,
        };
        run_script(&name, &format!("{begin}{}\n", blocks.join("\n")));
    }
    assert!(run >= 15, "only {run} blocks");
}

/// Every block says what it is, and only those that are run look like it.
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
