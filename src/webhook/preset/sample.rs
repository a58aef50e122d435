//! Deliveries that a preset shows: samples to be filled in, and one that was really sent.
//!
//! **Invariant**: what a sample does not say of its result is not compared.

/// A delivery with places for an id and the time: [`fill`](Sample::fill) puts them in.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The event's name as the tool writes it, in a header or in the body; for tools that name none, what happened.
    pub event: String,
    /// The body, with `{id}`, `{now}` (RFC 3339), `{now_s}` and `{now_ms}` where those belong.
    pub body: String,
    pub content_type: String,
    /// Headers beside those that signing adds.
    pub headers: Vec<(String, String)>,
    /// What comes of it.
    pub expect: Expectation,
}

/// What a sample comes to; what is not said is not compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expectation {
    pub keys: Option<Vec<String>>,
    pub removed: Option<Vec<String>>,
    pub ignored: bool,
    pub fields: Vec<(String, serde_json::Value)>,
}

/// A delivery that was really sent. A sample shows only that a preset agrees with itself; a real delivery shows that it
/// agrees with the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentDelivery {
    pub secret: String,
    /// Unix seconds; none: the clock does not matter.
    pub now: Option<u64>,
    pub method: Option<String>,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub options: Vec<(String, String)>,
    pub valid: bool,
}
