//! The table of the guide is printed from the rows.
//!
//! `HEADGATE_PRINT=1 cargo test -p headgate-observe printed` writes it.

use std::fs;
use std::path::Path;

use super::*;

const GUIDE: &str = "src/guide/watch.md";
const HEAD: &str = "\n| metric | type | labels | unit | |\n|---|---|---|---|---|\n";

/// The name on `/metrics`.
fn name(row: &MetricRow) -> String {
    let total = if row.kind.as_str() == "counter" {
        "_total"
    } else {
        ""
    };
    format!("headgate_{}{total}", row.name)
}

fn labels(row: &MetricRow) -> String {
    let shown = row.labels.iter().map(|(label, values)| {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        let colon = if values.is_empty() { "" } else { ": " };
        format!("`{label}`{colon}{}", values.join(", "))
    });
    let shown: Vec<String> = shown.collect();
    let is_long = row.labels.iter().any(|(_, values)| !values.is_empty());
    match shown.len() {
        0 => "none".to_owned(),
        _ => shown.join(if is_long { "; " } else { ", " }),
    }
}

fn line(row: &MetricRow) -> String {
    let space = if row.guide.is_empty() { "" } else { " " };
    format!(
        "| `{}` | {} | {} | {} | {}{space}{} |\n",
        name(row),
        row.kind.as_str(),
        labels(row),
        row.unit,
        row.about(),
        row.guide
    )
}

#[test]
fn the_table_of_the_guide_is_printed_from_the_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(GUIDE);
    let found = fs::read_to_string(&path).expect("the guide");
    let start = found.find(HEAD).expect("a table") + HEAD.len();
    let end = start + found[start..].find("\n\n").expect("its end") + 1;
    // The page chooses the order. A metric that it lacks comes last.
    let place = |row: &MetricRow| {
        let lines = found[start..end].lines();
        let first = format!("| `{}` |", name(row));
        let mut lines = lines
            .enumerate()
            .filter(|(_, line)| line.starts_with(&first));
        lines.next().map_or(usize::MAX, |(index, _)| index)
    };
    let mut rows: Vec<&MetricRow> = Metrics::rows().collect();
    rows.sort_by_key(|row| place(row));
    let mut table = String::new();
    for row in rows {
        table.push_str(&line(row));
    }
    let mut printed = found.clone();
    printed.replace_range(start..end, &table);
    if std::env::var_os("HEADGATE_PRINT").is_some() {
        fs::write(&path, printed).expect("it can be written");
        return;
    }
    let different = found.lines().zip(printed.lines()).find(|(a, b)| a != b);
    assert!(
        found == printed,
        "{GUIDE} does not say what the rows say: HEADGATE_PRINT=1 cargo test -p headgate-observe printed writes it. {different:?}"
    );
}

#[test]
fn every_row_is_a_sentence_with_a_unit_and_the_help_text_is_the_sentence() {
    for row in Metrics::rows() {
        assert!(row.about().ends_with('.'), "{}", row.name);
        assert!(!row.unit.is_empty(), "{}", row.name);
    }
    let text = Metrics::new().render();
    let help = "# HELP headgate_panics Requests whose handler panicked: a defect.\n";
    assert!(text.contains(help), "{text}");
}
