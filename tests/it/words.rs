//! The words of texts that people read: pages, command line, API, problems, README and guide.

use std::path::{Path, PathBuf};

/// Where users meet them: the folders whose string literals they read.
const FOLDERS: [&str; 6] = ["api", "cli", "client", "feed", "operate", "web"];
/// Words that do not say what happens, each with what says it. Matched in lower case, between blanks and marks.
const FORBIDDEN: [(&str, &str); 29] = [
    ("afresh", "again, from the start"),
    ("anew", "again"),
    ("at the moment", "now"),
    ("audit trail", "audit log"),
    ("for good", "permanently; this cannot be undone"),
    ("gave up", "could not deliver, failed"),
    ("given up", "failed, ended, dead letters"),
    ("gives way", "is closed, is aborted"),
    ("goes on", "continues"),
    ("greets", "sends a challenge"),
    ("greeting", "challenge"),
    ("hears", "receives"),
    ("in that moment", "then"),
    ("is told", "is notified, receives"),
    ("are told", "are notified, receive"),
    ("likewise", "the noun again"),
    ("looked after", "maintained"),
    ("looked at", "checked, scanned"),
    ("looked through", "scanned, searched"),
    ("make room", "free disk space"),
    ("misspelt", "misspelled"),
    ("no room", "no free space"),
    ("put aside", "quarantined"),
    ("set aside", "renamed"),
    ("says otherwise", "unless it is set"),
    ("so many", "a number"),
    ("of this name", "such a …, with this name"),
    ("what became of", "status, result"),
    ("whoever", "anyone who"),
];

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() && name != "tests" {
            files(&path, ending, found);
        } else if name.ends_with(ending) && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The string literals of each line of code, without those of unit tests.
fn literals(code: &str) -> impl Iterator<Item = (usize, String)> {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.map(|(number, line)| {
        let unescaped = line.replace("\\\\", "").replace("\\\"", "'");
        let quoted: Vec<&str> = unescaped.split('"').skip(1).step_by(2).collect();
        // Names of what is put in are no words.
        let quoted = quoted.join(" | ");
        let text = quoted
            .split('{')
            .map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
        (number + 1, text.collect::<Vec<_>>().join("x"))
    })
}

/// The prose of a page in Markdown: no blocks of code, and no code within lines.
fn prose(page: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    let lines = page.lines().enumerate();
    let lines = lines.filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    lines.map(|(number, line)| {
        let words = line.split('`').step_by(2);
        (number + 1, words.collect::<Vec<_>>().join("x"))
    })
}

/// The forbidden words of a text.
fn found(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let letters = |at: char| if at.is_alphanumeric() { at } else { ' ' };
    let lower: String = text.to_lowercase().chars().map(letters).collect();
    let lower = format!(
        " {} ",
        lower.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    let is_there = move |(word, _): &(&str, &str)| lower.contains(&format!(" {word} "));
    FORBIDDEN.into_iter().filter(is_there)
}

#[test]
fn texts_have_the_words_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<(PathBuf, usize, String)> = Vec::new();
    let mut code = Vec::new();
    for folder in FOLDERS {
        files(&root.join("src").join(folder), ".rs", &mut code);
    }
    for path in code {
        let text = std::fs::read_to_string(&path).expect("a text");
        texts.extend(literals(&text).map(|(line, text)| (path.clone(), line, text)));
    }
    let mut pages = vec![root.join("README.md"), root.join("SECURITY.md")];
    files(&root.join("src/guide"), ".md", &mut pages);
    for path in pages {
        let text = std::fs::read_to_string(&path).expect("a text");
        texts.extend(prose(&text).map(|(line, text)| (path.clone(), line, text)));
    }
    assert!(texts.len() > 5_000, "only {} lines were read", texts.len());
    let wrong: Vec<String> = (texts.iter())
        .flat_map(|(path, line, text)| {
            let path = path.strip_prefix(root).unwrap_or(path).display();
            found(text).map(move |(word, say)| format!("{path}:{line}: `{word}`; write: {say}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_finds_words_in_literals_and_in_prose_alone() {
    let code = "// whoever\nlet a = \"Whoever has \\\"it\\\"\"; // anew\nlet whoever = 1;\n#[cfg(test)]\nmod tests {}\n\"anew\"";
    let lines: Vec<usize> = literals(code)
        .filter(|(_, text)| found(text).next().is_some())
        .map(|(line, _)| line)
        .collect();
    assert_eq!(lines, [2]);
    let page = "It `goes on` on.\n```sh\nanew\n```\nIt is told.\n";
    let lines: Vec<usize> = prose(page)
        .filter(|(_, text)| found(text).next().is_some())
        .map(|(line, _)| line)
        .collect();
    assert_eq!(lines, [5]);
}
