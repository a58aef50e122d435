//! Writes a batch in InfluxDB's line protocol, with one request: `orders,key=a value=12.50 1700000000000`.

use headgate_sdk::{ALL, Batch, Opened, Rejection, Sink, WriteError, http};
use serde::Deserialize;

#[derive(Deserialize)]
struct Config {
    url: String,
}

static CONFIG: Opened<Config> = Opened::new();

struct Lines;

impl Sink for Lines {
    const CONFIG_SCHEMA: &'static str = r#"{
        "type": "object",
        "properties": {"url": {"type": "string"}},
        "required": ["url"],
        "additionalProperties": false
    }"#;

    fn open(config: &str) -> Result<(), String> {
        CONFIG.set(serde_json::from_str(config).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let (streams, keys, times) = (batch.streams(ALL), batch.keys(ALL), batch.times(ALL));
        // Digits as they were sent, and whether they are a number.
        let (values, numbers) = (batch.texts("value", ALL), batch.numbers("value", ALL));
        let (mut lines, mut rejected) = (String::new(), Vec::new());
        for (index, value) in values.into_iter().enumerate() {
            match value.filter(|_| !numbers[index].is_nan()) {
                Some(value) => {
                    let (stream, key) = (escaped(&streams[index]), escaped(&keys[index]));
                    lines += &format!("{stream},key={key} value={value} {}\n", times[index]);
                }
                None => rejected.push(Rejection {
                    index: index as u32,
                    reason: "value is not a number".to_owned(),
                }),
            }
        }
        if !lines.is_empty() {
            let answer = http::post(&CONFIG.get()?.url, "text/plain; charset=utf-8", lines)?;
            let reason = format!("the database answered {}", answer.status);
            match answer.status {
                200..300 => {}
                429 | 500.. => return Err(WriteError::retry(reason)),
                _ => return Err(WriteError::Reject(reason)),
            }
        }
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }
}

/// What stands between commas and spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, ',' | '=' | ' ') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

headgate_sdk::export!(Lines);
