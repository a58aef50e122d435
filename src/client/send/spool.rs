//! `send --spool`: sends the spool of a client library as the library would, with the library for Rust.
//!
//! Called by `send`. The library works on a separate thread, because its calls block; its work is reported as events.
//!
//! **Invariant**: a user waits, so a blocked batch ends the command, and so do too many failures in a row. Nothing is
//! lost: a file is deleted only after Headgate accepted its batch, or after its rejected items are in `rejected`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headgate_send::{
    Again, BatcherOptions, Cancel, Client, ClientOptions, Drain, DrainStep, Error, RejectedPart,
    State, code,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::report::{Report, counted};
use super::{SendArgs, SendOutput, stopped};
use crate::error::CliError;
use crate::output::{json_pretty, print, shown};
use crate::patience::Patience;

/// Maximum rejected parts that are shown.
const REJECTED_SHOWN_MAX: usize = 20;
/// Maximum first pause between attempts.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum pause of the command itself.
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// The input of the thread.
struct Job {
    folder: PathBuf,
    client: Client,
    stream: Option<String>,
    retries_max: u32,
    /// Maximum wait for a server that has never answered; `None`: all retries.
    absent_max: Option<Duration>,
    /// Whether the batches in `rejected` are sent too.
    sends_rejected: bool,
}

/// Reports of the thread.
enum Event {
    Accepted {
        stream: String,
        items: usize,
        bytes: usize,
        replayed: bool,
    },
    /// Items that were rejected.
    Rejected(usize),
    Retried(String),
    Note(String),
    /// Files that stay.
    Left(u64),
}

/// Sends everything; an error if something is left.
pub(super) async fn run(
    args: &SendArgs,
    folder: &Path,
    key: Option<&str>,
    stop: &CancellationToken,
    note: &dyn Fn(&str),
    report: &mut Report,
) -> Result<(), CliError> {
    check_folder(folder, args.stream.as_deref())?;
    let Some(key) = key else {
        return count(folder, note, report);
    };
    let options = ClientOptions {
        backoff: BACKOFF,
        backoff_max: BACKOFF_MAX,
        user_agent: "headgate-send".to_owned(),
        ..ClientOptions::default()
    };
    let job = Job {
        folder: folder.to_owned(),
        client: Client::with(&args.url, key, options).map_err(|error| refused(&error))?,
        stream: args.stream.clone(),
        retries_max: args.retries,
        absent_max: args.wait.absent_max(),
        sends_rejected: args.again,
    };
    let (sender, events) = unbounded_channel();
    let cancel = Cancel::default();
    let (done, result) = tokio::sync::oneshot::channel();
    let canceled = cancel.clone();
    std::thread::Builder::new()
        .name("spool".to_owned())
        .spawn(move || {
            // The receiver is dropped if the user has stopped twice.
            done.send(job.empty(&sender, &canceled)).ok();
        })
        .map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    follow(events, stop, &cancel, note, report).await;
    let sent = result.await;
    let sent = sent.unwrap_or_else(|_| Err(CliError::failed("the thread that sends has ended")));
    let listed = list_rejected(folder, note, report)?;
    sent.and(match (report.kept, listed) {
        (0, 0) => Ok(()),
        (0, _) => Err(CliError::failed(format!(
            "{} in {}: --rejected lists them, --again resends them",
            counted(report.rejected, "rejected item"),
            shown(&folder.join("rejected").to_string_lossy())
        ))),
        (count, _) => Err(CliError::failed(format!(
            "{} left in {}",
            counted(count, "file"),
            shown(&folder.to_string_lossy())
        ))),
    })
}

/// Sums up the events of the thread, until it ends.
async fn follow(
    mut events: UnboundedReceiver<Event>,
    stop: &CancellationToken,
    cancel: &Cancel,
    note: &dyn Fn(&str),
    report: &mut Report,
) {
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = stop.cancelled(), if !cancel.is_canceled() => {
                cancel.cancel();
                continue;
            }
        };
        match event {
            None => return,
            Some(Event::Accepted {
                stream,
                items,
                bytes,
                replayed,
            }) => {
                report.stream = Some(stream);
                report.batches += 1;
                report.items += items as u64;
                report.bytes += bytes as u64;
                report.replayed += u64::from(replayed);
            }
            Some(Event::Rejected(items)) => report.refused += items as u64,
            Some(Event::Retried(why)) => {
                report.retries += 1;
                note(&why);
            }
            Some(Event::Note(text)) => note(&text),
            Some(Event::Left(files)) => report.kept = files,
        }
    }
}

impl Job {
    fn empty(&self, events: &UnboundedSender<Event>, cancel: &Cancel) -> Result<(), CliError> {
        let options = options(&self.stream, events);
        let drain = self.client.drain(&self.folder, options);
        let drain = drain.map_err(|error| refused(&error))?;
        let sent = match self.sends_rejected {
            true => drain.send_rejected(cancel, |part, again| sent_again(part, again, events)),
            false => Ok(()),
        };
        let sent = sent.map_err(|error| failed(&error));
        let sent = sent.and_then(|()| self.send(&drain, events, cancel));
        let left = drain.left();
        if left.damaged > 0 {
            let files = counted(left.damaged, "file");
            let note = format!("{files} without a batch, renamed to ….json.damaged");
            events.send(Event::Note(note)).ok();
        }
        events
            .send(Event::Left(left.batches as u64 + left.damaged))
            .ok();
        sent
    }

    fn send(
        &self,
        drain: &Drain,
        events: &UnboundedSender<Event>,
        cancel: &Cancel,
    ) -> Result<(), CliError> {
        let mut disk_failures = 0;
        let patience = Patience::new(self.absent_max);
        loop {
            if cancel.is_canceled() {
                return Err(stopped());
            }
            let (pause, error, state, failures, disk_fails) = match drain.step() {
                DrainStep::Empty => return Ok(()),
                DrainStep::Paused {
                    pause,
                    error,
                    state,
                    failures,
                    disk_fails,
                    ..
                } => (pause, error, state, failures, disk_fails),
                _ => {
                    patience.answered();
                    continue;
                }
            };
            let mut pause = pause;
            match error {
                Some(error) if state == State::Blocked || failures > self.retries_max => {
                    return Err(failed(&error));
                }
                Some(error) => {
                    if error.status.is_some() {
                        patience.answered();
                    }
                    pause = patience.pause(pause, &in_words(&error))?;
                    let why = format!(
                        "{}; retry {failures} of {} in {:.1} s",
                        in_words(&error),
                        self.retries_max,
                        pause.as_secs_f64()
                    );
                    events.send(Event::Retried(why)).ok();
                }
                None => {}
            }
            disk_failures = if disk_fails { disk_failures + 1 } else { 0 };
            if disk_failures > self.retries_max {
                return Err(CliError::failed(
                    "the spool cannot be read or written; check its disk and the permissions of its files",
                ));
            }
            drain.wait(pause, cancel);
        }
    }
}

fn options(stream: &Option<String>, events: &UnboundedSender<Event>) -> BatcherOptions {
    let (accepted, rejected) = (events.clone(), events.clone());
    BatcherOptions {
        stream: stream.clone(),
        on_accepted: Some(Arc::new(move |receipt, items| {
            let bytes: usize = items.iter().map(|item| item.get().len() + 1).sum();
            let event = Event::Accepted {
                stream: receipt.stream.clone(),
                items: items.len(),
                bytes: bytes + 1,
                replayed: receipt.replayed,
            };
            accepted.send(event).ok();
        })),
        on_rejected: Some(Arc::new(move |items, _| {
            rejected.send(Event::Rejected(items.len())).ok();
        })),
        ..BatcherOptions::default()
    }
}

fn sent_again(part: &RejectedPart, again: Again<'_>, events: &UnboundedSender<Event>) {
    let items = &part.items;
    let event = match again {
        Again::Accepted(receipt) => Event::Accepted {
            stream: receipt.stream.clone(),
            items: items.len(),
            bytes: items.iter().map(|item| item.get().len() + 1).sum::<usize>() + 1,
            replayed: receipt.replayed,
        },
        _ => Event::Rejected(items.len()),
    };
    events.send(event).ok();
}

fn check_folder(folder: &Path, stream: Option<&str>) -> Result<(), CliError> {
    let name = folder.to_string_lossy();
    let wrong = |reason: &str| {
        CliError::wrong_use(format!("cannot use the spool {}: {reason}", shown(&name)))
    };
    if !folder.is_dir() {
        return Err(wrong("there is no such directory"));
    }
    let Some(stream) = stream else {
        return Ok(());
    };
    let batches = headgate_send::spooled(folder).map_err(|error| wrong(&error.to_string()))?;
    for batch in batches.flatten() {
        if let Some(own) = batch.stream.filter(|own| own != stream) {
            let reason = format!(
                "{} is for the stream {own}, and --stream is {stream}",
                batch.name
            );
            return Err(wrong(&shown(&reason)));
        }
    }
    Ok(())
}

/// A dry run: reads and counts.
fn count(folder: &Path, note: &dyn Fn(&str), report: &mut Report) -> Result<(), CliError> {
    let batches = headgate_send::spooled(folder)
        .map_err(|error| CliError::failed(format!("cannot read the spool: {error}")))?;
    for batch in batches {
        match batch {
            Ok(batch) => {
                report.batches += 1;
                report.items += batch.items as u64;
                report.bytes += batch.bytes as u64;
            }
            Err(name) => {
                report.kept += 1;
                note(&format!("{} has no batches", shown(&name)));
            }
        }
    }
    list_rejected(folder, note, report)?;
    Ok(())
}

/// `--rejected`: prints the parts in `rejected`, and sends nothing.
pub(super) fn print_rejected(folder: &Path, output: SendOutput) -> Result<(), CliError> {
    check_folder(folder, None)?;
    let parts = rejected_parts(folder)?;
    match output {
        SendOutput::Json => print(&json_pretty(&parts)?),
        SendOutput::Text => {
            let lines: String = parts.iter().map(|part| line_of(part) + "\n").collect();
            print(&lines)
        }
    }
}

/// Prints the parts in `rejected`; returns their number.
fn list_rejected(
    folder: &Path,
    note: &dyn Fn(&str),
    report: &mut Report,
) -> Result<usize, CliError> {
    let parts = rejected_parts(folder)?;
    report.rejected = parts.iter().map(|part| part.items.len() as u64).sum();
    for part in parts.iter().take(REJECTED_SHOWN_MAX) {
        note(&format!("rejected: {}", line_of(part)));
    }
    if let Some(more @ 1..) = parts.len().checked_sub(REJECTED_SHOWN_MAX) {
        note(&format!("and {more} more"));
    }
    Ok(parts.len())
}

fn rejected_parts(folder: &Path) -> Result<Vec<RejectedPart>, CliError> {
    headgate_send::rejected(folder)
        .map_err(|error| CliError::failed(format!("cannot read the rejected batches: {error}")))
}

fn line_of(part: &RejectedPart) -> String {
    let line = format!(
        "{}, {}: {}: {}",
        part.idempotency_key,
        counted(part.items.len() as u64, "item"),
        part.error.code,
        part.error.message
    );
    shown(&line).into_owned()
}

/// An error as escaped text.
fn in_words(error: &Error) -> String {
    let status = error
        .status
        .map_or_else(String::new, |status| format!("{status} "));
    let request =
        (error.request_id.as_ref()).map_or_else(String::new, |id| format!(" (request {id})"));
    let text = format!("{status}{}: {}{request}", error.code, error.message);
    shown(&text).into_owned()
}

/// The error that ends the command; the batches stay.
fn failed(error: &Error) -> CliError {
    if error.code == code::CANCELED {
        return stopped();
    }
    CliError::failed(format!(
        "{}; batches that were not accepted stay in the spool, and the next run sends them",
        in_words(error)
    ))
}

/// The error that prevents the start.
fn refused(error: &Error) -> CliError {
    let text = shown(&error.message).into_owned();
    match error.code.as_str() {
        code::SPOOL_IN_USE => {
            CliError::wrong_use(format!("{text}; stop that program, or wait until it ends"))
        }
        _ => CliError::wrong_use(text),
    }
}
