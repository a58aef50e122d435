//! `batches`: lines `STREAM BODY` of requests, an empty line, and what a hostile plugin does: lines `STEP BATCH …`.
//!
//! A plugin holds batches by number, makes others of them and asks for ranges with any numbers and names. Each is
//! compared with plain lists of items; none takes more room than it was given; the same items have the same identity.
//! What the plugin says (`say …`) holds no secret of its sink.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use uuid::Uuid;

use base::clock::Unix;
use base::order::Seq;
use item::batch::{Batch, DeriveError, Entry, Form, Slice, Span};
use item::flatten::{FlattenLimits, flatten};
use plugin::Redactor;
use reference::{Members, parse};
use settings::{Http, Secret, Sink};

use crate::request::line;

/// More than anything here takes.
const ROOM: usize = 1 << 30;
const BATCHES_MAX: usize = 24;
const REQUESTS_MAX: usize = 8;
/// Some begin alike, some are part of another.
const SECRETS: [&str; 4] = [
    "ab-ab-ab-ab-ab-ab-ab-x",
    "ab-ab-ab-ab-ab-",
    "größe-und-länge-7f31",
    "short1",
];

static SINK: LazyLock<Sink> = LazyLock::new(|| {
    let named = |at: usize| (format!("s{at}"), Secret::new(SECRETS[at]));
    Sink {
        secrets: (1..SECRETS.len()).map(named).collect(),
        http: Some(Http {
            headers: [(
                "authorization".into(),
                Secret::new(format!("Bearer {}", SECRETS[0])),
            )]
            .into(),
            ..Http::default()
        }),
        ..Sink::default()
    }
});

/// An item as a list of fields, and where it is from.
#[derive(Clone, PartialEq, Debug)]
struct Item {
    request: u128,
    place: u32,
    stream: String,
    key: String,
    fields: Vec<(String, String)>,
}

/// A batch, and what should be in it.
struct Held {
    batch: Batch,
    items: Vec<Item>,
}

/// Does what the lines say.
pub(super) fn batches(input: &[u8]) {
    let (requests, mut rest) = requests(input);
    let mut held = vec![requests];
    held[0].check(0, u32::MAX);
    while !rest.is_empty() && held.len() < BATCHES_MAX {
        let (step, after) = line(rest);
        rest = after;
        let step = String::from_utf8_lossy(step);
        let (name, rest) = step.split_once(' ').unwrap_or((&step, ""));
        if name == "say" {
            say(rest);
            continue;
        }
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let number: usize = number.parse().unwrap_or_default();
        let from = &held[number % held.len()];
        held.extend(from.step(name, rest));
    }
    for (at, one) in held.iter().enumerate() {
        for other in &held[..at] {
            let places = |held: &Held| -> Vec<_> {
                let items = held.items.iter();
                items.map(|item| (item.request, item.place)).collect()
            };
            let same = places(one) == places(other);
            let identities = one.batch.identity(Span::ALL) == other.batch.identity(Span::ALL);
            assert_eq!(same, identities);
        }
    }
}

/// The requests at the beginning, as one batch, and what follows them.
fn requests(input: &[u8]) -> (Held, &[u8]) {
    let (mut slices, mut items) = (Vec::new(), Vec::new());
    let mut rest = input;
    for number in 1..=REQUESTS_MAX {
        let (one, after) = line(rest);
        rest = after;
        if one.is_empty() {
            break;
        }
        let one = String::from_utf8_lossy(one);
        let (stream, body) = one.split_once(' ').unwrap_or((&one, "[{},{\"a\":1}]"));
        let limits = FlattenLimits {
            flattened_bytes_max: 1 << 20,
            item_bytes_max: 1 << 20,
        };
        let Ok(flat) = flatten(body.as_bytes(), None, limits) else {
            continue;
        };
        let request = number as u128;
        for (item, place) in flat.iter().zip(0..) {
            let Members(all) = parse(item.fields).expect("an object");
            let fields = all.into_iter();
            items.push(Item {
                request,
                place,
                stream: stream.to_owned(),
                key: item.key.to_owned(),
                fields: fields
                    .map(|(name, value)| (name, value.get().to_owned()))
                    .collect(),
            });
        }
        slices.push(Slice::whole(Arc::new(Entry {
            seq: Seq::new(number as u64),
            request_id: Uuid::from_u128(request),
            stream: stream.into(),
            received_at: Unix::from_ms(1_000 * number as u64),
            arrived: None,
            items: flat,
        })));
    }
    let batch = Batch::new(slices, 1);
    (Held { batch, items }, rest)
}

impl Held {
    /// One call of the plugin, and the batches that come of it.
    fn step(&self, name: &str, rest: &str) -> Vec<Held> {
        let (batch, items) = (&self.batch, &self.items);
        let names: Vec<String> = rest.split(',').map(str::to_owned).collect();
        let numbers = rest.split(' ').map(|word| word.parse().unwrap_or_default());
        let numbers: Vec<u32> = numbers.collect();
        match name {
            "select" => {
                let chosen = numbers.iter().map(|at| items.get(*at as usize).cloned());
                let chosen: Option<Vec<Item>> = chosen.collect();
                self.derived(|room| batch.select(&numbers, room), chosen)
            }
            "project" => {
                let kept = self.mapped(|fields| {
                    let mut seen = HashSet::new();
                    let wanted = names.iter().filter(|name| seen.insert(*name));
                    let find = |name| fields.iter().find(|(own, _)| own == name).cloned();
                    wanted.filter_map(find).collect()
                });
                self.derived(|room| batch.project(&names, room), Some(kept))
            }
            "without" => {
                let kept = self.mapped(|fields| {
                    let kept = fields.iter().filter(|(own, _)| !names.contains(own));
                    kept.cloned().collect()
                });
                self.derived(|room| batch.without(&names, room), Some(kept))
            }
            "rename" => {
                let pairs: Vec<(String, String)> = (names.iter())
                    .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                    .map(|(old, new)| (old.to_owned(), new.to_owned()))
                    .collect();
                let renamed = self.mapped(|fields| {
                    let new = |own: &String| {
                        let mut pairs = pairs.iter().rev();
                        let found = pairs.find(|(old, _)| old == own);
                        found.map_or(own, |(_, new)| new).clone()
                    };
                    fields
                        .iter()
                        .map(|(own, value)| (new(own), value.clone()))
                        .collect()
                });
                let once = |item: &Item| {
                    let names: HashSet<_> = item.fields.iter().map(|(name, _)| name).collect();
                    names.len() == item.fields.len()
                };
                let fits = renamed.iter().all(once);
                self.derived(|room| batch.rename(&pairs, room), fits.then_some(renamed))
            }
            "move" => {
                let fits =
                    (1..=128).contains(&rest.chars().count()) && !rest.contains(char::is_control);
                let moved = items.iter().map(|item| Item {
                    stream: rest.to_owned(),
                    ..item.clone()
                });
                let moved = fits.then(|| moved.collect());
                let made = self.derived(|room| batch.in_stream(rest, room), moved);
                assert!(made.iter().all(|made| made.batch.is_moved()));
                made
            }
            "split" => {
                let (left, right) = batch.split_at(numbers[0]);
                let at = items.len().min(numbers[0] as usize);
                let part = |batch, items: &[Item]| Held {
                    batch,
                    items: items.to_vec(),
                };
                let parts = vec![part(left, &items[..at]), part(right, &items[at..])];
                parts.iter().for_each(|part| part.check(0, u32::MAX));
                parts
            }
            _ => {
                self.check(numbers[0], numbers.get(1).copied().unwrap_or(u32::MAX));
                Vec::new()
            }
        }
    }

    fn mapped(&self, fields: impl Fn(&[(String, String)]) -> Vec<(String, String)>) -> Vec<Item> {
        let items = self.items.iter().map(|item| Item {
            fields: fields(&item.fields),
            ..item.clone()
        });
        items.collect()
    }

    /// A batch that is made, with the items that it should have; `None`: it cannot be made. It fits into the room that it
    /// says it takes, and into no less.
    fn derived(
        &self,
        make: impl Fn(usize) -> Result<Batch, DeriveError>,
        expected: Option<Vec<Item>>,
    ) -> Vec<Held> {
        let (made, items) = match (make(ROOM), expected) {
            (Ok(made), Some(items)) => (made, items),
            (Err(DeriveError::TooLarge(room)), _) => panic!("no room in {room}"),
            (Err(error), None) => {
                assert!(!error.to_string().is_empty());
                return Vec::new();
            }
            (made, expected) => panic!("{made:?} for {expected:?}"),
        };
        let own = made.own_bytes();
        let again = make(own.max(1)).expect("it says what it takes");
        assert_eq!((again.id(), again.own_bytes()), (made.id(), own));
        if let Some(less) = own.checked_sub(1) {
            assert_eq!(make(less).err(), Some(DeriveError::TooLarge(less)));
        }
        let held = Held { batch: made, items };
        held.check(0, u32::MAX);
        vec![held]
    }

    /// What a plugin reads of a range is what is there.
    fn check(&self, start: u32, count: u32) {
        let (batch, all) = (&self.batch, &self.items);
        let span = Span { start, count };
        let from = all.len().min(start as usize);
        let items = &all[from..all.len().min(from.saturating_add(count as usize))];
        assert_eq!(batch.len() as usize, all.len());
        assert_eq!(batch.is_empty(), all.is_empty());
        assert!(
            batch
                .keys(span)
                .iter()
                .eq(items.iter().map(|item| &item.key))
        );
        assert!(
            batch
                .streams(span)
                .iter()
                .eq(items.iter().map(|item| &item.stream))
        );
        let times = items
            .iter()
            .map(|item| Unix::from_ms(1_000 * item.request as u64));
        assert!(batch.times(span).into_iter().eq(times));
        let places = batch
            .slices()
            .iter()
            .flat_map(Slice::items)
            .map(|(place, _)| place.get());
        assert!(places.eq(all.iter().map(|item| item.place)));
        assert_eq!(batch.identity(span).is_none(), items.is_empty());

        let names = batch.field_names();
        let mut expected: Vec<&String> = Vec::new();
        for (name, _) in all.iter().flat_map(|item| &item.fields) {
            if !expected.contains(&name) {
                expected.push(name);
            }
        }
        assert!(names.iter().eq(expected));
        let absent = "a name that no input has".to_owned();
        for name in names.iter().take(4).chain([&absent]) {
            let values: Vec<Option<&String>> = (items.iter())
                .map(|item| {
                    item.fields
                        .iter()
                        .find(|(own, _)| own == name)
                        .map(|(_, value)| value)
                })
                .collect();
            let texts = values.iter().map(|value| text_of((*value)?));
            assert!(batch.texts(name, span).into_iter().eq(texts));
            let numbers = values
                .iter()
                .map(|value| number_of(value.map_or("", |value| value)));
            let found = batch.numbers(name, span).into_iter();
            assert!(found.map(f64::to_bits).eq(numbers.map(f64::to_bits)));
            let first = batch.field(start, name);
            let reached = all.get(start as usize).is_some() && count > 0;
            if reached {
                assert_eq!(first.as_ref(), values[0]);
            }
        }
        self.json(span, items);
    }

    fn json(&self, span: Span, items: &[Item]) {
        let lines = self.batch.json(span, Form::FieldLines);
        let array = self.batch.json(span, Form::FieldArray);
        let objects: Vec<String> = items.iter().map(object).collect();
        assert!(lines.lines().eq(objects.iter().map(String::as_str)));
        assert_eq!(array, format!("[{}]", objects.join(",")));
        let whole = self.batch.json(span, Form::ItemArray);
        let whole: Vec<Value> = serde_json::from_str(&whole).expect("JSON");
        let lines = self.batch.json(span, Form::ItemLines);
        assert_eq!(lines.lines().count(), items.len());
        for ((item, line), value) in items.iter().zip(lines.lines()).zip(&whole) {
            assert!(line.ends_with(&format!("\"fields\":{}}}", object(item))));
            assert_eq!(value["key"], *item.key);
            assert_eq!(value["stream"], *item.stream);
            let id = Uuid::from_u128(item.request).to_string();
            assert_eq!(value["request_id"], *id);
        }
        assert_eq!(whole.len(), items.len());
    }
}

/// The fields as an object.
fn object(item: &Item) -> String {
    let members = item.fields.iter();
    let members = members.map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn text_of(value: &str) -> Option<String> {
    match value.as_bytes()[0] {
        b'n' => None,
        b'"' => Some(parse(value).expect("a text")),
        _ => Some(value.to_owned()),
    }
}

fn number_of(value: &str) -> f64 {
    match value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        true => value.parse().expect("a number"),
        false => f64::NAN,
    }
}

/// What a plugin says, with secrets in it where digits stand, whole and cut off.
fn say(text: &str) {
    let mut said = String::new();
    for one in text.chars() {
        match one.to_digit(10).map(|digit| digit as usize) {
            Some(digit) => {
                let secret = SECRETS[digit % SECRETS.len()];
                let cut = if digit < SECRETS.len() {
                    secret.len()
                } else {
                    secret.len() - 3
                };
                said.push_str(&secret[..cut]);
            }
            None => said.push(one),
        }
    }
    let shown = Redactor::of(&SINK).redact(said.clone());
    for secret in SECRETS {
        let begin = &secret[..secret.floor_char_boundary(12)];
        assert!(!shown.contains(begin), "{shown:?}");
    }
    if !SECRETS
        .iter()
        .any(|secret| said.contains(&secret[..secret.floor_char_boundary(12)]))
    {
        assert_eq!(shown, said);
    }
}
