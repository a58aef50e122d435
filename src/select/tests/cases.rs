//! The cases of `tests/fixtures/select.json`; its head says what each kind is.

use item::flatten::{FlattenLimits, flatten};
use serde_json::Value as Json;

use crate::{Fields, Own, Record, Scope, SyntaxError, Template, TemplatePlace, Where};

const CASES: &str = include_str!("../../../tests/fixtures/select.json");
/// Kinds that are not of this package, with how many cases there are.
const ELSEWHERE: [(&str, usize, &str); 1] = [("live", 13, "tests/it/live/filtered.rs")];

struct Case(Json);

impl Case {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn is(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or_default()
    }

    fn scope(&self) -> Scope {
        match (self.is("feeds"), self.text("own")) {
            (true, _) => Scope::FEED,
            (_, "none") => Scope::ANSWER,
            _ => Scope::SINK,
        }
    }

    fn place(&self) -> TemplatePlace {
        match self.text("place") {
            "feed" => TemplatePlace::Feed,
            "plain" => TemplatePlace::Plain,
            "payload" => TemplatePlace::Payload,
            "url" => TemplatePlace::Url,
            "header" => TemplatePlace::Header,
            "xml" => TemplatePlace::Xml,
            "form" => TemplatePlace::Form,
            "line" => TemplatePlace::Line {
                end: "\r\n".to_owned(),
            },
            "topic" => TemplatePlace::Topic,
            other => panic!("{}: the place {other}", self.text("name")),
        }
    }

    /// The item as it is stored.
    fn fields(&self) -> String {
        let limits = FlattenLimits {
            flattened_bytes_max: 1 << 20,
            item_bytes_max: 1 << 20,
        };
        let items = flatten(self.text("item").as_bytes(), None, limits).expect("an item");
        let item = items.iter().next().expect("one item");
        item.fields.to_owned()
    }

    fn record<'a>(&'a self, fields: &'a str) -> Record<'a> {
        Record {
            key: self.text("key"),
            stream: match self.text("stream") {
                "" => "s",
                stream => stream,
            },
            updated_at: "2026-11-24T09:00:00Z",
            received_at: "2026-11-24T09:00:00Z",
            request_id: "r1",
            position: 1,
            fields,
            ..Record::default()
        }
    }

    fn template(&self, setting: &str) -> Result<Template, SyntaxError> {
        let text = self.text("text");
        match self.text("place") {
            "json" => Template::parse_json(setting, text, Scope::TEMPLATE),
            "json text" => Template::parse_json_text(setting, text, Scope::TEMPLATE),
            "feed" => Template::parse(setting, text, TemplatePlace::Feed, Scope::FEED),
            _ => Template::parse(setting, text, self.place(), Scope::TEMPLATE),
        }
    }

    /// What is read and refused.
    fn error(&self) -> Result<(), SyntaxError> {
        let text = self.text("text");
        match self.text("what") {
            "where" => Where::parse(text, self.scope()).map(drop),
            "fields" if self.is("limit") => Fields::parse_limit(text, Scope::LIVE).map(drop),
            "fields" => Fields::parse(text, self.scope()).map(drop),
            "json" => Template::parse_json("body", text, Scope::TEMPLATE).map(drop),
            "json text" => Template::parse_json_text("body", text, Scope::TEMPLATE).map(drop),
            _ => self
                .template(&format!("config.{}", self.text("place")))
                .map(drop),
        }
    }

    /// What the case says it is, and what was found.
    fn both(&self) -> (Json, Json) {
        let text = self.text("text");
        let expected = self.0["expected"].clone();
        match self.text("kind") {
            "where" => {
                let (fields, conditions) = (self.fields(), Where::parse(text, self.scope()));
                let holds = conditions.expect("conditions").holds(&self.record(&fields));
                (expected, holds.into())
            }
            "removal" => {
                let conditions = Where::parse(text, Scope::SINK).expect("conditions");
                let record = self.record("{}");
                (
                    expected,
                    conditions.passes_removal(record.key, record.stream).into(),
                )
            }
            "fields" => {
                let fields = Fields::parse(text, Scope::SINK).expect("fields");
                let (item, mut out) = (self.fields(), String::new());
                fields.chooser().choose_into(&self.record(&item), &mut out);
                (expected, out.into())
            }
            "template" => self.filled(),
            "error" => {
                let error = self.error().expect_err("it is refused");
                let found = serde_json::json!([error.to_string(), error.character]);
                (serde_json::json!([expected, self.0["character"]]), found)
            }
            "print" => self.printed(),
            other => panic!("{}: the kind {other}", self.text("name")),
        }
    }

    fn filled(&self) -> (Json, Json) {
        let template = self.template("template").expect("a template");
        let fields = self.fields();
        match template.fill(&self.record(&fields)) {
            Ok(filled) if self.text("place").starts_with("json") => {
                let expected = compact(self.text("expected"));
                (expected.into(), compact(&filled).into())
            }
            Ok(filled) => (self.0["expected"].clone(), filled.into()),
            Err(rejection) => (self.0["rejected"].clone(), rejection.to_string().into()),
        }
    }

    /// What is printed, canonical where the case says it; read again it is the same.
    fn printed(&self) -> (Json, Json) {
        let text = self.text("text");
        let (printed, canonical) = match self.text("what") {
            "where" => {
                let read = Where::parse(text, Scope::SINK).expect("conditions");
                let again = Where::parse(&read.to_string(), Scope::SINK).expect("printed");
                assert_eq!(again, read, "{text}");
                (read.to_string(), read.canonical())
            }
            "fields" => {
                let read = Fields::parse(text, Scope::SINK).expect("fields");
                let again = Fields::parse(&read.to_string(), Scope::SINK).expect("printed");
                assert_eq!(again, read, "{text}");
                (read.to_string(), read.canonical())
            }
            _ => {
                let read = |text: &str| {
                    let place = TemplatePlace::Plain;
                    Template::parse("text", text, place, Scope::TEMPLATE).expect("a template")
                };
                let template = read(text);
                assert_eq!(read(&template.to_string()), template, "{text}");
                (template.to_string(), String::new())
            }
        };
        let expected = serde_json::json!([self.0["printed"], self.0["canonical"]]);
        let canonical = match self.0["canonical"].is_null() {
            true => Json::Null,
            false => canonical.into(),
        };
        (expected, serde_json::json!([printed, canonical]))
    }
}

/// JSON without white space between its tokens.
fn compact(json: &str) -> String {
    let mut out = String::new();
    let (mut is_in_text, mut is_escaped) = (false, false);
    for one in json.chars() {
        if is_in_text || !one.is_ascii_whitespace() {
            out.push(one);
        }
        if one == '"' && !is_escaped {
            is_in_text = !is_in_text;
        }
        is_escaped = one == '\\' && !is_escaped;
    }
    out
}

#[test]
fn every_case_holds() {
    let file: Json = serde_json::from_str(CASES).expect("the cases");
    let cases = file["cases"].as_array().expect("cases");
    let (mut wrong, mut run) = (Vec::new(), 0);
    let mut elsewhere = ELSEWHERE.map(|_| 0);
    for case in cases {
        let case = Case(case.clone());
        let kind = case.text("kind");
        if let Some(at) = ELSEWHERE.iter().position(|(name, ..)| *name == kind) {
            elsewhere[at] += 1;
            continue;
        }
        run += 1;
        let (expected, found) = case.both();
        if expected != found {
            let name = case.text("name");
            wrong.push(format!(
                "{name}:\n  expected {expected}\n  found    {found}"
            ));
        }
    }
    assert_eq!(elsewhere, ELSEWHERE.map(|(_, count, _)| count));
    assert_eq!(run + elsewhere.iter().sum::<usize>(), 330);
    assert!(
        wrong.is_empty(),
        "{} of {run}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_a_text_names_is_known() {
    let conditions = Where::parse("_request_id:r1,total>5,total<9", Scope::SINK).expect("read");
    assert!(conditions.names(Own::RequestId) && !conditions.names(Own::Key));
    assert_eq!(conditions.sources(), ["_request_id", "total"]);
    assert!(!conditions.is_of_keys());
}
