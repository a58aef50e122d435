//! Keeps items whose `value` is at least `least`, without their field `secret`.

use headgate_sdk::{ALL, Batch, Opened, Rejection, Sink, WriteError, metrics, pool, renderers};
use serde::Deserialize;

/// `config` of the sink's section; it fits the schema.
#[derive(Deserialize)]
struct Config {
    least: f64,
}

static CONFIG: Opened<Config> = Opened::new();

struct Plugin;

impl Sink for Plugin {
    const CONFIG_SCHEMA: &'static str = r#"{
        "type": "object",
        "properties": { "least": { "type": "number" } },
        "required": ["least"],
        "additionalProperties": false
    }"#;

    fn open(config: &str) -> Result<(), String> {
        let config = serde_json::from_str(config).map_err(|error| error.to_string())?;
        CONFIG.set(config);
        Ok(())
    }

    fn write(batch: Batch) -> Result<(), WriteError> {
        let least = CONFIG.get()?.least;
        let mut keep = Vec::new();
        let mut rejected = Vec::new();
        for (index, value) in (0..).zip(batch.numbers("value", ALL)) {
            if value.is_nan() {
                let reason = "value is not a number".to_owned();
                rejected.push(Rejection { index, reason });
            } else if value >= least {
                keep.push(index);
            }
        }

        let kept = batch.select(&keep).without(&["secret".to_owned()]);
        pool::upsert(&kept);
        renderers::publish(&kept);
        metrics::count("kept", keep.len() as u64);

        if rejected.is_empty() {
            Ok(())
        } else {
            Err(WriteError::RejectItems(rejected))
        }
    }
}

headgate_sdk::export!(Plugin);
