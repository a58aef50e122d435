//! Pages in a real browser, against the real program: what a viewer sees, through kills, restarts and refusals.
//!
//! One Chromium for all tests, a window for each. Where `chromium` or `chromedriver` is missing the tests are skipped
//! and say so; with `CI` set that is a failure.
//!
//! **Invariant**: a test looks at a page only as a viewer or a script in it could, and waits for what must become
//! true, never for a time.

mod admin; // the pages of the admin listener
mod away; // every page with a node away, and with the database away
mod axe; // what axe-core finds on the pages
mod client; // headgate.js: resuming, storage, transports, values
mod cluster; // two nodes: the sinks move, and a sink is operated where it does not run
mod columns; // the columns of a stream's feeds: dragged, moved, typed
mod cookies; // who gets the cookie of a session
mod crash; // kill -9 under load
mod daemon; // the program at an address that outlives it
mod day; // an operator's day: override, hold, take, undo, release, and who did it
mod driver; // the browser and its windows
mod examples; // the example renderers
mod fonts; // the fonts of /render: what font= takes, and what it never shows
mod forms; // the forms of the admin pages
mod grid; // the grid of the lists
mod motion; // changes without end: no screen grows
mod names; // the names of clubs on screens: whole words, sizes by column
mod on_air; // what a screen shows when something is wrong: data or nothing
mod operate; // the page /operate: acts, holds, and what it says when they fail
mod origins; // tickets and foreign pages
mod proxy; // what stands between page and daemon
mod render; // the page /render/{stream}
mod screen; // pages that headgate screen makes
mod sinks; // a sink made by its page
mod site; // pages that do not come from the daemon
mod tools; // a tool that signs, from the list of them to its first request
mod watched; // a client of headgate.js, seen from outside
