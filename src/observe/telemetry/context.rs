//! Parses and forwards W3C Trace Context (`traceparent`, `tracestate`).
//!
//! **Invariant**: malformed headers are ignored. The caller's values are forwarded only to sink receivers, and only if
//! they fit in a header.

use std::fmt;
use std::sync::Arc;

/// The longest `tracestate` that is passed on.
const STATE_BYTES_MAX: usize = 512;

pub(super) type TraceId = [u8; 16];
pub(super) type SpanId = [u8; 8];

/// What a caller says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) sampled: bool,
}

impl Caller {
    /// Of the values of `traceparent`, of which there must be one.
    pub(super) fn of<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        // Version, trace, span and flags; of later versions more may follow.
        let (version, rest) = (value.get(..2)?, value.get(55..)?);
        let [version] = hex::<1>(version)?;
        let fits = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let dashes = [2, 35, 52].iter().all(|at| value[*at] == b'-');
        if !fits || !dashes {
            return None;
        }
        let (trace, span) = (hex(&value[3..35])?, hex(&value[36..52])?);
        let [flags] = hex::<1>(&value[53..55])?;
        (trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

/// Lowercase hex digits.
fn hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    if digits.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// The values of `tracestate` as one.
pub(super) fn state<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Arc<str>> {
    let values: Vec<&str> = values
        .filter_map(|value| std::str::from_utf8(value).ok())
        .filter(|value| !value.trim().is_empty())
        .collect();
    let joined = values.join(",");
    let fits = joined.len() <= STATE_BYTES_MAX
        && (joined.bytes()).all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (fits && !joined.is_empty()).then(|| joined.into())
}

/// What a request says that goes out in the course of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    pub traceparent: String,
    pub tracestate: Option<Arc<str>>,
}

impl Parent {
    pub(super) fn new(trace: &TraceId, span: &SpanId, tracestate: Option<Arc<str>>) -> Self {
        Self {
            traceparent: format!("00-{}-{}-01", Hex(trace), Hex(span)),
            tracestate,
        }
    }
}

/// Bytes as lowercase hex digits.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

pub(super) fn new_trace() -> TraceId {
    random()
}

pub(super) fn new_span() -> SpanId {
    random()
}

/// Random bytes, not all zero.
fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    // Without randomness spans cannot be told apart; they are not worth a refusal.
    let _ = getrandom::fill(&mut bytes);
    if bytes == [0; BYTES] {
        bytes[BYTES - 1] = 1;
    }
    bytes
}

#[cfg(test)]
mod tests;
