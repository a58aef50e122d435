//! The daemon at a glance, who is connected or signed in, links, tickets and backups.
//!
//! **Invariant**: null stands for what cannot be known at the moment, never for 0.

use std::collections::BTreeMap;

use crate::{ActCountsData, HoldData, SinkData, answers};

answers! {
    /// The status of the daemon.
    pub struct StatusData {
        /// Version of the daemon.
        version: String,
        /// Of a cluster: the node that answers. Requests, files and what is used of limits are its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Name of the configuration profile.
        profile: String,
        /// The data directory.
        data_dir: String,
        /// `fsync` or `os`; in a cluster `standby`, or `local`: a failover can lose acknowledged requests.
        durability: String,
        /// When the daemon started, RFC 3339.
        started_at: String,
        /// Seconds since then.
        uptime_seconds: u64,
        /// Problems, as sentences; empty if there are none.
        problems: Vec<String>,
        /// The same with kind, subject and page, in the same order.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        problem_details: Vec<ProblemData>,
        /// Sequence number of the newest accepted request.
        newest_seq: u64,
        /// Free bytes on the disk of the data directory.
        disk_free_bytes: i64,
        /// Requests since the start, by result.
        requests: RequestCounts,
        /// About how many bytes the request log takes; null if it cannot be read.
        log_bytes: Option<u64>,
        /// About how many bytes the payloads take that the journal keeps; null if they cannot be read.
        payload_bytes: Option<u64>,
        /// Payloads that could not be read and are quarantined; null if that cannot be read.
        quarantined_payloads: Option<u64>,
        /// The files that grow; write-ahead logs end in `-wal`.
        files: Vec<FileData>,
        /// The sinks.
        sinks: Vec<SinkData>,
        /// Limits, with what is used of them.
        limits: Vec<LimitData>,
        /// Holds and overrides, of streams that have any.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        acts: Vec<ActCountsData>,
    }

    /// A result of a search.
    pub struct SearchData {
        /// `item`, `request`, `stream`, `connector`, `key`, `read_key`, `sink` or `dead_letter`.
        kind: String,
        /// Its stream, of an item, a request, a key or a dead letter.
        stream: Option<String>,
        /// The key of an item, or of a dead letter's item; the id of a request; otherwise the name.
        key: String,
        /// What to show with it: the first values of an item, connector and status of a request with its first error, sink
        /// and reason of a dead letter, connector and beginning of a key, otherwise the description; may be empty.
        title: String,
        /// When an item was updated, a request received, or a dead letter created, RFC 3339; otherwise null.
        at: Option<String>,
        /// The page that shows it, on the admin listener.
        page: String,
    }

    /// A problem.
    pub struct ProblemData {
        /// Its kind, as in `headgate_problems`.
        kind: String,
        /// `daemon`, `sink`, `connector`, `stream`, `read_key` or `client`.
        subject: String,
        /// Its name, or its address; null for the daemon.
        name: Option<String>,
        /// The problem, as a sentence.
        sentence: String,
        /// The page that shows it, on the admin listener.
        page: String,
    }

    /// A problem, as an item of the stream of problems.
    pub struct ProblemItemData {
        /// Key of its item: kind and subject; in a cluster, also the node.
        key: String,
        /// Of a cluster: the node that answers, and has the problem. Others can have it, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Its kind, as in `headgate_problems`.
        kind: String,
        /// Name of the sink, the stream or whatever it is about, or `daemon`.
        subject: String,
        /// The problem, as a sentence.
        message: String,
        /// `error` if something is not accepted, delivered or shown now, `warning` otherwise.
        severity: String,
        /// Since when, RFC 3339.
        since: String,
        /// The page that shows it, on the admin listener.
        page: String,
    }

    /// A limit.
    pub struct LimitData {
        /// The setting, or a description if it is not a setting.
        name: String,
        /// `connections`, `bytes` or `items`.
        unit: String,
        /// Amount in use; if the limit applies to each of several, of the one closest to it.
        used: u64,
        /// The limit; null: none.
        max: Option<u64>,
        /// The one closest to the limit, or the largest user of a shared limit; null: none.
        holder: Option<String>,
    }

    /// A file of the data directory.
    pub struct FileData {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
    }

    /// Requests since the start.
    pub struct RequestCounts {
        /// Stored.
        accepted: u64,
        /// Repeats.
        duplicate: u64,
        /// With test keys.
        test: u64,
        /// Rejected with 400, 404, 413 or 429.
        rejected: u64,
        /// Without a valid key.
        unauthorized: u64,
        /// Answered 503 because they could not be stored.
        unavailable: u64,
    }

    /// A renderer that is connected.
    pub struct RendererData {
        /// Rises with each connection.
        id: u64,
        /// Of a cluster: the node that it is connected to. The others list their own.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Name of its read key.
        key: String,
        /// Whether it is an operate key.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        operate: bool,
        /// What it follows.
        streams: Vec<String>,
        /// `sse` or `websocket`.
        transport: String,
        /// Where it is connected from.
        client: String,
        /// Since when, RFC 3339.
        connected_at: String,
        /// The last position that it received.
        position: String,
        /// Upper bound of the changes that wait for it.
        lag: u64,
        /// Its streams that an operator holds as a whole.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        held: BTreeMap<String, HoldData>,
    }

    /// A screen, or a client that polls feeds, by its read key.
    pub struct ScreenData {
        /// Name of the read key.
        name: String,
        /// `here`: connected; `polling`: it polls a feed; `away`; `refused`; `never`: it has never connected.
        state: String,
        /// Since when it is connected, away or refused, or when it last asked, RFC 3339.
        since: Option<String>,
        /// How many connections it has to the node that answers.
        connections: u64,
        /// Of a cluster: the other node that it is connected to, or that it polls.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// When it was last connected, RFC 3339.
        last_seen: Option<String>,
        /// Where it was last connected from.
        client: Option<String>,
        /// Its user agent.
        agent: Option<String>,
        /// Name that the page gave.
        screen: Option<String>,
        /// The page, or the feed, that it shows.
        shows: Option<String>,
        /// Its size in pixels.
        size: Option<String>,
        /// The version of its page.
        version: Option<String>,
        /// Seconds between two requests for a feed, about.
        interval_seconds: Option<u64>,
        /// Why it was rejected.
        reason: Option<String>,
        /// The page that it should show, as set on its read key.
        page: Option<String>,
        /// Whether it should always be connected.
        expect: bool,
        /// Seconds after which an expected screen that is away is a problem.
        away_after_seconds: u32,
    }

    /// A reload of screens.
    pub struct ReloadedScreens {
        /// Number of notified connections.
        #[serde(default)]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        notified: u64,
        /// Deprecated: the same as `notified`, under its name of version 0.1. Version 0.3 removes it.
        #[serde(default, rename = "told")]
        #[cfg_attr(feature = "schema", salvo(schema(required = true)))]
        old_notified: u64,
    }

    /// A ticket.
    pub struct TicketData {
        /// Valid for one connection, as `?token=` or as a WebSocket subprotocol.
        ticket: String,
        /// Expiry, RFC 3339.
        expires_at: String,
    }

    /// A session of the admin pages.
    pub struct SessionData {
        /// Id of the session; not a secret.
        id: String,
        /// Name of the token that it began with.
        token: String,
        /// The role of that token: `viewer`, `operator` or `admin`.
        role: String,
        /// Address where it began, or `unix`.
        client: String,
        /// Since when, RFC 3339.
        since: String,
        /// When the last page was asked for, RFC 3339.
        last_seen: String,
        /// Expiry, RFC 3339.
        ends_at: String,
    }

    /// A link to sign in.
    pub struct SignInLinkData {
        /// Its path, to be opened at the address of the admin listener; what follows `#` is the secret.
        path: String,
        /// Until when it works, RFC 3339.
        expires_at: String,
    }

    /// A backup.
    pub struct BackupData {
        /// The folder.
        dir: String,
        /// The version that created it.
        version: String,
        /// When it was complete, RFC 3339.
        made_at: String,
        /// The epoch of renderers' positions in it.
        epoch: u64,
        /// The highest sequence number of a request in it.
        highest_seq: u64,
        /// Total size of the files in bytes.
        bytes: u64,
        /// The files, without `manifest.json`.
        files: Vec<BackupFile>,
    }

    /// A file of a backup.
    pub struct BackupFile {
        /// Its name.
        name: String,
        /// Its length.
        bytes: u64,
        /// Its SHA-256, in hexadecimal.
        sha256: String,
    }
}
