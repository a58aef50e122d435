//! The integration tests: the real daemon with real sockets and real files, and the real binary.
//!
//! One binary, so that it links once. `app` is what the modules share; each other module is an area of
//! behaviour, and a test's name says what it shows.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "what a test measures is printed"
)]

mod accept; // the contract's tables of submitting: statuses, codes, headers, order of the checks
mod access; // who may call the admin listener, and from where
mod acts; // operators: overrides, holds, undo
mod again; // looking at a request, sending it again
mod app; // the daemon in a temporary folder, and those who talk to it
mod backup; // backups under load, restores, what is no backup
mod browser; // pages in a real browser, against the real program
mod canary; // every secret is put everywhere, and then looked for
mod catalog; // streams, connectors and keys that are made at run time
mod clients; // client libraries: their shared cases, and the real daemon, which is killed
mod cluster;
mod command_line; // the binary's verbs, against a running daemon
mod deploy; // the files to deploy from: nginx in front, the unit
mod embedded; // what a daemon without a cluster consists of
mod encrypted; // TLS, and certificates of clients
mod faults; // kills, failing calls, power cuts, full disks, damaged files, clocks, signals
mod feeds; // streams as tables for programs that only poll: formats, who may, what is kept, what consumers need
mod guests; // sinks that misbehave, and what they cost the others
mod guide; // the README and the guide: commands that run, settings and codes that are complete
mod head; // HEAD wherever GET is
mod hostile; // texts that break pages and terminals
mod idempotency; // repeats: answered like the first, processed by nobody
mod items; // items from the body to the pool: flattening, keys, updates, depth
mod json_suite; // JSON as parsers are tested with
mod languages; // sinks in every language of the examples, and new projects
mod listeners; // health, documents, metrics, Unix sockets, stopping
mod live; // renderers follow streams: messages, resuming, who may, reading, removing, slow ones
mod log; // the request log and the admin API around it
mod openapi; // the documents: valid, complete, true; and the pages made from them
mod order; // operations in the order in which they were accepted, within a request and over many
mod outage; // sinks that are down, and starts with much that waits
mod own_pages; // the files of the folder pages
mod packages; // the image, the package, the files of a release
mod pages; // the pages of the admin listener over HTTP
mod pool; // the pool as people query it
mod privilege; // what the daemon leaves to others: its files, its rights, its limits
mod problems; // the daemon's own problems as a stream; what waits for long begins before the last tests
mod process; // the real program in a process of its own
mod program; // any program, to its end or line by line
mod reach; // what reaches the data pool, and what is said of what does not
mod readmes; // every configuration that a README or the guide shows
mod receiver; // somebody whom sinks call
mod roles; // what each role may do on the admin listener
mod schemathesis; // calls made from the documents, and every answer held against them
mod screens; // what is known of screens, here or away
mod senders; // tools that sign what they send
mod setup; // what is configured, and where a daemon lives
mod shares; // what one key, screen or stranger can take, and what is left for others
mod sinks; // sinks that are made at run time: by the admin API, page and command line
mod stored; // what a daemon has stored, read and changed beside it
mod structure; // the house rules that a text search can hold
mod traces; // what a collector is told of a request's way
mod unauthenticated; // from where requests come, and those whom no key vouches for
mod wait; // for what happens by itself
mod watch; // metrics, alert rules, the dashboard, and the guide's table of them
mod words; // the words of texts that people read
