//! Kinds of problems: the status explains them, and metrics count them.
//!
//! **Invariant**: every problem has a kind, and the kinds are fixed: no name of a sink, a stream or a client is one.

use base::text::percent_encoded;

/// Makes the kinds: each with its name in metrics, and the list of all of them.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of problem. Alert rules are written for kinds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind {
            $($(#[$doc])* $kind,)*
        }

        impl ProblemKind {
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name in metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// Requests are answered 503: the disk is full, or the daemon stops.
    Intake = "intake",
    /// The database of the cluster, the copies of a node, or the setup of a node are not as they must be.
    Cluster = "cluster",
    /// The configuration on disk is not in use.
    Configuration = "configuration",
    /// A certificate expires soon, has expired, or is not valid yet.
    Certificate = "certificate",
    /// A stream reaches no sink, or not the data pool.
    NoSink = "no_sink",
    /// A file was damaged, and its quarantined copy still exists.
    Repair = "repair",
    /// A hold is older than the restore of the backup that it was in.
    HoldRestored = "hold_restored",
    /// A file does not answer.
    Unreadable = "unreadable",
    /// A sink is no longer configured, and its data was not deleted.
    SinkUnconfigured = "sink_unconfigured",
    /// New settings, or a new plugin, of a sink do not work.
    SinkRefused = "sink_refused",
    SinkPaused = "sink_paused",
    /// A sink breaks a rule.
    SinkFailing = "sink_failing",
    /// The lane of a sink ended by a defect.
    SinkCrashed = "sink_crashed",
    /// A sink has a lag for a long time.
    SinkBehind = "sink_behind",
    /// Batches of a sink wait for a retry.
    SinkRetries = "sink_retries",
    SinkDeadLetters = "sink_dead_letters",
    /// A listener has reached a limit of connections, in total or of one client.
    Connections = "connections",
    /// A stream or a key is near its limit.
    Limit = "limit",
    /// The items of a connector have no key.
    ItemKey = "item_key",
    /// The clock of this machine seems to be wrong.
    Clock = "clock",
    /// A client tries many admin tokens.
    WrongTokens = "wrong_tokens",
    Renderers = "renderers",
    /// An expected screen is away.
    ScreenAway = "screen_away",
    /// Many requests of a connector were rejected.
    Refused = "refused",
    /// Many requests had no valid key.
    Unauthenticated = "unauthenticated",
    /// Payloads could not be read.
    Quarantine = "quarantine",
    /// A write-ahead log is not checkpointed.
    Wal = "wal",
    /// Lines of the daemon's own log are dropped.
    Log = "log",
}

impl ProblemKind {
    /// Names of version 0.1 in metrics, which version 0.3 removes. They count the same problems, so that alerts with the
    /// old name still fire.
    pub const OLD_NAMES: [(&str, Self); 1] = [("strangers", Self::Unauthenticated)];

    /// `error` if something is not accepted, delivered or shown now; otherwise `warning`.
    pub fn severity(self) -> &'static str {
        match self {
            Self::Intake
            | Self::Cluster
            | Self::NoSink
            | Self::Unreadable
            | Self::SinkFailing
            | Self::SinkCrashed
            | Self::SinkBehind
            | Self::SinkDeadLetters
            | Self::ScreenAway
            | Self::Quarantine => "error",
            _ => "warning",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemSubject {
    /// The daemon as a whole, its files or its listeners.
    Daemon,
    Sink(String),
    Connector(String),
    Stream(String),
    /// A read key, by name.
    ReadKey(String),
    Client(String),
}

impl ProblemSubject {
    /// Its kind in the API, and its name; the daemon has none.
    pub fn named(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Daemon => ("daemon", None),
            Self::Sink(name) => ("sink", Some(name)),
            Self::Connector(name) => ("connector", Some(name)),
            Self::Stream(name) => ("stream", Some(name)),
            Self::ReadKey(name) => ("read_key", Some(name)),
            Self::Client(name) => ("client", Some(name)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    pub subject: ProblemSubject,
    /// The sentence for users.
    pub sentence: String,
}

impl Problem {
    /// Its page: path, query and fragment.
    pub fn page(&self) -> String {
        let rejected = match self.kind {
            ProblemKind::Refused | ProblemKind::Clock => "?status=rejected#log",
            _ => "",
        };
        match (&self.subject, self.kind) {
            (ProblemSubject::Sink(name), kind) => {
                let place = match kind {
                    ProblemKind::SinkDeadLetters => "#dead-letters",
                    ProblemKind::SinkRetries => "#retries",
                    _ => "",
                };
                format!("/sinks/{}{place}", percent_encoded(name))
            }
            (ProblemSubject::Connector(name), _) => {
                format!("/connectors/{}{rejected}", percent_encoded(name))
            }
            (ProblemSubject::Stream(name), _) => format!("/streams/{}", percent_encoded(name)),
            (ProblemSubject::ReadKey(_), _) => "/renderers".to_owned(),
            (_, ProblemKind::WrongTokens) => "/audit".to_owned(),
            (_, ProblemKind::NoSink) => "/sinks".to_owned(),
            (_, ProblemKind::Unauthenticated) => "/connectors".to_owned(),
            (_, ProblemKind::Cluster) => "/settings#nodes".to_owned(),
            (_, ProblemKind::Configuration) => "/settings#configuration".to_owned(),
            (_, ProblemKind::Connections | ProblemKind::Limit) => "/#limits".to_owned(),
            _ => "/settings#data".to_owned(),
        }
    }
}

/// The current problems, in the order in which they are listed.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Problem>);

impl Found {
    /// Adds a problem of the daemon itself.
    pub(super) fn push(&mut self, sentence: String, kind: ProblemKind) {
        self.about(ProblemSubject::Daemon).push(sentence, kind);
    }

    /// Adds problems of one subject.
    pub(super) fn about(&mut self, subject: ProblemSubject) -> About<'_> {
        About {
            found: self,
            subject,
        }
    }

    pub(super) fn extend(
        &mut self,
        sentences: impl IntoIterator<Item = String>,
        kind: ProblemKind,
    ) {
        for sentence in sentences {
            self.push(sentence, kind);
        }
    }

    pub(super) fn all(self) -> Vec<Problem> {
        self.0
    }

    /// The number of problems of each kind, by all its names.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = ProblemKind::ALL.iter().map(|kind| (kind.as_str(), *kind));
        names.chain(ProblemKind::OLD_NAMES).map(|(name, kind)| {
            let own = self.0.iter().filter(|problem| problem.kind == kind);
            (name, own.count() as u64)
        })
    }
}

/// The problems of one subject.
pub(super) struct About<'a> {
    found: &'a mut Found,
    subject: ProblemSubject,
}

impl About<'_> {
    pub(super) fn push(&mut self, sentence: String, kind: ProblemKind) {
        self.found.0.push(Problem {
            kind,
            subject: self.subject.clone(),
            sentence,
        });
    }
}

#[cfg(test)]
mod tests;
