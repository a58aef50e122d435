//! `where` and `fields` of sinks and read keys: the text as it was written, and what is read of it, once.
//!
//! **Invariant**: the text is what people typed, and what is read was read of it.

use std::sync::Arc;

use select::{Fields, Scope, SyntaxError, Where};
use serde::{Deserialize, Serialize};

/// A text in a setting, and what is read of it.
macro_rules! selection {
    ($(#[$doc:meta])* $name:ident, $read:ident: $type:ty, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            text: String,
            $read: Arc<$type>,
        }

        impl $name {
            /// As it was written.
            pub fn text(&self) -> &str {
                &self.text
            }

            /// What it says.
            pub fn $read(&self) -> &$type {
                &self.$read
            }
        }

        impl TryFrom<String> for $name {
            type Error = SyntaxError;

            fn try_from(text: String) -> Result<Self, SyntaxError> {
                let $read = Arc::new(($parse)(&text)?);
                Ok(Self { text, $read })
            }
        }

        impl From<$name> for String {
            fn from(selection: $name) -> Self {
                selection.text
            }
        }
    };
}

selection!(
    /// `where` of a sink.
    SinkWhere, conditions: Where, |text: &str| Where::parse(text, Scope::SINK)
);
selection!(
    /// `fields` of a sink.
    SinkFields, fields: Fields, |text: &str| Fields::parse(text, Scope::SINK)
);
selection!(
    /// `where` of a read key.
    KeyWhere, conditions: Where, |text: &str| Where::parse(text, Scope::LIVE)
);
selection!(
    /// `fields` of a read key.
    KeyFields, fields: Fields, |text: &str| Fields::parse_limit(text, Scope::LIVE)
);

impl KeyWhere {
    /// What no item meets: none has an empty key.
    pub fn nothing() -> Self {
        Self {
            text: "_key:".to_owned(),
            conditions: Arc::new(Where::of_keys(vec![String::new()])),
        }
    }
}
