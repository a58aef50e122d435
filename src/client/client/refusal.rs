//! Error responses, decoded into readable text.
//!
//! The client decodes every unsuccessful response; verbs print it.
//!
//! **Invariant**: the output of `Display` is safe for a terminal, whoever sent the response.

use std::fmt;

use serde_json::Value;

use super::Answer;
use crate::output::shown;

/// Maximum characters of a response that is not from Headgate.
const FOREIGN_SHOWN_MAX: usize = 200;
/// Maximum keys in a sentence.
const KEYS_NAMED_MAX: usize = 5;
/// Maximum details of an error.
const DETAILS_SHOWN_MAX: usize = 20;

/// An error response: the service's error envelope, or the text of another body.
///
/// `Display` formats it as escaped text, with the details on separate lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// The code, such as `INVALID_PAYLOAD`; `None` if the response is not from Headgate.
    pub code: Option<String>,
    /// The message of the error.
    pub message: String,
    /// The request's id, to find it in the request log.
    pub request_id: Option<String>,
    /// JSON texts, one for each location of the error.
    pub details: Vec<String>,
}

impl Refusal {
    /// Decodes the service's error envelope; of another body, keeps the beginning.
    pub fn decode(answer: &Answer) -> Refusal {
        let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        let error = &body["error"];
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        let places = error["details"].as_array().into_iter().flatten();
        let details = places.map(Value::to_string);
        Refusal {
            status: answer.status,
            code: text("code"),
            message: text("message").unwrap_or_else(|| foreign_message(answer)),
            request_id: text("request_id"),
            details: details.take(DETAILS_SHOWN_MAX).collect(),
        }
    }

    /// As `decode`, for the admin API: its routes and JSON fields are replaced by verbs and options.
    pub fn of_admin(answer: &Answer) -> Refusal {
        let mut refusal = Refusal::decode(answer);
        let details: Vec<Value> = (refusal.details.iter())
            .filter_map(|detail| serde_json::from_str(detail).ok())
            .collect();
        let code = refusal.code.as_deref().unwrap_or_default();
        // A message with a suggestion contains no route.
        let is_reported = code == "INVALID_REQUEST" && !refusal.message.contains("/api/");
        if let Some(sentence) = in_verbs(code, &details).filter(|_| !is_reported) {
            refusal.message = sentence;
        }
        // Other details are already in the message.
        let is_place = |detail: &Value| detail["item"].is_u64() || detail["line"].is_u64();
        let mut places = details.iter().map(is_place);
        refusal.details.retain(|_| places.next().unwrap_or(true));
        refusal
    }
}

/// The message of the command line, if that of the admin API names a route or a parameter.
fn in_verbs(code: &str, details: &[Value]) -> Option<String> {
    let text = |detail: &Value, name: &str| detail[name].as_str().map(|text| format!("{text:?}"));
    let (what, verb) = match code {
        "STREAM_NOT_FOUND" => ("such stream", "stream list"),
        "CONNECTOR_NOT_FOUND" => ("such connector", "connector list"),
        "KEY_NOT_FOUND" => ("such key", "key list CONNECTOR"),
        "READ_KEY_NOT_FOUND" => ("such read key", "read-key list"),
        "SINK_NOT_FOUND" => ("such sink", "sink list"),
        "PRESET_NOT_FOUND" => ("such preset", "preset list"),
        "DEAD_LETTER_NOT_FOUND" => (
            "such dead letter of the sink, or one of them is missing",
            "sink dead-letters NAME",
        ),
        "RETRY_NOT_FOUND" => (
            "waiting batch with this id: it may have been delivered, or be dead letters",
            "sink retries NAME",
        ),
        "STREAM_IN_USE" => {
            let keys = details.iter().map(|key| {
                let name = text(key, "name").unwrap_or_default();
                match text(key, "connector") {
                    Some(connector) => format!("{name} of {connector}"),
                    None => format!("the read key {name}"),
                }
            });
            let keys: Vec<String> = keys.take(KEYS_NAMED_MAX).collect();
            let more = if details.len() > keys.len() {
                " and others"
            } else {
                ""
            };
            return Some(format!(
                "keys name this stream: {}{more}; delete them first, or use --force: their requests then get 404",
                keys.join(", ")
            ));
        }
        "INVALID_REQUEST" => {
            let stream = details.iter().find(|detail| detail["kind"] == "stream")?;
            return Some(format!(
                "there is no stream {}; `headgate stream list` lists the streams, `headgate stream create` creates one",
                text(stream, "name")?
            ));
        }
        _ => return None,
    };
    Some(format!("there is no {what}; see `headgate {verb}`"))
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(code) = &self.code {
            write!(f, " {}", shown(code))?;
        }
        write!(f, ": {}", shown(&self.message))?;
        if let Some(id) = &self.request_id {
            write!(f, " (request {})", shown(id))?;
        }
        self.details
            .iter()
            .try_for_each(|detail| write!(f, "\n  {}", shown(detail)))
    }
}

/// The message for an error response that is not in the service's form.
fn foreign_message(answer: &Answer) -> String {
    let location = answer
        .headers
        .get("location")
        .and_then(|at| at.to_str().ok());
    if let Some(location) = location.filter(|_| (300..400).contains(&answer.status)) {
        return format!("redirected to {location}; redirects are not followed, use that address");
    }
    let text = String::from_utf8_lossy(&answer.body);
    let beginning: String = text.trim().chars().take(FOREIGN_SHOWN_MAX).collect();
    if beginning.is_empty() {
        "an empty response".to_owned()
    } else {
        format!("not a response from Headgate: {beginning}")
    }
}
