//! What repeats have in common: the claims by which the journal knows them.
//!
//! **Invariant**: a test key's claims are apart: a rehearsal must not swallow the real request. So are those of a
//! connector or stream of a name whose former owner is gone: whoever has the name now was not answered.

use sha2::{Digest, Sha256};

use super::Ingest;
use super::interpret::Repeats;
use base::clock::Unix;
use journal::{Claim, LogEntry, Outcome};

/// Among whose requests a repeat counts as one.
struct Scope<'a> {
    connector: &'a str,
    /// When the connector was made, if it was made at run time. A connector that was made again with the same name has
    /// other senders.
    since: Option<Unix>,
    stream: &'a str,
    /// [`catalog::Stream::life`]. A stream that was made again has none of the items that a repeat would refer to.
    stream_life: u64,
    test: bool,
}

impl Ingest {
    /// When the connector was made, if it was made at run time.
    pub fn made_at(&self, connector: &str) -> Option<Unix> {
        self.catalog.connector(connector)?.created_at
    }

    /// What a delivery's repeats have in common.
    pub(super) fn claims(
        &self,
        log: &LogEntry,
        repeats: &Repeats,
        body: &[u8],
    ) -> [Option<Claim>; 2] {
        let names = known_by(log, repeats);
        if names == [None; 2] {
            return [None; 2];
        }
        let scope = self.scope(log);
        names.map(|name| Some(scope.claim(name?, body)))
    }

    /// What the repeats of a request with this idempotency key have in common.
    pub(super) fn claim(&self, log: &LogEntry, idempotency_key: &str, body: &[u8]) -> Claim {
        self.scope(log).claim(idempotency_key, body)
    }

    fn scope<'a>(&self, log: &'a LogEntry) -> Scope<'a> {
        Scope {
            connector: &log.connector,
            since: self.made_at(&log.connector),
            stream: &log.stream,
            stream_life: self.catalog.stream_life(&log.stream),
            test: log.outcome == Outcome::Test,
        }
    }
}

impl Scope<'_> {
    fn claim(&self, idempotency_key: &str, body: &[u8]) -> Claim {
        let mut scope = Sha256::new();
        scope.update([u8::from(self.test)]);
        if let Some(since) = self.since {
            scope.update(since.ms().to_le_bytes());
        }
        if self.stream_life > 0 {
            scope.update(self.stream_life.to_le_bytes());
        }
        for part in [self.connector, self.stream, idempotency_key] {
            scope.update((part.len() as u64).to_le_bytes());
            scope.update(part);
        }
        Claim {
            scope: first(&scope.finalize()),
            payload: first(&Sha256::digest(body)),
        }
    }
}

/// What tells a delivery from others: its id or idempotency key, and what was signed. Both are claimed, because a
/// captured delivery can be sent again under another id that is not signed.
fn known_by<'a>(log: &'a LogEntry, repeats: &'a Repeats) -> [Option<&'a str>; 2] {
    [
        repeats.id.as_deref().or(log.idempotency_key.as_deref()),
        repeats.signed.as_deref(),
    ]
}

fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest[..N]);
    bytes
}
