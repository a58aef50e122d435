//! OpenAPI document of a listener, generated at the first request and then cached.
//!
//! The admin API defines how the documents are generated; its route and the pages of `/docs` read them.
//!
//! **Invariant**: no document is generated at start, and each is generated once.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OnceCell;

use operate::in_background;

/// A document that is generated once.
pub struct Document {
    make: Arc<dyn Fn() -> Made + Send + Sync>,
    /// A start would compute for some 100 ms otherwise.
    made: OnceCell<Made>,
}

/// A generated document.
pub struct Made {
    /// The JSON text that is sent.
    pub json: Vec<u8>,
    /// The same document as a JSON value. It is kept, because pages would parse the text for each request otherwise.
    pub value: Value,
}

impl Document {
    /// Calls `make` at the first request.
    pub fn new(make: impl Fn() -> Made + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            make: Arc::new(make),
            made: OnceCell::new(),
        })
    }

    /// The document; generates it if necessary.
    pub async fn made(&self) -> &Made {
        let make = Arc::clone(&self.make);
        let making = || in_background(move || make());
        self.made.get_or_init(making).await
    }
}
