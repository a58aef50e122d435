//! Properties of flattening, over bodies as somebody might send them, whole and damaged.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::value::RawValue;

use reference::{Members, parse, reference};

use super::{fields, run};
use crate::flatten::{FlattenLimits, flatten};
use crate::{field_name, members};

fn agrees(body: &[u8]) -> Result<(), TestCaseError> {
    let shown = String::from_utf8_lossy(body);
    match (run(body), reference(body)) {
        (Ok(items), Ok(expected)) => prop_assert_eq!(fields(&items), expected, "{}", shown),
        (Err(_), Err(_)) => {}
        (ours, expected) => prop_assert!(false, "{shown}\n{ours:?}\n{expected:?}"),
    }
    Ok(())
}

/// JSON text as a tree of its tokens, so that white space can be put between them.
#[derive(Clone, Debug)]
enum Json {
    Token(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn write(&self, spaces: &mut impl Iterator<Item = &'static str>, out: &mut String) {
        let mut token = |text: &str, out: &mut String| {
            out.push_str(text);
            out.push_str(spaces.next().unwrap_or_default());
        };
        match self {
            Json::Token(text) => token(text, out),
            Json::Array(values) => {
                token("[", out);
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(spaces.next().unwrap_or_default());
                    value.write(spaces, out);
                }
                out.push(']');
                out.push_str(spaces.next().unwrap_or_default());
            }
            Json::Object(all) => {
                token("{", out);
                for (at, (key, value)) in all.iter().enumerate() {
                    for text in [if at > 0 { "," } else { "" }, key, ":"] {
                        out.push_str(text);
                        out.push_str(spaces.next().unwrap_or_default());
                    }
                    value.write(spaces, out);
                }
                out.push('}');
                out.push_str(spaces.next().unwrap_or_default());
            }
        }
    }
}

/// The inside of a string: plain runs of all lengths, and every kind of escape.
fn inside() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,20}",
        1 => "[^\"\\\\\u{0}-\u{1f}]{0,6}",
        1 => select(vec![
            r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0000", r"\u001F", r"\u0022",
            r"\u005c", r"\u002e", r"\u00e9", r"\uD83D\uDE00", r"\uffff", "\u{7f}", "😀",
        ]).prop_map(str::to_owned),
        // Invalid ones, rarely: both sides must refuse them.
        1 => prop_oneof![
            200 => Just(String::new()),
            1 => select(vec![r"\ud800", r"\uDFFF", r"\ud83d\u0041", r"\x", r"\u12", "\n", "\u{1f}"])
                .prop_map(str::to_owned),
        ],
    ];
    proptest::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

/// Keys collide often: within an object, by their escapes, and by paths with dots.
fn key() -> impl Strategy<Value = String> {
    let usual = vec![
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "h",
        "i",
        "j",
        "k",
        "l",
        "a.b",
        "b.c",
        "",
        ".",
        r"\u0061",
        r"\u0062",
        r"a\u002eb",
        r"\n",
        r"\u000a",
        r"\u000A",
        "é",
        r"\u00e9",
        r"\ud83d\ude00",
        "😀",
        r"\/",
        r"\\",
    ];
    let inside = prop_oneof![9 => select(usual).prop_map(str::to_owned), 1 => inside()];
    inside.prop_map(|inside| format!("\"{inside}\""))
}

fn json() -> impl Strategy<Value = Json> {
    let numbers = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?";
    let token = prop_oneof![
        3 => numbers,
        3 => inside().prop_map(|inside| format!("\"{inside}\"")),
        2 => select(vec!["null", "true", "false", "0", "-0", "1e400", "12345678901234567890"])
            .prop_map(str::to_owned),
    ];
    token
        .prop_map(Json::Token)
        .prop_recursive(6, 60, 8, |inner| {
            prop_oneof![
                1 => proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
                3 => object(inner),
            ]
        })
}

fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    proptest::collection::vec((key(), value), 0..6).prop_map(Json::Object)
}

/// A body as somebody might send it: an item or several, with white space anywhere or nowhere.
fn body() -> impl Strategy<Value = String> {
    let items = prop_oneof![
        object(json()),
        proptest::collection::vec(object(json()), 0..5).prop_map(Json::Array),
    ];
    let space = select(vec!["", "", "", " ", "\n", "\t ", "\r\n    "]);
    let spaces = prop_oneof![Just(vec![""]), proptest::collection::vec(space, 1..40)];
    (items, spaces).prop_map(|(items, spaces)| {
        let mut out = spaces[0].to_owned();
        items.write(&mut spaces.into_iter().cycle(), &mut out);
        out
    })
}

/// Bytes that mean something, and some that mean nothing.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        9 => select(br#"{}[]:,"\u/0123456789-+.eEtrfalsn abd"#.to_vec()),
        1 => any::<u8>(),
    ]
}

#[derive(Clone, Debug)]
enum Edit {
    Insert(u8),
    Replace(u8),
    Remove,
    Cut,
    Swap(Index),
}

fn edit(body: &mut Vec<u8>, at: Index, edit: &Edit) {
    if body.is_empty() {
        return;
    }
    let at = at.index(body.len());
    match edit {
        Edit::Insert(byte) => body.insert(at, *byte),
        Edit::Replace(byte) => body[at] = *byte,
        Edit::Remove => drop(body.remove(at)),
        Edit::Cut => body.truncate(at),
        Edit::Swap(other) => {
            let other = other.index(body.len());
            body.swap(at, other);
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<(Index, Edit)>> {
    let kind = prop_oneof![
        4 => byte().prop_map(Edit::Insert),
        4 => byte().prop_map(Edit::Replace),
        4 => Just(Edit::Remove),
        1 => Just(Edit::Cut),
        1 => any::<Index>().prop_map(Edit::Swap),
    ];
    proptest::collection::vec((any::<Index>(), kind), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn bodies_flatten_like_the_reference(body in body()) {
        agrees(body.as_bytes())?;
    }

    #[test]
    fn damaged_bodies_are_accepted_exactly_if_they_are_still_valid(body in body(), edits in edits()) {
        let mut body = body.into_bytes();
        for (at, kind) in &edits {
            edit(&mut body, *at, kind);
        }
        agrees(&body)?;
    }

    #[test]
    fn the_item_key_is_the_value_of_its_field(body in body(), at in any::<Index>()) {
        // Some field of the first item, or one that is not there.
        let names: Vec<String> = run(&body).ok().and_then(|items| {
            let first = items.iter().next()?;
            Some(members(first.fields).map(|(name, _)| field_name(name).into_owned()).collect())
        }).unwrap_or_default();
        let field = if names.is_empty() { "zzz" } else { at.get(&names) };

        let limits = FlattenLimits { flattened_bytes_max: usize::MAX, item_bytes_max: usize::MAX };
        let keyed = flatten(body.as_bytes(), Some(field), limits);
        let Ok(flat) = run(&body) else {
            prop_assert!(keyed.is_err());
            return Ok(());
        };
        let expected: Option<Vec<String>> = flat.iter().map(|item| key_of(item.fields, field)).collect();
        let keys = keyed.ok().map(|items| items.iter().map(|item| item.key.to_owned()).collect());
        prop_assert_eq!(keys, expected);
    }

    #[test]
    fn any_bytes_are_answered(body in proptest::collection::vec(byte(), 0..40)) {
        agrees(&body)?;
    }
}

/// The text of a field, if it can be a key.
fn key_of(fields: &str, field: &str) -> Option<String> {
    let Members(all) = parse(fields).expect("is an object");
    let (_, value) = all.into_iter().find(|(name, _)| name == field)?;
    let text = match value.get().as_bytes()[0] {
        b'"' => parse(value.get()).expect("is a string"),
        b'[' | b'{' | b'n' => return None,
        _ => value.get().to_owned(),
    };
    (1..=512).contains(&text.len()).then_some(text)
}

/// Every text up to six characters over the alphabet of numbers.
#[test]
fn numbers_have_the_grammar_of_json() {
    let alphabet = b"-+.eE01";
    let mut texts = vec![String::new()];
    for _ in 0..6 {
        let longer: Vec<String> = texts
            .iter()
            .flat_map(|text| {
                alphabet
                    .iter()
                    .map(move |c| format!("{text}{}", char::from(*c)))
            })
            .collect();
        for text in &longer {
            let body = format!("{{\"a\":{text}}}");
            assert_eq!(
                run(&body).is_ok(),
                serde_json::from_str::<&RawValue>(text).is_ok(),
                "{text}"
            );
        }
        texts = longer;
    }
    assert_eq!(texts.len(), 7_usize.pow(6));
}

/// A quote, backslash or control character at each place of a word, before and after bytes that could mislead
/// the arithmetic on whole words.
#[test]
fn strings_end_at_the_first_character_that_ends_them() {
    for length in 0..40 {
        for filler in [
            "a",
            " ",
            "!",
            "#",
            "[",
            "]",
            "\u{7f}",
            "\u{80}",
            "é",
            "\u{a2}",
            "\u{10ffff}",
        ] {
            for end in [
                "\"", "\\n\"", "\\\\\"", "\\\"\"", "\u{1f}\"", "\u{0}\"", "\n\"", "\u{1}\"", "\\",
                "",
            ] {
                let body = format!("{{\"a\":\"{}{end}}}", filler.repeat(length));
                agrees(body.as_bytes()).expect("both sides agree");
                let body = format!("{{\"{}{end}:1}}", filler.repeat(length));
                agrees(body.as_bytes()).expect("both sides agree");
            }
        }
    }
}

/// Every sequence of up to five tokens, as a body and as the value of a field.
#[test]
fn tokens_in_any_order_are_accepted_exactly_if_they_are_valid() {
    let mut texts = vec![String::new()];
    for _ in 0..5 {
        let tokens = ["{", "}", "[", "]", ",", "1", "\"a\":", "\"b\""];
        texts = texts
            .iter()
            .flat_map(|text| tokens.map(|token| format!("{text}{token}")))
            .collect();
        for text in &texts {
            agrees(text.as_bytes()).expect("both sides agree");
            agrees(format!("{{\"a\":{text}}}").as_bytes()).expect("both sides agree");
        }
    }
    assert_eq!(texts.len(), 8_usize.pow(5));
}

/// All combinations of the units at the edges of the surrogate ranges.
#[test]
fn surrogates_are_accepted_exactly_in_pairs() {
    let edges =
        ["d7ff", "d800", "dbff", "dc00", "dfff", "E000", "0041"].map(|unit| format!("\\u{unit}"));
    for (a, b) in edges.iter().flat_map(|a| edges.iter().map(move |b| (a, b))) {
        for inside in [format!("{a}{b}"), format!("{a} {b}"), format!("{a}{b}{a}")] {
            agrees(format!("{{\"a\":\"{inside}\"}}").as_bytes()).expect("both sides agree");
            agrees(format!("{{\"{inside}\":1}}").as_bytes()).expect("both sides agree");
        }
    }
}
