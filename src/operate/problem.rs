//! Problems by kind: what the status says in sentences, and metrics count.
//!
//! **Invariant**: every problem has a kind, and the kinds are fixed: no name of a sink, a stream or a client is one.

/// A kind of problem. Alert rules are written for kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Requests are answered 503: no room on the disk, or stopping.
    Intake,
    /// What is on disk of the configuration is not in use.
    Configuration,
    /// A certificate ends soon, has ended, or does not count yet.
    Certificate,
    /// A stream reaches no sink, or not the data pool.
    NoSink,
    /// A file was damaged, and what was set aside is still there.
    Repair,
    /// A file does not answer.
    Unreadable,
    /// A sink is not in the configuration any more, and not forgotten.
    SinkUnconfigured,
    /// New settings, or a new plugin, of a sink cannot be used.
    SinkRefused,
    /// A sink does not run for now.
    SinkPaused,
    /// A sink does what it should not.
    SinkFailing,
    /// The lane of a sink ended by a defect.
    SinkCrashed,
    /// A sink has not taken what came long ago.
    SinkBehind,
    /// Batches of a sink wait for another attempt.
    SinkRetries,
    /// A sink gave items up.
    SinkDeadLetters,
    /// A listener takes no more connections, or no more of one client.
    Connections,
    /// A stream or a key is near its limit.
    Limit,
    /// Nothing identifies what a connector sends.
    ItemKey,
    /// The clock of this machine seems to be wrong.
    Clock,
    /// Somebody tries admin tokens.
    WrongTokens,
    /// Renderers were refused.
    Renderers,
    /// Many requests of a connector were refused.
    Refused,
    /// Many requests had no valid key.
    Unauthenticated,
    /// Payloads could not be read.
    Quarantine,
    /// A write-ahead log is not copied back.
    Wal,
    /// Lines of the daemon's own log are dropped.
    Log,
}

impl ProblemKind {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Intake,
        Self::Configuration,
        Self::Certificate,
        Self::NoSink,
        Self::Repair,
        Self::Unreadable,
        Self::SinkUnconfigured,
        Self::SinkRefused,
        Self::SinkPaused,
        Self::SinkFailing,
        Self::SinkCrashed,
        Self::SinkBehind,
        Self::SinkRetries,
        Self::SinkDeadLetters,
        Self::Connections,
        Self::Limit,
        Self::ItemKey,
        Self::Clock,
        Self::WrongTokens,
        Self::Renderers,
        Self::Refused,
        Self::Unauthenticated,
        Self::Quarantine,
        Self::Wal,
        Self::Log,
    ];

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Configuration => "configuration",
            Self::Certificate => "certificate",
            Self::NoSink => "no_sink",
            Self::Repair => "repair",
            Self::Unreadable => "unreadable",
            Self::SinkUnconfigured => "sink_unconfigured",
            Self::SinkRefused => "sink_refused",
            Self::SinkPaused => "sink_paused",
            Self::SinkFailing => "sink_failing",
            Self::SinkCrashed => "sink_crashed",
            Self::SinkBehind => "sink_behind",
            Self::SinkRetries => "sink_retries",
            Self::SinkDeadLetters => "sink_dead_letters",
            Self::Connections => "connections",
            Self::Limit => "limit",
            Self::ItemKey => "item_key",
            Self::Clock => "clock",
            Self::WrongTokens => "wrong_tokens",
            Self::Renderers => "renderers",
            Self::Refused => "refused",
            Self::Unauthenticated => "strangers",
            Self::Quarantine => "quarantine",
            Self::Wal => "wal",
            Self::Log => "log",
        }
    }
}

/// What does not work, in the order in which it is told.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<(ProblemKind, String)>);

impl Found {
    pub(super) fn push(&mut self, sentence: String, kind: ProblemKind) {
        self.0.push((kind, sentence));
    }

    pub(super) fn extend(
        &mut self,
        sentences: impl IntoIterator<Item = String>,
        kind: ProblemKind,
    ) {
        let sentences = sentences.into_iter();
        self.0.extend(sentences.map(|sentence| (kind, sentence)));
    }

    pub(super) fn sentences(self) -> Vec<String> {
        self.0.into_iter().map(|(_, sentence)| sentence).collect()
    }

    /// How many there are of each kind.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ProblemKind::ALL.into_iter().map(|kind| {
            let own = self.0.iter().filter(|(other, _)| *other == kind);
            (kind.as_str(), own.count() as u64)
        })
    }
}
