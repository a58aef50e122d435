//! The words of texts that people read: pages, command line, API, problems, README and guide.

use std::path::{Path, PathBuf};

/// Where users meet them: the folders whose string literals they read.
const FOLDERS: [&str; 17] = [
    "api", "catalog", "cli", "client", "daemon", "delivery", "feed", "http", "ingest", "observe",
    "operate", "plugin", "repair", "settings", "table", "web", "webhook",
];
/// Words of a sentence.
const SENTENCE_WORDS_MAX: usize = 30;
/// Words that do not say what happens, each with what says it. Matched in lower case, between blanks and marks.
const FORBIDDEN: [(&str, &str); 47] = [
    ("afresh", "again, from the start"),
    ("anew", "again"),
    ("are told", "are notified, receive"),
    ("at the moment", "now"),
    ("audit trail", "audit log"),
    ("be told", "be notified, wait"),
    ("behaviour", "behavior"),
    ("by itself", "automatically, alone"),
    ("by themselves", "automatically, alone"),
    ("colour", "color"),
    ("come again", "are sent again, are retried"),
    ("comes again", "is sent again, is retried"),
    ("for good", "permanently; this cannot be undone"),
    ("gave up", "could not deliver, failed"),
    ("given up", "failed, ended, dead letters"),
    ("gives way", "is closed, is aborted"),
    ("goes on", "continues"),
    ("greeting", "challenge"),
    ("greets", "sends a challenge"),
    ("heard of", "received"),
    ("hears", "receives"),
    ("in that moment", "then"),
    ("is told", "is notified, receives"),
    ("learnt", "learned"),
    ("licence", "license"),
    ("likewise", "the noun again"),
    ("looked after", "maintained"),
    ("looked at", "checked, scanned"),
    ("looked through", "scanned, searched"),
    ("make room", "free disk space"),
    ("misspelt", "misspelled"),
    ("no room", "no free space"),
    ("of its own", "its own, a separate"),
    ("of this name", "such a …, with this name"),
    ("put aside", "quarantined"),
    ("says otherwise", "unless it is set"),
    ("set aside", "renamed"),
    ("so many", "a number"),
    ("stands in", "is in"),
    ("stranger", "unauthenticated client"),
    ("takes over", "inherits, accepts, stores"),
    ("wants a", "expects a, … is expected"),
    ("was told", "was notified, received"),
    ("were told", "were notified, received"),
    ("what became of", "status, result"),
    ("what there is", "the noun"),
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

/// Every text that people read, with its file and line.
fn texts() -> Vec<(PathBuf, usize, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    let mut code = Vec::new();
    for folder in FOLDERS {
        files(&root.join("src").join(folder), ".rs", &mut code);
    }
    for path in code {
        let text = std::fs::read_to_string(&path).expect("a text");
        texts.extend(literals(&text).map(|(line, text)| (path.clone(), line, text)));
    }
    let pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md"];
    let mut pages: Vec<PathBuf> = pages.map(|name| root.join(name)).into();
    files(&root.join("src/guide"), ".md", &mut pages);
    for path in pages {
        let text = std::fs::read_to_string(&path).expect("a text");
        texts.extend(prose(&text).map(|(line, text)| (path.clone(), line, text)));
    }
    assert!(texts.len() > 5_000, "only {} lines were read", texts.len());
    texts
}

#[test]
fn texts_have_the_words_of_the_field_and_short_sentences() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for (path, line, text) in texts() {
        let place = format!(
            "{}:{line}",
            path.strip_prefix(root).unwrap_or(&path).display()
        );
        let words = found(&text).map(|(word, say)| format!("{place}: `{word}`; write: {say}"));
        let sentences = too_long(&text).into_iter();
        let sentences = sentences.map(|sentence| format!("{place}: too long: {sentence}"));
        wrong.extend(words.chain(sentences));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sentences of a text that are too long. Code is no word, and a cell of a table ends a sentence.
fn too_long(text: &str) -> Vec<String> {
    let mut long = Vec::new();
    let mut sentence = Vec::new();
    for word in text.split_whitespace().chain(["."]) {
        let bare = word.trim_matches(|at: char| !at.is_alphanumeric());
        if bare.len() > 1 || bare == "a" {
            sentence.push(word);
        }
        if word.ends_with(['.', '?', '!', ':', '|']) {
            if sentence.len() > SENTENCE_WORDS_MAX {
                long.push(sentence.join(" "));
            }
            sentence.clear();
        }
    }
    long
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
    let words = "a word ".repeat(15);
    assert!(too_long(&format!("{words}. {words}`x`, `x` | {words}")).is_empty());
    assert_eq!(too_long(&format!("{words}, and {words}")).len(), 1);
}
