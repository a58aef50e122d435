//! The main loop of `send`: sends batches in order, until the input ends or a batch fails permanently.
//!
//! Called by `send`, and by its tests with a substitute for the service.
//!
//! **Invariant**: the report counts a batch only after it was accepted, so that it is correct whenever the loop ends or
//! is dropped.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::batch::{Event, SendBatch};
use super::report::{Report, counted};
use super::split::{ITEM_BYTES_MAX, InputError};
use super::upload::{Upload, UploadError};
use crate::client::CallError;
use crate::error::CliError;

/// The output of the reading thread.
pub(super) type Feed = mpsc::Receiver<Result<Event, InputError>>;

/// One run of `send`.
pub(super) struct Delivery<'a> {
    /// `None`: a dry run.
    pub(super) upload: Option<&'a Upload<'a>>,
    /// No item key was given, so items may be identified by their position.
    pub(super) positional: bool,
    /// Canceled when the user stops the command.
    pub(super) stop: &'a CancellationToken,
    /// Receives warnings and notes for the user.
    pub(super) note: &'a dyn Fn(&str),
    /// Receives the number of processed bytes of the input.
    pub(super) progress: &'a dyn Fn(u64),
    pub(super) report: &'a mut Report,
}

impl Delivery<'_> {
    /// Sends all batches; an error if anything was not sent.
    pub(super) async fn run(mut self, mut feed: Feed) -> Result<(), CliError> {
        loop {
            let event = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(stopped()),
                event = feed.recv() => event,
            };
            match event {
                None => break,
                Some(Ok(Event::Batch(batch))) => self.send(&batch).await?,
                Some(Ok(Event::TooLarge { at, bytes })) => {
                    self.report.too_large += 1;
                    (self.note)(&format!(
                        "line {}, column {}: omitted an item of {bytes} bytes; the limit of a request is {ITEM_BYTES_MAX}",
                        at.line, at.column
                    ));
                }
                Some(Err(error)) => return Err(self.unreadable(&error)),
            }
        }
        match self.report.too_large {
            0 => Ok(()),
            count => Err(CliError::failed(format!(
                "{} omitted because they are larger than a request can be",
                counted(count, "item")
            ))),
        }
    }

    async fn send(&mut self, batch: &SendBatch) -> Result<(), CliError> {
        if self.positional && batch.number == 1 {
            (self.note)(
                "warning: more than one batch and no --item-key: unless the connector sets an item key, \
                 items are identified by their position in their batch (0, 1, 2…), and each batch \
                 overwrites the previous one",
            );
        }
        if let Some(upload) = self.upload {
            let retried = |why: &str| {
                self.report.retries += 1;
                (self.note)(why);
            };
            let accepted = upload.send(batch, retried).await.map_err(not_accepted)?;
            self.report.replayed += u64::from(accepted.replayed);
            self.report.stream = Some(accepted.stream);
        }
        self.report.batches += 1;
        self.report.items += batch.items;
        self.report.bytes += batch.body.len() as u64;
        (self.progress)(batch.input_bytes);
        Ok(())
    }

    fn unreadable(&self, error: &InputError) -> CliError {
        let consequence = match (self.upload.is_some(), self.report.batches) {
            (false, _) => "",
            (true, 0) => "; nothing was sent",
            (true, _) => "; the batches before it were sent",
        };
        CliError::failed(format!("{error}{consequence}"))
    }
}

pub(super) fn stopped() -> CliError {
    CliError::failed(
        "stopped; the same command with the same input sends the rest, without duplicates",
    )
}

fn not_accepted(error: UploadError) -> CliError {
    match error {
        UploadError::Stopped => stopped(),
        UploadError::Absent(error) => error,
        UploadError::Call(CallError::Refused(refusal)) if refusal.status == 413 => {
            CliError::failed(format!(
                "{refusal}\nset a lower --batch-bytes, if no single item is too large"
            ))
        }
        UploadError::Call(error) => error.into(),
    }
}
