//! `select`: lines with conditions, with fields, with a template and with the place where that stands; then an item.
//!
//! What is printed is read as the same. Conditions together are those alone; numbers compare as whole numbers do. Chosen
//! fields are those that plain JSON has. What a template makes is read by the parsers of its place, which find the value
//! and nothing else.

use std::collections::{BTreeMap, HashSet};

use item::flatten::{FlattenLimits, flatten};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

use select::{Fields, Record, Scope, Source, Template, TemplatePlace, Where};

use crate::request::line;

/// Digits with which numbers are compared in another way.
const DIGITS_MAX: usize = 15;

/// Reads a text of each kind, and what it makes of the item.
pub(super) fn select(input: &[u8]) {
    let (conditions, rest) = line(input);
    let (fields, rest) = line(rest);
    let (template, rest) = line(rest);
    let (place, item) = line(rest);
    let limits = FlattenLimits {
        flattened_bytes_max: 1 << 20,
        item_bytes_max: 1 << 20,
    };
    let items = flatten(item, None, limits).ok();
    let item = items.as_ref().and_then(|items| items.iter().next());
    let record = Record {
        key: "k/1",
        stream: "s",
        updated_at: "2026-11-24T09:00:00Z",
        received_at: "2026-11-24T09:00:00Z",
        request_id: "r1",
        position: 1,
        fields: item.map_or("{}", |item| item.fields),
        count: 1,
        items: "[{}]",
    };
    for scope in [Scope::FEED, Scope::SINK] {
        holds(&String::from_utf8_lossy(conditions), scope, &record);
        chosen(&String::from_utf8_lossy(fields), scope, &record);
    }
    let template = String::from_utf8_lossy(template);
    printed(&template);
    filled(&template, place, &record);
    values(&record);
}

fn holds(text: &str, scope: Scope, record: &Record<'_>) {
    let conditions = match Where::parse(text, scope) {
        Ok(conditions) => conditions,
        Err(error) => return placed(text, error.character),
    };
    let printed = conditions.to_string();
    assert_eq!(Where::parse(&printed, scope).as_ref(), Ok(&conditions));
    let canonical = Where::parse(&conditions.canonical(), scope).expect("it is read");
    assert_eq!(canonical.canonical(), conditions.canonical());
    let holds = conditions.holds(record);
    assert_eq!(canonical.holds(record), holds);
    let alone = Parts::of(&printed).map(|one| {
        let holds = |text: &str| Where::parse(text, scope).expect("it is read").holds(record);
        let other = match one.strip_prefix('!') {
            Some(other) => other.to_owned(),
            None => format!("!{one}"),
        };
        assert_ne!(holds(one), holds(&other), "{one}");
        holds(one)
    });
    assert_eq!(alone.collect::<Vec<_>>().iter().all(|one| *one), holds);
    compared(record);
}

/// The parts of a printed list.
struct Parts<'a>(&'a str);

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> impl Iterator<Item = &'a str> {
        Self(text).filter(|part| !part.is_empty())
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let mut is_escaped = false;
        let is_end = |one: char| {
            let is_end = one == ',' && !is_escaped;
            is_escaped = one == '\\' && !is_escaped;
            is_end
        };
        let (part, rest) = match self.0.find(is_end) {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (self.0, ""),
        };
        self.0 = rest;
        Some(part)
    }
}

/// An error is in the text, or one behind it.
fn placed(text: &str, character: usize) {
    assert!((1..=text.chars().count() + 1).contains(&character));
}

/// Numbers that are short enough compare as whole numbers of so many places do.
fn compared(record: &Record<'_>) {
    let numbers: Vec<(String, i128)> = item::members(record.fields)
        .filter_map(|(_, json)| Some((json.to_owned(), whole(json)?)))
        .take(8)
        .collect();
    for (one, value) in &numbers {
        let fields = format!("{{\"n\":{one}}}");
        let record = Record {
            fields: &fields,
            ..Record::default()
        };
        for (other, than) in &numbers {
            for (sign, expected) in [
                (">", value > than),
                (">=", value >= than),
                ("<", value < than),
                ("<=", value <= than),
            ] {
                let text = format!("n{sign}{other}");
                let holds = Where::parse(&text, Scope::SINK).expect("a number");
                assert_eq!(holds.holds(&record), expected, "{one} {sign} {other}");
            }
        }
    }
}

/// A number without an exponent, in units of 10^-15.
fn whole(json: &str) -> Option<i128> {
    let (unsigned, sign) = match json.strip_prefix('-') {
        Some(unsigned) => (unsigned, -1),
        None => (json, 1),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = whole.len() <= DIGITS_MAX && fraction.len() <= DIGITS_MAX;
    if whole.is_empty() || !is_short || !digits(whole) || !digits(fraction) {
        return None;
    }
    let all = format!("{whole}{fraction:0<DIGITS_MAX$}");
    Some(sign * all.parse::<i128>().ok()?)
}

fn chosen(text: &str, scope: Scope, record: &Record<'_>) {
    let fields = match Fields::parse(text, scope) {
        Ok(fields) => fields,
        Err(error) => return placed(text, error.character),
    };
    assert_eq!(
        Fields::parse(&fields.to_string(), scope).as_ref(),
        Ok(&fields)
    );
    if scope == Scope::FEED {
        return;
    }
    let mut out = String::new();
    fields.chooser().choose_into(record, &mut out);
    let chosen = object(&out);
    let names: Vec<&str> = item::members(&out).map(|(name, _)| name).collect();
    let distinct: HashSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{out}");
    let all = object(record.fields);
    if fields.leaves_out() || fields.is_empty() {
        let mut chosen = chosen.iter();
        assert!(chosen.all(|(name, value)| all.get(name) == Some(value)));
    } else {
        let own = ["k/1", "s", "2026-11-24T09:00:00Z", "r1"].map(|own| format!("\"{own}\""));
        let known: HashSet<&str> = all.values().copied().collect();
        let mut values = chosen.values();
        assert!(values.all(|value| own.iter().any(|own| own == value) || known.contains(value)));
    }
}

/// The members of an object: names, and the texts of their values.
fn object(json: &str) -> BTreeMap<String, &str> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).expect("an object");
    let texts = members.into_iter();
    texts.map(|(name, value)| (name, value.get())).collect()
}

fn printed(text: &str) {
    for (place, scope) in [
        (TemplatePlace::Plain, Scope::TEMPLATE),
        (TemplatePlace::Feed, Scope::FEED),
    ] {
        let read = |text: &str| Template::parse("text", text, place.clone(), scope);
        match read(text) {
            Ok(template) => assert_eq!(read(&template.to_string()), Ok(template)),
            Err(error) => placed(text, error.character),
        }
    }
}

/// What a template of the input makes in its place.
fn filled(text: &str, place: &[u8], record: &Record<'_>) {
    let parse = |place| Template::parse("text", text, place, Scope::TEMPLATE);
    let is_control = |one: char| one.is_control() && one != '\t';
    match place {
        b"url" => {
            let Ok(template) = parse(TemplatePlace::Url) else {
                return;
            };
            if let Ok(url) = template.fill(record) {
                let (_, rest) = url.split_once("://").expect("a scheme");
                let end = rest.find(['/', '?', '{']).unwrap_or(rest.len());
                let authority = rest[..end].to_ascii_lowercase();
                assert!(text.to_ascii_lowercase().contains(&authority), "{url}");
                assert!(!url.contains(|one: char| is_control(one) || one == ' ' || one == '#'));
            }
        }
        b"header" => {
            let Ok(template) = parse(TemplatePlace::Header) else {
                return;
            };
            assert!(
                template
                    .fill(record)
                    .is_ok_and(|header| !header.contains(is_control))
                    || template.fill(record).is_err()
            );
        }
        b"json" => {
            let Ok(template) = Template::parse_json("body", text, Scope::TEMPLATE) else {
                return;
            };
            is_json(&template, record);
        }
        b"json text" => {
            let Ok(template) = Template::parse_json_text("body", text, Scope::TEMPLATE) else {
                return;
            };
            is_json(&template, record);
        }
        b"topic" => {
            let Ok(template) = parse(TemplatePlace::Topic) else {
                return;
            };
            if let Ok(topic) = template.fill(record) {
                assert!(!topic.contains(|one: char| matches!(one, '+' | '#') || one.is_control()));
            }
        }
        _ => {
            let end = ";".to_owned();
            let Ok(template) = parse(TemplatePlace::Line { end }) else {
                return;
            };
            let _ = template.fill(record);
        }
    }
}

fn is_json(template: &Template, record: &Record<'_>) {
    if let Ok(filled) = template.fill(record) {
        let read = serde_json::from_str::<serde::de::IgnoredAny>(&filled);
        assert!(read.is_ok(), "{filled}");
    }
}

/// The value of each field, in each place, is found there by another parser.
fn values(record: &Record<'_>) {
    for (name, json) in item::members(record.fields).take(8) {
        let source = Source::Field(name.to_owned());
        let value = record.value(&source);
        let text = value.text();
        let fields = format!("{{\"v\":{json}}}");
        let record = Record {
            fields: &fields,
            ..Record::default()
        };
        let fill = |text: &str, place| {
            let template = Template::parse("text", text, place, Scope::TEMPLATE);
            template.expect("a template").fill(&record)
        };
        if let Ok(url) = fill("http://h/a/{v}?q={v}", TemplatePlace::Url) {
            let rest = url.strip_prefix("http://h/a/").expect("the path");
            let (path, query) = rest.split_once("?q=").expect("the query");
            for part in [path, query] {
                assert!(!part.contains(['/', '?', '&', '=', '+']), "{url}");
                let decoded = percent_decode_str(part).decode_utf8();
                assert_eq!(decoded.expect("UTF-8"), text);
            }
        }
        let body = Template::parse_json("body", r#"["<{v}>"]"#, Scope::TEMPLATE);
        let body = body.expect("a body").fill(&record).expect("JSON");
        let read: Vec<String> = serde_json::from_str(&body).expect("a list");
        assert_eq!(read, [format!("<{text}>")]);
        let form = fill("a={v}&b=1", TemplatePlace::Form).expect("a form");
        let pairs: Vec<_> = form_urlencoded::parse(form.as_bytes()).collect();
        assert_eq!(pairs, [("a".into(), text.into()), ("b".into(), "1".into())]);
        let xml = fill("<a>{v}</a>", TemplatePlace::Xml).expect("XML");
        let inside = xml
            .strip_prefix("<a>")
            .and_then(|xml| xml.strip_suffix("</a>"));
        let inside = inside.expect("the element");
        assert!(!inside.contains(['<', '>', '"', '\'']), "{xml}");
    }
}
