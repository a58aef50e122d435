//! A document that describes a listener: made when somebody asks for the first time, and kept.
//!
//! The API makes the OpenAPI documents; the API's route and the pages of `/docs` read them.
//!
//! **Invariant**: a start makes none, and each is made once.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OnceCell;

use operate::in_background;

/// A document, made once.
pub struct Document {
    make: Arc<dyn Fn() -> Made + Send + Sync>,
    made: OnceCell<Made>,
}

/// A document that is made.
pub struct Made {
    /// The document as it is sent.
    pub json: Vec<u8>,
    /// The same as values.
    pub value: Value,
}

impl Document {
    /// What `make` makes, when somebody asks for it.
    pub fn new(make: impl Fn() -> Made + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            make: Arc::new(make),
            made: OnceCell::new(),
        })
    }

    /// What it says.
    pub async fn made(&self) -> &Made {
        let make = Arc::clone(&self.make);
        let making = || in_background(move || make());
        self.made.get_or_init(making).await
    }
}
