//! Tells a chat of each item: `{"text": "Anna: 120"}`, of its fields `customer` and `total`. Waits as long as it asks.

use headgate_sdk::http::Request;
use headgate_sdk::{ALL, Batch, Opened, Rejection, Retry, Sink, Span, WriteError, delivery};
use serde::Deserialize;

#[derive(Deserialize)]
struct Config {
    url: String,
}

static CONFIG: Opened<Config> = Opened::new();

struct Chat;

impl Sink for Chat {
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
        let url = &CONFIG.get()?.url;
        let items = batch.texts("customer", ALL).into_iter().zip(batch.texts("total", ALL));
        let mut rejected = Vec::new();
        for (index, (customer, total)) in (0..).zip(items) {
            // If a later item fails, those before it are not told again.
            delivery::taken(index);
            let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
            let text = format!("{}: {}", or_unknown(customer), or_unknown(total));
            let item = Span { start: index, count: 1 };
            let answer = Request::new("POST", url)
                .header("content-type", "application/json")
                .body(serde_json::json!({ "text": text }).to_string())
                .send_items(&batch, item)?;
            if answer.is_success() {
                continue;
            }
            let reason = format!("the chat answered {}", answer.status);
            if answer.status == 429 || answer.status >= 500 {
                let wait = answer.retry_after();
                return Err(WriteError::Retry(Retry {
                    after_ms: wait.map(|time| time.as_millis() as u64),
                    reason,
                }));
            }
            delivery::refused(item, &reason);
            rejected.push(Rejection { index, reason });
        }
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }
}

headgate_sdk::export!(Chat);
