//! Adds `amount` up for each key, and keeps the totals as items of a stream of its own, `totals`.

use headgate_sdk::{ALL, Batch, Rejection, Sink, WriteError, make, pool, renderers, state};

struct Totals;

impl Sink for Totals {
    fn write(batch: Batch) -> Result<(), WriteError> {
        let (mut lines, mut rejected) = (String::new(), Vec::new());
        let items = batch.keys(ALL).into_iter().zip(batch.numbers("amount", ALL));
        for (index, (key, amount)) in (0..).zip(items) {
            if amount.is_nan() {
                let reason = "amount is not a number".to_owned();
                rejected.push(Rejection { index, reason });
                continue;
            }
            // What `write` has set is read here, and stored when it returns: with the items, or not at all.
            let before = state::get(&key).unwrap_or_default();
            let before: f64 = String::from_utf8_lossy(&before).parse().unwrap_or(0.0);
            let total = before + amount;
            state::set(&key, total.to_string().as_bytes());
            let line = serde_json::json!({ "key": key, "fields": { "total": total } });
            lines += &format!("{line}\n");
        }
        let totals = make("totals", &lines).map_err(WriteError::Reject)?;
        pool::upsert(&totals);
        renderers::publish(&totals);
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::RejectItems(rejected)),
        }
    }
}

headgate_sdk::export!(Totals);
