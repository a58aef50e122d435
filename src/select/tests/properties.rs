//! What holds of any text: what is printed is read as the same, values stay in their places, time is linear.

use proptest::prelude::*;
use serde_json::Value as Json;

use crate::{Fields, Record, Scope, Template, TemplatePlace, Value, Where};

/// Characters that mean something somewhere, and some that do not.
fn text() -> impl Strategy<Value = String> {
    let signs = prop::sample::select(
        r#"\,:|^><?!-*.={}[]"'&#%/+$ ab017eé😀"#
            .chars()
            .chain(['\0', '\r', '\n', '\t', '\u{7f}', '\u{85}', '\u{fffe}'])
            .collect::<Vec<char>>(),
    );
    prop::collection::vec(signs, 0..24).prop_map(String::from_iter)
}

/// Texts that are often read.
fn conditions() -> impl Strategy<Value = String> {
    let condition = prop_oneof![
        (text(), text()).prop_map(|(name, value)| format!("{name}:{value}")),
        (text(), "[0-9]{1,3}(\\.[0-9]{1,3})?(e-?[0-9]{1,3})?")
            .prop_map(|(name, number)| format!("{name}>={number}")),
        text(),
    ];
    prop::collection::vec(condition, 0..4).prop_map(|all| all.join(","))
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

fn record(fields: &str) -> Record<'_> {
    Record {
        key: "k",
        stream: "s",
        fields,
        ..Record::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn printed_conditions_are_read_as_the_same(text in conditions(), is_feed: bool) {
        let scope = if is_feed { Scope::FEED } else { Scope::SINK };
        let Ok(read) = Where::parse(&text, scope) else { return Ok(()) };
        let printed = read.to_string();
        prop_assert_eq!(Where::parse(&printed, Scope::SINK), Ok(read.clone()), "{}", printed);
        let canonical = Where::parse(&read.canonical(), Scope::SINK).expect("it is read");
        prop_assert_eq!(canonical.canonical(), read.canonical());
        for fields in [r#"{"a":"b","b":17}"#, "{}", r#"{"a":null,"0":"1"}"#] {
            let record = record(fields);
            prop_assert_eq!(canonical.holds(&record), read.holds(&record));
        }
    }

    #[test]
    fn printed_fields_are_read_as_the_same(text in text()) {
        let Ok(read) = Fields::parse(&text, Scope::SINK) else { return Ok(()) };
        let printed = read.to_string();
        prop_assert_eq!(Fields::parse(&printed, Scope::SINK), Ok(read.clone()), "{}", printed);
        let canonical = Fields::parse(&read.canonical(), Scope::SINK).expect("it is read");
        prop_assert_eq!(canonical.canonical(), read.canonical());
    }

    #[test]
    fn printed_templates_are_read_as_the_same(text in text(), filter in text()) {
        let text = format!("{text}{{a|or:{filter}}}");
        for (place, scope) in [(TemplatePlace::Plain, Scope::TEMPLATE), (TemplatePlace::Feed, Scope::FEED)] {
            let read = |text: &str| Template::parse("text", text, place.clone(), scope);
            let Ok(template) = read(&text) else { continue };
            let printed = template.to_string();
            prop_assert_eq!(read(&printed), Ok(template), "{}", printed);
        }
    }

    /// All conditions hold exactly if each alone does, and a negated one if the other does not.
    #[test]
    fn conditions_hold_together_if_each_does(
        texts in prop::collection::vec("!?[ab](:[ab1]{0,1}|\\^[ab1]|\\?|>=1|<1)", 1..5),
        fields in prop::collection::btree_map("[ab]", prop_oneof!["1", "\"a\"", "\"\"", "null", "1\\.0"], 0..3),
    ) {
        let members = fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
        let fields = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        let record = record(&fields);
        let holds = |text: &str| Where::parse(text, Scope::SINK).expect("read").holds(&record);
        prop_assert_eq!(holds(&texts.join(",")), texts.iter().all(|text| holds(text)));
        for text in &texts {
            let other = text.strip_prefix('!').map_or_else(|| format!("!{text}"), str::to_owned);
            prop_assert_ne!(holds(text), holds(&other), "{}", text);
        }
    }

    /// What a JSON body makes of any value is the template with that value in it.
    #[test]
    fn no_value_gets_out_of_a_json_body(value in text(), written in any::<bool>()) {
        let fields = format!("{{\"a\":{}}}", quoted(&value));
        let template = match written {
            true => Template::parse_json_text("body", r#"\{"x": "<{a}>", "y": {a|json}, "z": "{a|json}"\}"#, Scope::TEMPLATE),
            false => Template::parse_json("body", r#"{"x": "<{a}>", "y": "{a|json}", "z": "{a|json}"}"#, Scope::TEMPLATE),
        };
        let filled = template.expect("a body").fill(&record(&fields)).expect("it is filled");
        let expected = serde_json::json!({ "x": format!("<{value}>"), "y": value, "z": value });
        prop_assert_eq!(serde_json::from_str::<Json>(&filled).expect("JSON"), expected);
    }

    #[test]
    fn no_value_gets_out_of_its_place(value in text()) {
        let fields = format!("{{\"a\":{}}}", quoted(&value));
        let fill = |text: &str, place: TemplatePlace| {
            let template = Template::parse("text", text, place, Scope::TEMPLATE).expect("a template");
            template.fill(&record(&fields))
        };
        if let Ok(url) = fill("http://h/x/{a}/y?z={a}&w=1", TemplatePlace::Url) {
            let (path, query) = url.split_once('?').expect("a query");
            prop_assert_eq!(path.split('/').count(), 6);
            prop_assert_eq!(query.matches(['&', '=', '?', '#', ' ']).count(), 3);
            prop_assert!(url.is_ascii());
        }
        if let Ok(header) = fill("b {a}", TemplatePlace::Header) {
            prop_assert!(!header.chars().any(|one| one.is_control() && one != '\t'));
        }
        let line = fill("A {a} B", TemplatePlace::Line { end: ";".to_owned() }).expect("a line");
        prop_assert!(!line.contains(['\r', '\n', '\0', ';']));
        let xml = fill("<a b='{a}'>{a}</a>", TemplatePlace::Xml).expect("XML");
        prop_assert_eq!(xml.matches(['<', '>', '\'']).count(), 6);
        if let Ok(topic) = fill("t/{a}/u", TemplatePlace::Topic) {
            prop_assert_eq!(topic.split('/').count(), 3);
            prop_assert!(!topic.contains(['+', '#']));
        }
        let name = fill("{a}", TemplatePlace::FileName).expect("a name");
        prop_assert!(!name.contains(['/', '\\', '\0']) && !name.starts_with('.'));
    }

    #[test]
    fn chosen_fields_are_a_flat_object_without_a_name_twice(
        text in "([ab]|[ab]:[ab]|a\\.\\*|b\\.x|,){0,6}",
        leaves_out: bool,
    ) {
        let text = match leaves_out {
            true => text.replace(',', ",-"),
            false => text,
        };
        let Ok(fields) = Fields::parse(&text, Scope::SINK) else { return Ok(()) };
        let mut out = String::new();
        let item = r#"{"a":1,"b":"x","a.x":[1,2],"a.y":{},"b.x":null,"c":2}"#;
        fields.chooser().choose_into(&record(item), &mut out);
        let names: Vec<&str> = item::members(&out).map(|(name, _)| name).collect();
        let object: serde_json::Map<String, Json> = serde_json::from_str(&out).expect("an object");
        prop_assert_eq!(object.len(), names.len(), "{}: {}", text, out);
    }
}

/// A text twice as long takes about twice as many steps: none of these would end if each character were looked at for
/// each other one.
#[test]
fn long_texts_are_read_in_one_pass() {
    let many = 1 << 20;
    let template = |text: &str| Template::parse("text", text, TemplatePlace::Feed, Scope::FEED);
    for text in ["{", "{a", "\\{", "{a}", "}"] {
        let template = template(&text.repeat(many)).expect("feeds take any brace");
        assert_eq!(
            template
                .fill_feed(&record("{}"), Default::default())
                .is_empty(),
            text == "{a}"
        );
    }
    for text in [":", "a:1|", "a:1\\,"] {
        let _ = Where::parse(&text.repeat(many), Scope::FEED);
        let _ = Fields::parse(&text.repeat(many), Scope::FEED);
    }
    let digits = "9".repeat(many);
    let big = Where::parse(&format!("a<{digits}"), Scope::FEED).expect("a number");
    assert!(big.holds(&record(r#"{"a":1e400}"#)));
    assert_eq!(Value::of("1").number().expect("a number").to_string(), "1");
}
