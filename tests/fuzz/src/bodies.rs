//! `bodies`: a line with the path of the items, headers, and a body as webhooks send it.
//!
//! What is decoded is within the limit, is JSON where it was taken apart, and is what other parsers read in it: the
//! crates `form_urlencoded` and `flate2`, and serde_json's trees.

use std::io::Read as _;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use webhook::body::{Form, at_path, cloudevent_fields, decode};

use crate::request::Request;

/// Less than what a compressed input can become.
const BYTES_MAX: usize = 64 * 1_024;

/// Decodes a body by its headers.
pub(super) fn bodies(input: &[u8]) {
    let request = Request::of(input);
    cloudevent(&request);
    let of = |name| request.header(name);
    let Ok(form) = Form::of(of("content-type"), of("content-encoding")) else {
        return;
    };
    let body = Bytes::copy_from_slice(request.body);
    let Ok(json) = decode(form, body.clone(), BYTES_MAX) else {
        return;
    };
    assert!(json.len() <= BYTES_MAX);
    assert_eq!(decode(form, body.clone(), BYTES_MAX), Ok(json.clone()));
    if let Some(less) = json.len().checked_sub(1) {
        assert!(decode(form, body, less).is_err(), "over its limit");
    }

    let lower = |name| String::from_utf8_lossy(of(name).unwrap_or_default()).to_lowercase();
    let (kind, encoding) = (lower("content-type"), lower("content-encoding"));
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let plain = match encoding.trim() {
        "" | "identity" => Some(request.body.to_vec()),
        "gzip" | "x-gzip" => Some(gunzipped(request.body)),
        _ => None,
    };
    match kind {
        "application/x-www-form-urlencoded" => {
            valid(&json);
            plain.inspect(|plain| fields(plain, &json));
        }
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
            valid(&json);
            plain.inspect(|plain| lines(plain, &json));
        }
        "" | "text/plain" => assert!(json.starts_with(b"{") || json.starts_with(b"[")),
        _ => assert!(plain.is_none_or(|plain| plain == json)),
    }
    inside(&json, request.word(0));
}

fn valid(json: &[u8]) -> &RawValue {
    serde_json::from_slice(json).expect("JSON")
}

fn gunzipped(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::bufread::MultiGzDecoder::new(body)
        .read_to_end(&mut plain)
        .expect("what was decompressed once is again");
    plain
}

/// The fields of a form are those that another parser reads, unless the form is one field with JSON in it.
fn fields(form: &[u8], json: &[u8]) {
    let pairs: Vec<_> = form_urlencoded::parse(form).collect();
    if let [(name, value)] = &pairs[..]
        && name == "payload"
        && value.as_bytes() == json
    {
        return;
    }
    let mut expected = Map::new();
    for (name, value) in pairs {
        let value = Value::from(value.into_owned());
        match expected.get_mut(&*name) {
            None => drop(expected.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::from(vec![first.take(), value]),
        }
    }
    let found: Value = serde_json::from_slice(json).expect("an object");
    assert_eq!(found, Value::from(expected));
}

/// The lines are the elements of the array, as they were written.
fn lines(text: &[u8], json: &[u8]) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let array: Vec<&RawValue> = serde_json::from_slice(json).expect("an array");
    let found: Vec<&[u8]> = array.iter().map(|value| value.get().as_bytes()).collect();
    assert_eq!(found, lines);
}

/// The items inside an envelope are a piece of it, and what stands at the path in a tree.
fn inside(json: &Bytes, path: &str) {
    let Ok(found) = at_path(json, path) else {
        return;
    };
    let outer = json.as_ptr_range();
    let inner = found.as_ptr_range();
    assert!(outer.start <= inner.start && inner.end <= outer.end);
    let value = valid(&found).get();
    assert!(value.starts_with(['{', '[']));
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    // A tree has fewer levels, and no halves of characters.
    if let (Ok(tree), Ok(value)) = (
        serde_json::from_slice::<Value>(json),
        serde_json::from_str::<Value>(value),
    ) {
        let at = path.split('.').try_fold(&tree, |tree, name| tree.get(name));
        assert_eq!(at, Some(&value));
    }
}

fn cloudevent(request: &Request<'_>) {
    let headers = request.headers.iter();
    let fields = cloudevent_fields(headers.map(|(name, value)| (name.as_str(), *value)));
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let named = |name: &&str| name.len() > 3 && name.starts_with("ce.");
    assert!(names.iter().all(named));
    assert!(names.is_empty() || names.contains(&"ce.specversion"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), fields.len());
}
