//! `where` and `fields` of a sink: the text as it was written, and what is read of it, once for all batches.
//!
//! **Invariant**: the text is what people typed, and what is read was read of it.

use std::sync::Arc;

use select::{Fields, Scope, SyntaxError, Where};
use serde::{Deserialize, Serialize};

/// `where` of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SinkWhere {
    text: String,
    conditions: Arc<Where>,
}

/// `fields` of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SinkFields {
    text: String,
    fields: Arc<Fields>,
}

impl SinkWhere {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says.
    pub fn conditions(&self) -> &Where {
        &self.conditions
    }
}

impl SinkFields {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }
}

impl TryFrom<String> for SinkWhere {
    type Error = SyntaxError;

    fn try_from(text: String) -> Result<Self, SyntaxError> {
        let conditions = Arc::new(Where::parse(&text, Scope::SINK)?);
        Ok(Self { text, conditions })
    }
}

impl TryFrom<String> for SinkFields {
    type Error = SyntaxError;

    fn try_from(text: String) -> Result<Self, SyntaxError> {
        let fields = Arc::new(Fields::parse(&text, Scope::SINK)?);
        Ok(Self { text, fields })
    }
}

impl From<SinkWhere> for String {
    fn from(selection: SinkWhere) -> Self {
        selection.text
    }
}

impl From<SinkFields> for String {
    fn from(selection: SinkFields) -> Self {
        selection.text
    }
}
