//! Sends so many items through a batcher, as the README shows; prints how many were accepted.

use std::sync::Arc;
use std::time::Duration;

use headgate_send::{BatcherOptions, Client, Error};
use serde_json::json;

fn main() -> Result<(), Error> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let client = Client::new("", "")?;
    let batcher = client.batcher(BatcherOptions {
        on_rejected: Some(Arc::new(|_, error| panic!("{error}"))),
        ..BatcherOptions::new("id")
    })?;
    for number in 0..count.unwrap_or(0u32) {
        let customer = json!({"name": "Ada Lovelace", "city": "London"});
        batcher.add(&json!({"id": number, "customer": customer, "total": 12.5, "status": "paid"}))?;
    }
    batcher.close(Duration::MAX);
    println!("{}", batcher.stats().accepted);
    Ok(())
}
