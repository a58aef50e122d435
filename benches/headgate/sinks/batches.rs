//! Batches as lanes make them: each of one request with items of about 200 bytes.
//!
//! **Invariant:** every item is an update of a key that was there before, with fields that it never had.

use std::sync::Arc;

use base::clock::Unix;
use base::order::Seq;
use item::ItemsWriter;
use item::batch::{Batch, Entry, Slice};

/// Keys that recur.
const KEYS: u32 = 10_000;

/// Makes batches, one request after the other.
#[derive(Debug)]
pub(crate) struct Batches {
    size: u32,
    seq: u64,
    item: u32,
}

impl Batches {
    /// Of so many items each.
    pub(crate) fn new(size: u32) -> Self {
        Self {
            size,
            seq: 0,
            item: 0,
        }
    }

    /// The next ones.
    pub(crate) fn take(&mut self, count: u32) -> Vec<Batch> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Batch {
        self.seq += 1;
        let bytes = self.size as usize * 300;
        let mut items = ItemsWriter::new(bytes + 1_024, bytes);
        for _ in 0..self.size {
            self.item = self.item.wrapping_add(1);
            let key = format!("item-{:05}", self.item % KEYS);
            let fields = format!(
                r#"{{"id":"{key}","name":"A product with a name of some length","price":{}.25,"stock.count":{},"stock.place":"shelf 14, left","supplier.name":"Example & Sons","supplier.city":"Rotterdam","revision":{}}}"#,
                self.item % 997,
                self.item % 61,
                self.seq
            );
            items.push(&key, &fields).expect("the bound fits");
        }
        let entry = Entry {
            seq: Seq::new(self.seq),
            request_id: uuid::Uuid::now_v7(),
            stream: "products".into(),
            received_at: Unix::from_ms(1_700_000_000_000 + self.seq),
            arrived: None,
            items: items.into_items(),
        };
        Batch::new(vec![Slice::whole(Arc::new(entry))], 1)
    }
}
