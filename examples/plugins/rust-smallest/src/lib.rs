use headgate_sdk::{ALL, Batch, Sink, WriteError, pool};

struct Smallest;

impl Sink for Smallest {
    fn write(batch: Batch) -> Result<(), WriteError> {
        let values = (0..).zip(batch.numbers("value", ALL));
        let high = values.filter(|(_, value)| *value >= 10.0);
        pool::upsert(&batch.select(&high.map(|(index, _)| index).collect::<Vec<_>>()));
        Ok(())
    }
}

headgate_sdk::export!(Smallest);
