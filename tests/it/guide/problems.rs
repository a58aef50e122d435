//! The table of the problems that the status lists.
//!
//! **Invariant**: each kind of sentence that the code makes stands in one row, and each row is a sentence of the code.

use super::{code, read, root};

/// Where sentences are: a file, a function if not all of the file is meant, and what stands before each.
const SENTENCES: [(&str, &str, &str); 17] = [
    ("ingest/gate.rs", "pub fn check(", "{ ("),
    ("settings/routing_gaps.rs", "", "sentences.push(format!("),
    ("daemon/reload.rs", "", "let problem = format!("),
    ("repair/report.rs", "", "vec![format!("),
    ("repair/report.rs", "", "problems.push(format!("),
    ("operate/status.rs", "", "problems.push(format!("),
    ("operate/status/sink.rs", "", "problems.push(format!("),
    ("operate/cluster.rs", "fn of_cluster(", "push(format!("),
    ("operate/certificates.rs", "fn problem(", "Some(format!("),
    (
        "operate/limits.rs",
        "fn used_up(",
        "let sentence = format!(",
    ),
    ("operate/limits.rs", "fn fullness(", "Some(format!("),
    ("operate/unreadable.rs", "", "let sentence = format!("),
    ("operate/condition/sink.rs", "fn why_kept(", "format!("),
    ("operate/screens.rs", "fn problem(", "format!("),
    ("observe/lines.rs", "fn problem(&self)", "format!("),
    ("operate/error.rs", "", "const CRASHED: &str ="),
    ("catalog/sink.rs", "pub fn shadowed(", "format!("),
];

/// Sentences around others of these.
const FRAMES: [&str; 4] = [
    "…; nothing expires meanwhile",
    "…; the damaged files are kept in the data directory as",
    "sink …: …",
    "sink …: …",
];

/// So much of a sentence stands in its row.
const SHARED_CHARS_MIN: usize = 16;

/// Every sentence, with `…` for what differs.
fn sentences() -> Vec<String> {
    let mut sentences = Vec::new();
    for (file, begin, before) in SENTENCES {
        let code = code(&root().join("src").join(file));
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        // However the formatter breaks a call into lines.
        let code = code.replace("( ", "(");
        let (_, mut code) = code.split_once(begin).expect("the mark");
        if !begin.is_empty() {
            code = code.split("///").next().unwrap_or_default();
        }
        let found = code.split(before).skip(1);
        let found: Vec<&str> = found
            .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
            .collect();
        assert!(!found.is_empty(), "{file}: {before}");
        sentences.extend(found.into_iter().map(|text| dotted(text, "{", "}")));
    }
    sentences
}

/// With `…` in place of what stands between two marks.
fn dotted(text: &str, begin: &str, end: &str) -> String {
    let mut parts = text.split(begin);
    let mut dotted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        dotted.push('…');
        dotted.push_str(part.split_once(end).map_or("", |(_, rest)| rest));
    }
    dotted
}

/// What the rows of the table begin with, with `…` for numbers.
fn rows() -> Vec<String> {
    let page = read("src/guide/troubleshoot.md");
    let (_, section) = page
        .split_once("\n## Problems that the status lists\n")
        .expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.skip(1).filter_map(|row| row.split(" | ").next());
    cells.map(without_numbers).collect()
}

fn without_numbers(cell: &str) -> String {
    let mut row = String::new();
    for character in cell.chars() {
        match character.is_ascii_digit() {
            true if row.ends_with('…') => {}
            true => row.push('…'),
            false => row.push(character),
        }
    }
    row
}

/// The length of the longest text that stands in both.
fn shared_chars(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut longest = 0;
    let mut before = vec![0; other.len() + 1];
    for a in one.chars() {
        let mut now = vec![0; other.len() + 1];
        for (at, b) in other.iter().enumerate() {
            if a == *b {
                now[at + 1] = before[at] + 1;
                longest = longest.max(now[at + 1]);
            }
        }
        before = now;
    }
    longest
}

#[test]
fn the_guide_has_a_row_for_every_problem_and_no_other() {
    let mut sentences = sentences();
    for frame in FRAMES {
        let place = sentences.iter().position(|text| text.starts_with(frame));
        sentences.remove(place.unwrap_or_else(|| panic!("{frame}: {sentences:#?}")));
    }
    let rows = rows();
    let mut free: Vec<&String> = rows.iter().collect();
    for sentence in &sentences {
        let own = rows.iter().max_by_key(|row| shared_chars(row, sentence));
        let own = own.expect("a row");
        assert!(
            shared_chars(own, sentence) >= SHARED_CHARS_MIN,
            "no row says: {sentence}"
        );
        let place = free.iter().position(|row| *row == own);
        let place = place.unwrap_or_else(|| panic!("the row {own:?} is of another: {sentence}"));
        free.remove(place);
    }
    assert!(free.is_empty(), "no sentence is of these rows: {free:#?}");
}
