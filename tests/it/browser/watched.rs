//! A client of `headgate.js` in a page, seen from outside.

use serde_json::{Value, json};

use super::daemon::READ_KEY;
use super::driver::Window;

/// A client that records what it tells its page.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    window: &'a Window,
    number: Value,
}

impl<'a> Watched<'a> {
    /// Loads `headgate.js` into the page that the window shows.
    #[track_caller]
    pub(super) fn load(window: &Window, script: &str) {
        window.run(include_str!("watched.js"), &json!([script]));
    }

    /// Opens a client for one stream with the read key; `options` are further ones of `connect()`.
    #[track_caller]
    pub(super) fn open(window: &'a Window, stream: &str, options: &Value) -> Self {
        let mut all = json!({"streams": [stream], "key": READ_KEY});
        for (name, value) in options.as_object().expect("options") {
            all[name] = value.clone();
        }
        let number = window.run("return watched.open(arguments[0])", &json!([all]));
        Self { window, number }
    }

    /// Its number, which the functions of `watched` take.
    pub(super) fn number(&self) -> &Value {
        &self.number
    }

    /// What a view holds: `complete`, `stale`, and `items` as pairs of a key and pairs of field and value.
    #[track_caller]
    pub(super) fn view(&self, stream: &str) -> Value {
        self.window.run(VIEW, &json!([self.number, stream]))
    }

    /// Waits until a view is as wanted.
    #[track_caller]
    pub(super) fn view_becomes(
        &self,
        what: &str,
        stream: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let arguments = json!([self.number, stream]);
        self.window.becomes(what, VIEW, &arguments, wanted)
    }

    /// Waits until a view is current and holds these items.
    #[track_caller]
    pub(super) fn holds(&self, stream: &str, items: &Value) {
        let expected = json!({"complete": true, "stale": false, "items": items});
        self.view_becomes(&expected.to_string(), stream, |view| *view == expected);
    }

    /// How it is connected, what it told of that, and the changes that it told.
    #[track_caller]
    pub(super) fn state(&self) -> Value {
        self.window.run(STATE, &json!([self.number]))
    }

    /// Waits until its state is this.
    #[track_caller]
    pub(super) fn becomes(&self, state: &str) -> Value {
        let arguments = json!([self.number]);
        let wanted = |found: &Value| found["state"] == state;
        self.window.becomes(state, STATE, &arguments, wanted)
    }

    /// How many snapshots it was given.
    #[track_caller]
    pub(super) fn snapshots(&self) -> usize {
        let state = self.state();
        let changes = state["changes"].as_array().expect("a list");
        let snapshots = changes.iter().filter(|change| change["snapshot"] == true);
        snapshots.count()
    }

    /// Ends it.
    pub(super) fn close(&self) {
        let close = "watched.close(arguments[0])";
        self.window.run(close, &json!([self.number]));
    }
}

const VIEW: &str = "return watched.view(arguments[0], arguments[1])";
const STATE: &str = "return watched.state(arguments[0])";
