//! The blocks of README and guide, run as they are printed.
//!
//! Every block marked `sh` runs, in order, in one fresh folder for each page. A page that links to the README's first steps
//! begins where those end; any other begins with nothing. A block marked `text` that follows a command directly is what
//! the command prints, with `…` for what differs from run to run. A block marked `console` is shown only: a comment
//! before it says why it cannot run here.
//!
//! **Invariant**: a command that fails, a `curl` that is answered with an error, a line that is not printed, a variable
//! that the page does not set, and a block without a reason fail the test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{blocks, pages, read, root};
use crate::command_line::demo::{ONE_AT_A_TIME, there_is};
use crate::command_line::{finish, headgate};

/// Where pages lead their readers first.
const FIRST_STEPS: &str = "README.md#use-it";
/// What these steps set.
const FIRST_VARIABLES: [&str; 2] = ["SHOP_KEY", "SCREEN_KEY"];
const REASON: &str = "<!-- not run: ";

/// What every script begins with: a shell that stops at the first failure, and programs in the background that end with
/// it. What the reader builds is built already. A view of SQL has a new column within a second.
const BEGIN: &str = r#"
set -eu
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
curl() { command curl --fail-with-body --silent --show-error "$@"; }
again() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; "$@"; }
sqlite3() { again command sqlite3 "$@"; command sqlite3 "$@"; }
cargo() {
    case "$*" in
        'run --release -- demo') headgate demo >demo.log 2>&1 & again grep Serving demo.log ;;
        test) ;;
        *) echo "cargo $* is nothing that this test knows"; return 1 ;;
    esac
}
"#;

/// A block, with what stands around it.
struct Block {
    language: String,
    text: String,
    /// The comment before it.
    reason: Option<String>,
    /// Whether only blank lines stand between it and the block before.
    follows: bool,
}

fn every_block(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let (mut before, mut follows) = ("", false);
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let reason = before.strip_prefix(REASON);
            let reason = reason.and_then(|rest| rest.strip_suffix(" -->"));
            found.push(Block {
                language: language.to_owned(),
                text: inside.join("\n"),
                reason: reason.map(str::to_owned),
                follows: follows && !found.is_empty(),
            });
            (before, follows) = ("", true);
        } else if !line.is_empty() {
            (before, follows) = (line, false);
        }
    }
    found
}

/// Whether a line that was printed is this one, in which `…` stands for any text.
fn is_like(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The first line that was not printed, or not in this order.
fn missing<'a>(expected: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(str::trim_end);
    let lines = expected.lines().map(str::trim_end);
    let mut lines = lines.filter(|line| !line.is_empty());
    lines.find(|line| !printed.any(|one| is_like(line, one)))
}

/// What runs for a page: the blocks, and what each is to print.
struct Script {
    blocks: Vec<(String, Option<String>)>,
}

impl Script {
    fn of(text: &str) -> Self {
        let mut blocks: Vec<(String, Option<String>)> = Vec::new();
        let mut after_command = false;
        for block in every_block(text) {
            if block.language == "text" && block.follows && after_command {
                if let Some((_, printed)) = blocks.last_mut() {
                    *printed = Some(block.text);
                }
                after_command = false;
                continue;
            }
            after_command = block.language == "sh";
            if after_command {
                blocks.push((block.text, None));
            }
        }
        Self { blocks }
    }

    /// The shell's text: each block prints into a file of its own.
    fn text(&self) -> String {
        let mut text = BEGIN.to_owned();
        for (at, (block, _)) in self.blocks.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{{\n{block}\n}} > \"$PRINTED/{at}\" 2>&1 < /dev/null");
            if block.contains("headgate serve") {
                text.push_str("again headgate healthcheck\n");
            }
        }
        text
    }
}

/// Runs a page in a folder of its own, on ports of its own.
fn run_page(name: &str, text: &str) -> usize {
    let own = Script::of(text).blocks.len();
    let readme = read("README.md");
    let text = match text.contains(FIRST_STEPS) {
        true => {
            let (_, steps) = readme.split_once("\n## Use it\n").expect("a section");
            let (steps, _) = steps.split_once("\n## ").expect("the next section");
            format!("{steps}\n{text}")
        }
        false => text.to_owned(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let printed = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))
        .expect("a link");
    let configuration = blocks(&readme, "toml").join("\n");
    fs::write(folder.path().join("headgate.toml"), configuration).expect("a file");
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address")
    };
    let (service, admin) = (free(), free());
    let script = Script::of(
        &text
            .replace("http://127.0.0.1:8080", &format!("http://{service}"))
            .replace("http://127.0.0.1:8081", &format!("http://{admin}")),
    );
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
        .args(["-c", &script.text()])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("PRINTED", printed.path())
        .env("HEADGATE_URL", format!("http://{service}"))
        .env("HEADGATE_ADMIN_URL", format!("http://{admin}"))
        .env("HEADGATE_SERVER__LISTEN", service.to_string())
        .env("HEADGATE_ADMIN__LISTEN", admin.to_string());
    let done = finish(&mut shell, "");
    let print = |at: usize| fs::read_to_string(printed.path().join(at.to_string())).ok();
    let failed = (0..script.blocks.len())
        .rev()
        .find(|at| print(*at).is_some());
    if let (false, Some(at)) = (done.code == Some(0), failed) {
        panic!(
            "{name}: this block fails:\n{}\n--\n{}\n{}",
            script.blocks[at].0,
            print(at).unwrap_or_default(),
            done.err
        );
    }
    assert_eq!(done.code, Some(0), "{name}: {}{}", done.out, done.err);
    for (at, (block, expected)) in script.blocks.iter().enumerate() {
        let printed = print(at).unwrap_or_default();
        if let Some(line) = expected.as_deref().and_then(|text| missing(text, &printed)) {
            panic!("{name}: not printed: {line}\nby:\n{block}\n--\n{printed}");
        }
    }
    own
}

fn every_page() -> impl Iterator<Item = (String, String)> {
    let pages = [PathBuf::from("README.md")].into_iter().chain(pages());
    pages.map(|page| {
        let name = page.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), read(&page))
    })
}

#[test]
fn the_commands_of_readme_and_guide_run_as_they_are_printed() {
    if !there_is("curl") || !there_is("sqlite3") {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let (mut run, mut shown) = (0, 0);
    for (name, text) in every_page() {
        let marked = every_block(&text).into_iter();
        shown += marked.filter(|block| block.language == "console").count();
        if !blocks(&text, "sh").is_empty() {
            run += run_page(&name, &text);
        }
    }
    println!("{run} blocks of commands were run; {shown} are marked, with the reason, as not run");
    assert!(run >= 61, "only {run} blocks run, {shown} do not");
}

#[test]
fn a_block_that_is_not_run_says_why() {
    for (name, text) in every_page() {
        let mut marked = 0;
        for block in every_block(&text) {
            let has_reason = block.reason.is_some();
            marked += usize::from(has_reason);
            let is_shown_only = block.language == "console";
            assert_eq!(has_reason, is_shown_only, "{name}:\n{}", block.text);
        }
        assert_eq!(
            text.matches(REASON).count(),
            marked,
            "{name}: a reason without a block"
        );
    }
}

/// The names after `$`, and those that are set.
fn variables(text: &str) -> (Vec<String>, Vec<String>) {
    let name = |text: &str| -> String {
        let is_part = |character: &char| character.is_ascii_alphanumeric() || *character == '_';
        text.chars().take_while(is_part).collect()
    };
    let used = text
        .split('$')
        .skip(1)
        .map(|rest| name(rest.trim_start_matches('{')));
    let is_name = |name: &String| name.starts_with(|first: char| first.is_ascii_alphabetic());
    let words = text.split(|character: char| character.is_whitespace() || character == ';');
    let set = words
        .filter_map(|word| word.split_once('='))
        .map(|(before, _)| before.to_owned());
    let is_whole = |set: &String| !set.is_empty() && name(set) == *set;
    let counted = text.split("for ").skip(1).map(name);
    (
        used.filter(is_name).collect(),
        set.filter(is_whole).chain(counted).collect(),
    )
}

#[test]
fn a_page_uses_variables_that_it_sets_or_that_the_first_steps_set() {
    for (name, text) in every_page() {
        let mut known: BTreeSet<String> = BTreeSet::new();
        if text.contains(FIRST_STEPS) {
            known.extend(FIRST_VARIABLES.map(str::to_owned));
        }
        for block in every_block(&text) {
            if !matches!(&*block.language, "sh" | "console") {
                continue;
            }
            let (used, set) = variables(&block.text);
            known.extend(set);
            for variable in used {
                assert!(
                    known.contains(&variable),
                    "{name}: ${variable} in\n{}",
                    block.text
                );
            }
        }
    }
}

#[test]
fn lines_are_compared_with_a_sign_for_any_text() {
    for (expected, printed, is) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("…", "", true),
        ("x … y", "x 1 2 y", true),
        ("x … y", "x 1 2 z", false),
        ("a…b…c", "a-b-b-c", true),
        ("a…b…c", "a-c", false),
    ] {
        assert_eq!(is_like(expected, printed), is, "{expected} {printed}");
    }
    assert_eq!(missing("a\n\nc", "a\r\nb\nc\n"), None);
    assert_eq!(missing("c\na", "a\nb\nc\n"), Some("a"));
}
