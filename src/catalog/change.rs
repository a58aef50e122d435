//! Changes at run time: what may be wanted, what is checked, what is written.
//!
//! The room `operate` calls these for operators; all of them block.
//!
//! **Invariant**: when a change returns, every lookup that begins later sees it, and it survives a power cut.
//! What is declared is never changed.

mod check;
pub(super) mod connector;
pub(super) mod key;
pub(super) mod read_key;
mod sink;
pub(super) mod stream;

use serde_json::Value;

use super::audit::Change;
use super::error::FieldError;
use super::{CatalogError, ResourceKind};
use settings::ValidationError;

pub(super) use check::check_stream;

pub(super) type Changed<T> = Result<T, CatalogError>;

/// What came of setting what was checked.
fn set(done: serde_json::Result<()>) -> Changed<()> {
    // An error of serde may repeat a secret.
    let refused = || ValidationError::Form("cannot be set".to_owned());
    done.map_err(|_| FieldError::from(refused()).of("body"))
}

fn audit_created(kind: ResourceKind, name: &str, after: Value) -> Change {
    Change {
        action: "create",
        kind,
        name: name.to_owned(),
        connector: None,
        before: None,
        after: Some(after),
    }
}

fn audit_changed(kind: ResourceKind, name: &str, before: Value, after: Value) -> Change {
    Change {
        action: "change",
        before: Some(before),
        ..audit_created(kind, name, after)
    }
}

fn audit_deleted(kind: ResourceKind, name: &str, before: Value) -> Change {
    Change {
        action: "delete",
        before: Some(before),
        after: None,
        ..audit_created(kind, name, Value::Null)
    }
}
