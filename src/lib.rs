//! Headgate takes JSON over HTTP, makes it durable, and hands it to sinks.
//!
//! This page is the map of the code. [`guide`] is for those who run it; `config/default.toml` is every
//! setting; `plugins/sdk/wit/sink.wit` is what a plugin sees.
//!
//! # Bird's eye
//!
//! ```text
//! HTTP ──> ingest ──> journal ══ 202 ══> delivery ──> sink (wasm) ──> pool ──> live ──> renderers
//!          key        one commit         a lane for   stages          exactly  a position
//!          rate       = log + queue      each sink    effects         once     for each
//!          flatten    + idempotency
//! ```
//!
//! Above the 202 everything is bounded and waits for the disk only. Below it the lanes work at their
//! own pace, in order, and can resume after any crash.
//!
//! # The rooms
//!
//! | floor | modules | what belongs there |
//! |---|---|---|
//! | 7 | [`cli`] | verbs; the only place that knows the command line |
//! | 6 | [`daemon`] | builds every part, spawns every task, stops them in order |
//! | 5 | [`http`] | both listeners, every route, the envelope, the admin pages (`http/web/`); the only place that knows the web framework |
//! | 4 | [`operate`] | what an operator sees and does, free of HTTP; the admin API and the admin pages only translate |
//! | 3 | [`ingest`], [`delivery`] | the two halves; they never import each other, they meet in the journal |
//! | 2 | [`plugin`], [`live`], [`backup`], [`repair`] | components: load, instantiate, call, let call others; the only place that knows wasmtime. Renderers: subscriptions, tickets. Copies of the files, and back. What becomes of damaged files |
//! | 1 | [`catalog`], [`journal`], [`pool`] | who may call and read, `catalog.db`; `journal.db`; `pool.db` and its latest changes |
//! | 0 | [`item`], [`batch`], [`error`], [`config`], [`metrics`], [`clock`], [`backoff`], [`budget`], [`opaque`], [`process`], [`sender`], [`sqlite`], [`telemetry`], [`text`], [`guide`] | plain data, settings, counters, the clock, the pauses between attempts, memory that several share, values whose type the compiler does not look into, what the process takes away from itself, how tools sign, name and greet, how SQLite files are opened, the way of requests as collectors of traces see it, text as it is shown, encoded and quoted, the pages for people |
//!
//! Imports go down only. `tests/it/structure.rs` holds the code to this, and to one home for each
//! large dependency.
//!
//! # The way of a request
//!
//! 1. [`http`] gives it an id and finds the route.
//! 2. [`ingest::Ingest::admit`] checks, in this order: key (401), stream (404), rate (429), declared
//!    size (413), headers (400), whether there is room (503).
//! 3. The body is read with a cap and a deadline, and [`ingest::flatten`] writes the flat items into one
//!    buffer, straight from the bytes. Those bytes are what the journal stores and every sink reads. If the stream is full,
//!    or the key has stored what it may (`ingest/room.rs`), it is 429, unless it is a repeat.
//! 4. [`journal::Journal::submit`] hands it to the writer thread, which commits whatever waits as one
//!    group: log entry, payload, idempotency claim, one fsync.
//! 5. 202.
//! 6. The [`delivery`] lane of each sink wakes, takes entries from memory (or from the file if it lags),
//!    makes a [`batch::Batch`] of them and lends it to the plugin by handle.
//! 7. What the plugin staged, and the lane's cursor, commit in one transaction of [`pool::Pool::settle`].
//!
//! A batch that a sink does not take becomes a retry or dead letters in the same transaction, so that nothing behind it
//! waits (in strict order it does, for as long as its attempts last). A batch is known by its items, as its requests are
//! known by theirs ([`batch::Batch::identity`]): what is in it is stored before a sink that reaches others is called, and
//! exactly that comes again after a crash ([`pool::waiting`]); what the sink has settled when it fails does not. The daemon reads its configuration again when a file changes: a lane is handed
//! settings and a plugin that were tried out, and goes on with them at the edge of a batch.
//!
//! A crash before 4 is done: as if it was never sent. After 4: stored, and delivered once; a repeat with
//! the same idempotency key gets the same answer.
//!
//! A removal goes the same way from 4 on: its payload is the key, its place is its sequence number. Lanes hand removals
//! to their sinks in batches of their own. What was removed is remembered in the pool (`pool/removal.rs`) until every
//! sink has passed it, so that nothing older, tried again, brings it back.
//!
//! A request is sent again as a new one that begins at 4: with the items of the old one that nothing accepted later has
//! changed, or, if that was refused, with what flattening makes of its kept body by the connector's settings of today
//! ([`ingest::Ingest::send_again`]).
//!
//! # The way of a signed request
//!
//! A tool that signs sends to the address of its connector, `/api/webhook/{stream}/{connector}`. It carries no key, so who
//! vouches for it is known only when its body is there:
//!
//! 1. [`ingest::Ingest::admit`] looks up the connector's signing keys for the stream, and asks their [`sender::Verifier`]s
//!    about the headers: what is missing, or too old, is 401 before a byte of the body is read.
//! 2. The body is read with the same cap and deadline, and verified as it came. Only now is the rate of the key charged.
//!    What fails is charged to the connector's budget of failures, and its reason goes to the connector's log.
//! 3. [`sender::handshake`] answers greetings, of which nothing is stored. [`sender::body`] makes JSON of what tools send.
//! 4. What identifies items and repeats, which event it is and which 2xx the tool wants comes from the connector, or else
//!    from a row of the table of [`sender::presets()`]. From here it goes the way of any request.
//!
//! A request with a key of the connector goes the same way without the signature.
//!
//! # The way of a change
//!
//! 1. A sink stages upserts and which items renderers are told of. In the commit each item that is really
//!    written takes the next number of one sequence over all streams. `epoch:number` is a position. Numbers are reserved
//!    on the disk in advance, about a thousand at once; after a kill the sequence goes on behind them.
//! 2. Under the writer's lock the changes go into [`pool::changes`]: for each stream that somebody follows,
//!    the newest change of each item, in the order of numbers, rendered to JSON once. Then bells ring.
//! 3. A [`live::Subscription`] is a position for each of its streams. When its bell rang, and no sooner than
//!    its rate allows, it takes what lies after its position: from memory, or from the file if the memory
//!    does not reach back, by an index on (stream, number). A snapshot is the same from number 0.
//! 4. [`http`] sends a message when the connection has room for the next. A slow renderer's position stays
//!    behind; what it has not taken is replaced by newer values where it lies, in no queue of its own.
//!
//! The id of a message is what to resume from after it. Positions end where removals have been forgotten (all but the
//! newest 100,000), and where another life of the file began: after a restore, or when a damaged file was rebuilt. Whoever
//! asks for such a position is told `reset` and everything.
//!
//! # The budget of a request
//!
#![doc = include_str!("budget.md")]
//!
//! What it cannot go below as it is built, counted in the same way for 200 B, 32 at once: an empty handler of the same
//! framework takes 25,400 instructions, and one upsert into a table with the pool's two indexes 17,000 to 18,500 in SQLite
//! alone, however the statement is written (13,800 without the index by number, which renderers resume from). A row of the
//! log and a payload are two inserts of 3,000 to 5,000 before anything is committed. A lone request pays for its own
//! transactions, about three pages of `journal.db` and three of `pool.db`; 32 at once share them.
//!
//! An eighth of all is the allocator. That of the C library with more room for each thread
//! (`GLIBC_TUNABLES=glibc.malloc.tcache_count=64`) executes 4 % less in all, of which two rounds in turn show 0 to 3 % as
//! time; those that are made for speed took 11 to 14 % less time when they were last tried, and kept 15 to 30 MB more after a
//! burst, which belong to the renderer.
//!
//! # Files
//!
//! | file | written by | flushed |
//! |---|---|---|
//! | `journal.db` | the journal's thread | at every group, before the 202 (bodies of refused webhook requests: with them) |
//! | `catalog.db` | the admin API and the admin pages: streams, connectors, keys, signing secrets, the audit trail; the daemon: when keys were used, and what they stored today | at every change; once a minute |
//! | `pool.db` | the lanes, one at a time | at every settlement: what was settled needs the journal no more; it keeps payloads a while longer for new sinks |
//! | `plugins/` | people | |
//! | `plugin-cache/` | the plugin engine | never; it can be deleted |
//! | `lock` | the daemon | held while it runs |
//! | `admin.token` | the daemon, once | |
//! | `ballast` | the daemon | 2 MiB that a start on a full disk gives up, to have room to open the files |
//! | `*.db.suspect` | who meets damage in a file: a lane, a request, or the look through the files after a start and once a day | at once; the next start looks at the file and removes it |
//! | `*.damaged-…`, `repairs.json` | a repair: what was set aside, and what became of it | before the new file takes the old one's name |
//!
//! Items and cursor lie in one file and one transaction. A backup copies the pool before the journal, and no payload is deleted in between, so
//! that the copies belong together in the same way. The lanes and the journal use the synchronous SQLite binding on
//! threads of their own: measured against statements through an asynchronous pool, the hops between threads cost more
//! than the statements. Their readers use sqlx, over the same SQLite library.
//!
//! # Invariants
//!
//! - Nothing that got a 202 is lost by `kill -9`, a full disk or a failing sink; with
//!   `durability = "fsync"` not by a power cut either.
//! - After a failed write or flush of any of the three files nothing more is acknowledged or written: one
//!   [`sqlite::Fuse`] ends the process with code 70, nothing is copied back from a write-ahead log, and the next
//!   start reads what is really on disk. A full disk, or another process that holds a file, is waited for.
//! - How old something is, and what is due, is measured in time lived ([`clock::Lived`]), never by the time of day:
//!   a clock that jumps deletes nothing early, keeps nothing for ever and makes nothing wait.
//! - Sequence numbers, not clocks, order everything. An item is overwritten only by a later one, and nothing from
//!   before its removal brings it back. (In a stream with `on_update = "merge"` this holds for each field.)
//! - Memory is bounded: waiting requests by bytes, recent entries and changes by bytes, plugins by their
//!   limits, a renderer by the size of one message.
//! - What a sink gave up is a dead letter until somebody sends it again or discards it. Sent again, it needs
//!   nothing of the journal, and keeps its place in the order of acceptance.
//! - What a sink has not behind it is kept, configured or not, until somebody forgets the sink.
//! - The sink `pool` runs unless the configuration switches it off in so many words, and a stream that no sink writes into
//!   the pool is named wherever problems are.
//! - Renderers see what the pool holds and nothing else, in the order in which it was committed.
//! - A plugin's file is compiled by a process of its own, with bounded memory and time.
//! - A plugin has no files and no sockets, bounded memory and time (what the host does for it included), a bounded voice
//!   in the log, and hurts its own lane only. It writes only the streams that its sink's `writes` lists; HTTP leaves it
//!   only for hosts that its sink's `http` table lists, and only to public addresses or listed networks; statements
//!   reach only the database that its sink's `postgres` table names.
//! - Keys are stored and looked up as digests; no secret stands in a log, metric, database or error, also if a receiver
//!   repeats it to a plugin. The one exception are signing secrets, which must be usable: those that were entered at run
//!   time lie in `catalog.db` as they are, and are never shown. Of headers only values on a short list are kept.
//! - Nothing of a signed request is decoded or parsed for its sender before its signature was found good over the bytes as
//!   they came. The 401 to strangers does not say whether there is such a connector.
//! - Every route of the admin listener but its health, its documentation and the sign-in page was made with the role that
//!   it needs; a session has the role that its token has at the moment.
//! - An entry of the audit trail carries the digest of the one before it: what is done to the trail is found.
//! - Traces are sent by a task with a queue of its own: without a collector no span is made, with one no request waits
//!   for it.
//! - What delivery needs of a request stands twice in the journal until every sink has it: in its log entry, and beside its
//!   payload. (Of requests that were accepted before `journal.db` had format 6 it stands once.)
//!
//! What is absent on purpose: no index over the request log, which each request would pay for (stretches of it say what is
//! in them), no update of a row for each processed request (a status is computed from
//! cursors, retries, dead letters and what was discarded when somebody asks), no queue for each sink (a lane is a cursor) or each
//! renderer (a subscription is a position), no tree of JSON values on the way of a request.
#![deny(unsafe_code)]

pub use ::backup;
pub use ::base::backoff;
pub use ::base::budget;
pub use ::catalog;
pub use ::item::batch;
pub mod cli;
pub use ::base::clock;
pub use ::settings as config;
pub mod daemon;
pub use ::base::opaque;
pub use ::base::process;
pub use ::base::text;
pub use ::delivery;
pub use ::guide;
pub use ::http;
pub use ::ingest;
pub use ::ingest::error;
pub use ::item;
pub use ::journal;
pub use ::live;
pub use ::observe::metrics;
pub use ::observe::telemetry;
pub use ::operate;
pub use ::plugin;
pub use ::pool;
pub use ::repair;
pub use ::sqlite;
pub use ::webhook as sender;
