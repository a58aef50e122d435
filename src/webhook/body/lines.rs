//! NDJSON, also called JSON Lines: one JSON value a line. Called by `decode`.
//!
//! **Invariant**: each line is checked by itself, so no line can end the array or reach into the next one, and a bad
//! line is named by its number.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::output::Output;
use super::{DecodeError, without_mark};

/// The lines as an array. Lines with nothing but white space are left out. An array, because the flattener takes one
/// body.
pub(super) fn to_json(body: &[u8], bytes_max: usize) -> Result<Bytes, DecodeError> {
    let mut out = Output::new(bytes_max);
    let mut before = "[";
    for (line, number) in without_mark(body).split(|byte| *byte == b'\n').zip(1_u64..) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let json = value(line)
            .map_err(|why| DecodeError::Invalid(format!("line {number} of the body {why}")))?;
        out.push(before.as_bytes())?;
        out.push(json.as_bytes())?;
        before = ",";
    }
    if before == "[" {
        return Err(DecodeError::Invalid(
            "the body has no lines; send one JSON object per line".to_owned(),
        ));
    }
    out.push(b"]")?;
    Ok(out.into_bytes())
}

/// The one JSON value of a line, as it is written.
fn value(line: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8; send UTF-8".to_owned())?;
    let json: &RawValue = serde_json::from_str(text).map_err(|error| {
        let (column, problem) = (error.column(), error.to_string());
        let problem = problem.split(" at line ").next().unwrap_or_default();
        format!("is not one JSON value (byte {column}: {problem}); send one JSON object per line")
    })?;
    Ok(json.get())
}
