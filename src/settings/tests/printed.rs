//! `config/default.toml` and the tables of the guide say what the rows say: they are printed from them.
//!
//! `HEADGATE_PRINT=1 cargo test --lib printed` writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::super::record::{Field, Shape};
use super::super::schema::ROOT;

const COLUMNS: usize = 120;
const GUIDE: &str = "src/guide/configure.md";
/// The tables of the guide by their headings, and what is in them.
const TABLES: &[(&str, &[&str])] = &[
    ("server and admin", &["server", "admin"]),
    ("storage", &["storage"]),
    ("cluster", &["cluster"]),
    ("limits", &["limits"]),
    ("live", &["live"]),
    ("runtime, system and log", &["runtime", "system", "log"]),
    ("telemetry", &["telemetry"]),
    ("plugins and pool", &["plugins", "pool"]),
    ("problems", &["problems"]),
    (
        "streams, connectors, read keys",
        &["streams", "connectors", "read_keys"],
    ),
    ("signing keys", &[VERIFY]),
    ("sinks", &["sinks"]),
];
/// It has a table of its own.
const VERIFY: &str = "connectors.keys.verify";

/// Compares a file with what is printed, or writes it.
fn compare(file: &str, print: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let found = fs::read_to_string(&path).expect("a file");
    let printed = print(&found);
    if std::env::var_os("HEADGATE_PRINT").is_some() {
        fs::write(&path, printed).expect("it can be written");
        return;
    }
    let different = found.lines().zip(printed.lines()).find(|(a, b)| a != b);
    assert!(
        found == printed,
        "{file} does not say what the rows say: HEADGATE_PRINT=1 cargo test --lib printed writes it. {different:?}"
    );
}

#[test]
fn default_toml_is_printed_from_the_rows() {
    compare("config/default.toml", |found| {
        let first = format!("# {}\n[{}]\n", ROOT[0].about(), ROOT[0].name);
        let (head, _) = found.split_once(&first).expect("the first section");
        let mut printed = head.trim_end().to_owned();
        for field in ROOT {
            section(&mut printed, "", field.name, field);
        }
        printed.push('\n');
        printed
    });
}

/// A section, a list of tables, or a table inside of one. `mark` comments out what is an example.
fn section(text: &mut String, mark: &str, path: &str, field: &Field) {
    let is_list = matches!(field.shape, Shape::Tables(_));
    let (Shape::Table(fields) | Shape::Tables(&super::super::Element { fields, .. })) = field.shape
    else {
        return;
    };
    let around = mark;
    let mark = if is_list { "# " } else { mark };
    // It has nothing of its own.
    if field.name != "telemetry" {
        text.push('\n');
        text.push_str(around.trim_end());
        comment(text, mark, field.about());
        match is_list {
            true => _ = write!(text, "\n# [[{path}]]"),
            false => _ = write!(text, "\n{mark}[{path}]"),
        }
    }
    let (inner, plain): (Vec<&Field>, Vec<&Field>) =
        fields.iter().partition(|field| is_section(field));
    for field in plain {
        line(text, mark, field);
    }
    for field in inner {
        let path = format!("{path}.{}", field.name);
        if path == VERIFY {
            let text_of_key =
                "\n#\n# [[connectors.keys]]\n# name = \"signed\"\n# stream = \"orders\"";
            text.push_str(text_of_key);
        }
        section(text, mark, &path, field);
    }
}

/// Whether its fields are lines of their own.
fn is_section(field: &Field) -> bool {
    matches!(field.shape, Shape::Table(_) | Shape::Tables(_)) && field.example.is_empty()
}

fn comment(text: &mut String, mark: &str, sentence: &str) {
    let start = format!("{mark}#");
    let mut line = start.clone();
    for word in sentence.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            _ = write!(text, "\n{line}");
            line.clone_from(&start);
        }
        _ = write!(line, " {word}");
    }
    _ = write!(text, "\n{line}");
}

fn line(text: &mut String, mark: &str, field: &Field) {
    comment(text, mark, field.about());
    let default = (field.default)();
    let is_example =
        !field.example.is_empty() && (default.is_null() || field.required || is_empty(&default));
    let value = match is_example {
        true => field.example.to_owned(),
        false => toml(&default),
    };
    let mark = match (mark, field.alternative, is_example) {
        ("", ..) if is_example => "# ",
        ("# ", true, _) => "# # ",
        (mark, ..) => mark,
    };
    _ = write!(text, "\n{mark}{} = {value}", field.name);
}

/// An empty list or table is shown by an example.
fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|it| it.is_empty())
}

fn toml(value: &Value) -> String {
    match value {
        Value::Number(number) => grouped(&number.to_string(), '_'),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        value => value.to_string(),
    }
}

fn grouped(digits: &str, mark: char) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            text.push(mark);
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_tables_of_the_guide_are_printed_from_the_rows() {
    compare(GUIDE, |found| {
        let mut page = found.to_owned();
        for (heading, paths) in TABLES {
            let title = format!("\n### {heading}\n");
            let begin = page.find(&title).expect("a heading");
            let start = begin + page[begin..].find("\n|---|---|---|\n").expect("a table") + 15;
            let end = start + page[start..].find("\n\n").expect("its end") + 1;
            let mut rows = String::new();
            for path in *paths {
                guide(&mut rows, path, find(path));
            }
            page.replace_range(start..end, &rows);
        }
        page
    });
}

fn find(path: &str) -> &'static Field {
    let mut fields = ROOT;
    let mut found = None;
    for name in path.split('.') {
        let field = fields.iter().find(|field| field.name == name);
        let field = field.expect("a field");
        fields = inside(field).unwrap_or_default();
        found = Some(field);
    }
    found.expect("a path")
}

fn inside(field: &Field) -> Option<&'static [Field]> {
    match field.shape {
        Shape::Table(fields) => Some(fields),
        Shape::Tables(element) => Some(element.fields),
        _ => None,
    }
}

fn guide(rows: &mut String, path: &str, field: &Field) {
    for field in inside(field).unwrap_or_default() {
        let path = format!("{path}.{}", field.name);
        if path == VERIFY {
            continue;
        }
        if is_section(field) {
            guide(rows, &path, field);
            continue;
        }
        let space = if field.guide.is_empty() { "" } else { " " };
        let (about, more) = (field.about(), field.guide);
        _ = writeln!(
            rows,
            "| `{path}` |{} | {about}{space}{more} |",
            usual(field)
        );
    }
}

/// The default for people, after a space if there is one.
fn usual(field: &Field) -> String {
    let usual = default_of(field);
    let space = if usual.is_empty() { "" } else { " " };
    format!("{space}{usual}")
}

fn default_of(field: &Field) -> String {
    let default = (field.default)();
    match &default {
        _ if !field.usual.is_empty() => field.usual.to_owned(),
        _ if field.required => "required".to_owned(),
        Value::Null => field.none_word.to_owned(),
        Value::Number(number) => match number.as_u64().unwrap_or_default() {
            number if field.name.contains("bytes") && number >= 1 << 20 => {
                let (size, unit) = match number >> 30 {
                    0 => (number >> 20, "MiB"),
                    size => (size, "GiB"),
                };
                format!("{size} {unit}")
            }
            number => number.to_string(),
        },
        Value::String(text) => format!("`{text}`"),
        value => format!("`{}`", toml(value)),
    }
}

#[test]
fn a_default_is_null_where_the_row_says_what_null_means() {
    fn check(path: &str, fields: &[Field]) {
        for field in fields {
            let path = format!("{path}.{}", field.name);
            let is_null = (field.default)().is_null();
            assert_eq!(is_null, !field.none.is_empty(), "{path}");
            assert!(
                !field.none_word.is_empty() || field.inherits.is_empty(),
                "{path}"
            );
            assert!(field.about().ends_with('.'), "{path}");
            if let Some(fields) = inside(field) {
                check(&path, fields);
            }
        }
    }
    check("", ROOT);
}
