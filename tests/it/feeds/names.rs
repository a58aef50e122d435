//! Any name and any value: what comes is well-formed, and nothing is lost. `HEADGATE_SEED` repeats a run.

use std::process::Command;

use serde_json::{Map, Value};

use super::{feed, scores, send};
use crate::app::Random;
use crate::faults::number;
use crate::process::skipped;
use crate::program::{BUILD_MAX, output_within};

/// What names and values are made of: all that a format could trip over.
const PIECES: [&str; 40] = [
    "a",
    "Z",
    "0",
    "9",
    "_",
    "-",
    ".",
    ":",
    " ",
    "<",
    ">",
    "&",
    "\"",
    "'",
    "/",
    "\\",
    "=",
    "]]>",
    "<!--",
    "\u{0}",
    "\u{1}",
    "\t",
    "\n",
    "\r",
    "\u{7f}",
    "\u{85}",
    "é",
    "ß",
    "Ω",
    "ж",
    "م",
    "日",
    "한",
    "⚽",
    "\u{301}",
    "\u{200d}",
    "\u{2028}",
    "\u{feff}",
    "\u{fffe}",
    "\u{10ffff}",
];

fn text(random: &mut Random, pieces_max: u64) -> String {
    let count = random.within(0..pieces_max + 1);
    (0..count).map(|_| *random.one_of(&PIECES)).collect()
}

/// Reads XML as its own parser does: prints how many items there are, and how many elements are in each.
const READ: &str = "import sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.stdin.buffer.read())
items = root.findall('./item') or root.findall('./channel/item')
print(len(items), *sorted({len(item) for item in items}))";

fn read_xml(xml: &[u8]) -> Option<String> {
    let mut python = Command::new("python3");
    let output = output_within(BUILD_MAX, python.args(["-c", READ]), xml).ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(xml)
    );
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_format_can_be_read_whatever_fields_are_called() {
    let seed = number("HEADGATE_SEED").unwrap_or(1);
    let mut random = Random(seed);
    for round in 0..6 {
        let app = scores().start().await;
        let mut items = Vec::new();
        for item in 0..20 {
            let mut fields = Map::new();
            fields.insert("id".to_owned(), Value::from(item));
            for _ in 0..random.within(1..6) {
                fields.insert(text(&mut random, 6), Value::from(text(&mut random, 12)));
            }
            items.push(Value::from(fields));
        }
        let told = format!("HEADGATE_SEED={seed}, round {round}");
        send(&app, &Value::from(items).to_string()).await;
        let rows = feed(&app, "scores.json").await;
        let rows: Value =
            serde_json::from_slice(&rows.body).unwrap_or_else(|error| panic!("{told}: {error}"));
        let rows = rows.as_array().expect("rows");
        let columns = rows[0].as_object().expect("an object").len();
        assert_eq!(rows.len(), 20, "{told}");
        let same = |row: &Value| row.as_object().is_some_and(|row| row.len() == columns);
        assert!(rows.iter().all(same), "{told}: a name came twice");
        for format in ["csv", "tsv"] {
            let text = feed(&app, &format!("scores.{format}")).await.text();
            assert_eq!(text.matches('\n').count(), 21, "{told}: {text:?}");
            assert!(!text.contains('\r'), "{told}: {text:?}");
        }
        for (query, elements) in [
            ("scores.xml", Some(columns - 1)),
            ("scores.xml?names=.", Some(columns - 1)),
            ("scores.xml?names=nested", None),
            ("scores.rss?image=id&link=id", Some(6)),
        ] {
            let xml = feed(&app, query).await;
            let Some(read) = read_xml(&xml.body) else {
                assert!(std::env::var_os("CI").is_none(), "there is no python3");
                return skipped("feeds::names", "there is no python3");
            };
            match elements {
                Some(elements) => assert_eq!(read, format!("20 {elements}"), "{told}: {query}"),
                None => assert!(read.starts_with("20 "), "{told}: {query}: {read}"),
            }
        }
    }
}
