//! The task that owns the log, and what writers ask of it.
//!
//! **Invariant**: calls are answered one after the other.

use std::sync::mpsc::SyncSender;

use tokio::sync::mpsc;

use crate::log::{AppendError, Log, NewEntry};
use crate::{LogPlace, Said};
use postgres::DatabaseError;

#[derive(Debug)]
pub(super) enum Call {
    Append {
        fence: Option<i64>,
        before: LogPlace,
        change: Vec<u8>,
        said: Said,
        answer: SyncSender<Result<LogPlace, AppendError>>,
    },
    /// Nobody else appends until this node does. Answers how far the log is.
    Reserve(SyncSender<Result<u64, DatabaseError>>),
    Release,
}

pub(super) async fn serve(mut log: Log, mut called: mpsc::UnboundedReceiver<Call>, format: i32) {
    while let Some(call) = called.recv().await {
        match call {
            Call::Append {
                fence,
                before,
                change,
                said,
                answer,
            } => {
                let entry = NewEntry {
                    fence,
                    before,
                    change: &change,
                    seq: said.seq,
                    low_water: said.low_water,
                    format,
                };
                let _ = answer.send(log.append(&entry).await);
            }
            Call::Reserve(answer) => {
                let _ = answer.send(log.reserve().await);
            }
            Call::Release => log.release().await,
        }
    }
    log.close().await;
}
