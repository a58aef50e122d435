//! One source of settings as a tree that knows its lines, whatever it was read from.
//!
//! The settings are built of TOML files and of environment variables, presets of their files.
//!
//! **Invariant**: reading is total: every text gives a tree or a [`Fault`] with its place.

use std::ops::Range;

use toml_edit::{Item, TableLike, Value};

/// A value and the line on which it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub data: Data,
    pub line: Option<usize>,
}

/// What a source may say.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// A TOML date or time, as text.
    Time(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// Something that the checker refused: it is there, and has no value.
    Refused,
}

/// A key of a table with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    /// The line of the key, which may not be the line of its value.
    pub line: Option<usize>,
    pub node: Node,
}

/// Why a text is not TOML.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
}

impl Node {
    pub fn empty_table(line: Option<usize>) -> Self {
        Node {
            data: Data::Table(Vec::new()),
            line,
        }
    }

    /// What stands for a value that was refused.
    pub fn refused(line: Option<usize>) -> Self {
        Node {
            data: Data::Refused,
            line,
        }
    }

    /// A value without a place, as environment variables give it.
    pub fn bare(data: Data) -> Self {
        Node { data, line: None }
    }

    /// The keys of a table, nothing for other values.
    pub fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Table(entries) => entries,
            _ => &[],
        }
    }

    /// A key of a table.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let mut entries = self.entries().iter();
        entries
            .find(|entry| entry.name == name)
            .map(|entry| &entry.node)
    }

    /// The name of an element of a list, if it has one that can be used.
    pub fn name(&self) -> Option<&str> {
        match &self.get("name")?.data {
            Data::Text(name) => Some(name),
            _ => None,
        }
    }

    /// For messages: what was found. Never the text of a string, which may be a secret.
    pub fn found(&self) -> String {
        match &self.data {
            Data::Text(_) => "a string".to_owned(),
            Data::Integer(number) => format!("the integer {number}"),
            Data::Float(number) => format!("the number {number}"),
            Data::Boolean(value) => format!("the boolean {value}"),
            Data::Time(_) => "a date or time".to_owned(),
            Data::List(_) => "a list".to_owned(),
            Data::Table(_) => "a table".to_owned(),
            Data::Refused => "a value that was refused".to_owned(),
        }
    }
}

/// Reads a TOML document.
pub fn parse(text: &str) -> Result<Node, Fault> {
    let lines = Lines::of(text);
    match toml_edit::Document::parse(text) {
        Ok(document) => Ok(table(document.as_table(), Some(1), &lines)),
        Err(error) => Err(fault(&error, text, &lines)),
    }
}

/// Reads one TOML value, as it stands to the right of `=`.
pub fn parse_value(text: &str) -> Result<Data, Fault> {
    let lines = Lines::of(text);
    match text.trim().parse::<Value>() {
        Ok(parsed) => {
            let mut data = value(&parsed, None, &lines).data;
            forget_lines(&mut data);
            Ok(data)
        }
        Err(error) => Err(Fault {
            line: None,
            column: None,
            ..fault(&error, text, &lines)
        }),
    }
}

fn fault(error: &toml_edit::TomlError, text: &str, lines: &Lines) -> Fault {
    let start = error.span().map(|span| span.start.min(text.len()));
    let line = start.map(|offset| lines.line_of(offset));
    let column = start.map(|offset| {
        let before = &text.as_bytes()[..offset];
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1
    });
    Fault {
        line,
        column,
        message: format!("not valid TOML: {}", error.message()),
    }
}

fn table(source: &dyn TableLike, line: Option<usize>, lines: &Lines) -> Node {
    let entries = source
        .iter()
        .filter(|(_, item)| !item.is_none())
        .map(|(name, item)| {
            let key_line = lines.at(source.key(name).and_then(toml_edit::Key::span));
            let own_line = lines.at(item.span()).or(key_line).or(line);
            Entry {
                name: name.to_owned(),
                line: key_line.or(own_line),
                node: node(item, own_line, lines),
            }
        })
        .collect();
    Node {
        data: Data::Table(entries),
        line,
    }
}

fn node(item: &Item, line: Option<usize>, lines: &Lines) -> Node {
    match item {
        Item::None => Node::empty_table(line),
        Item::Value(source) => value(source, line, lines),
        Item::Table(source) => table(source, line, lines),
        Item::ArrayOfTables(tables) => Node {
            data: Data::List(
                tables
                    .iter()
                    .map(|source| table(source, lines.at(source.span()).or(line), lines))
                    .collect(),
            ),
            line,
        },
    }
}

fn value(source: &Value, line: Option<usize>, lines: &Lines) -> Node {
    let line = lines.at(source.span()).or(line);
    let data = match source {
        Value::String(text) => Data::Text(text.value().clone()),
        Value::Integer(number) => Data::Integer(*number.value()),
        Value::Float(number) => Data::Float(*number.value()),
        Value::Boolean(value) => Data::Boolean(*value.value()),
        Value::Datetime(time) => Data::Time(time.value().to_string()),
        Value::Array(values) => Data::List(
            values
                .iter()
                .map(|element| value(element, line, lines))
                .collect(),
        ),
        Value::InlineTable(source) => return table(source, line, lines),
    };
    Node { data, line }
}

/// Lines within a variable would be mistaken for lines of a file.
fn forget_lines(data: &mut Data) {
    let forget = |node: &mut Node| {
        node.line = None;
        forget_lines(&mut node.data);
    };
    match data {
        Data::List(nodes) => nodes.iter_mut().for_each(forget),
        Data::Table(entries) => entries.iter_mut().for_each(|entry| {
            entry.line = None;
            forget(&mut entry.node);
        }),
        _ => {}
    }
}

/// Where each line of a text starts.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Lines(
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
        )
    }

    fn at(&self, span: Option<Range<usize>>) -> Option<usize> {
        span.map(|span| self.line_of(span.start))
    }

    /// Counted from 1.
    fn line_of(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}
