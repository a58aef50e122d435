//! What acts did.
//!
//! **Invariant**: values are the JSON that was given, digit by digit.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::PutIntent;
use base::order::ChangeSeq;

/// What an act did, beside its request and number.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Fields that are not overridden any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<u64>,
    /// The sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<RawValue>>,
    /// Holds that were made, changed or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_holds: Option<u64>,
    /// Keys of which what waited is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// Keys that are held all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_held: Option<Vec<String>>,
    /// Fields of what was put that are not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undone>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Undone {
    pub undone: String,
    /// Keys that are shown otherwise now.
    pub changed: Vec<String>,
    /// Operators who wrote the same fields since.
    pub covered_by: Vec<String>,
    /// Whether all is as if it had not been made.
    pub exact: bool,
}

/// An act that was made, or changed nothing.
#[derive(Debug, Clone)]
pub struct Acted {
    pub request_id: Uuid,
    /// A screen at or above it shows it.
    pub seq: ChangeSeq,
    pub outcome: Outcome,
    /// It was made before, and this is its first answer.
    pub replayed: bool,
}

/// How far an act has come.
#[derive(Debug)]
pub enum ActProgress {
    Done(Acted),
    /// It is a PUT or the undo of one, which is data: submit this, then say so with
    /// [`Pool::submitted`](crate::Pool::submitted). Somebody else may do the same.
    Submit(PutIntent),
}
