//! The browsers: each a chromedriver in a process of its own, and windows of its one Chromium.
//!
//! **Invariant**: no process and no file of the browser outlives the tests, however they end: a shell waits for the
//! end of its input, which only this process holds open, and then kills the whole group.
#![expect(
    clippy::disallowed_methods,
    reason = "a blocking helper around another process: it polls"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Client, JSON, skipped};
use crate::program::{Lines, output};
use crate::wait::PROCESS_DEADLINE;

const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
const ARGUMENTS: [&str; 5] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-crash-reporter",
];
/// `$1`: the folder of everything that the browser writes.
const KEEPER: &str = "TMPDIR=$1 setsid chromedriver --port=0 & group=$!; read -r _; \
                      kill -s KILL -- -$group; wait; rm -rf -- \"$1\"";
/// What chromedriver says before its port.
const READY: &str = "started successfully on port ";

/// Keys without a character of their own (WebDriver, §17.4.2).
pub(super) mod key {
    pub(in super::super) const TAB: char = '\u{e004}';
    pub(in super::super) const ENTER: char = '\u{e007}';
    pub(in super::super) const CONTROL: char = '\u{e009}';
    pub(in super::super) const ESCAPE: char = '\u{e00c}';
    pub(in super::super) const RIGHT: char = '\u{e014}';
    pub(in super::super) const DOWN: char = '\u{e015}';
}

/// A Chromium of this process.
#[derive(Debug)]
struct Browser {
    chromedriver: SocketAddr,
    /// Path of the WebDriver session.
    session: String,
    /// The window that is always there; others are opened from it.
    home: String,
    focus: Mutex<Focus>,
    /// The end of its input is the end of the browser.
    _keeper: Child,
}

/// A WebDriver session has one current window, and one log for all of them.
#[derive(Debug, Default)]
struct Focus {
    window: String,
    log: Vec<String>,
}

/// A script that is awaited holds up all windows of its browser, so there are two.
static BROWSERS: [OnceLock<Browser>; 2] = [const { OnceLock::new() }; 2];
static WINDOWS: AtomicUsize = AtomicUsize::new(0);

impl Browser {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A Ctrl-C is for the tests; the shell has work to do after it.
            .process_group(0)
            .spawn()
            .expect("a shell");
        let mut lines = Lines::of(keeper.stdout.take().expect("piped"));
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once(READY)?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.expect("chromedriver says its port");
        let mut browser = Self {
            chromedriver: (Ipv4Addr::LOCALHOST, port).into(),
            session: String::new(),
            home: String::new(),
            focus: Mutex::default(),
            _keeper: keeper,
        };
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "timeouts": {"script": PROCESS_DEADLINE.as_millis(), "pageLoad": PROCESS_DEADLINE.as_millis()},
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let session = browser.call("POST", "/session", &wanted);
        let session = session.expect("the browser starts");
        let id = session["sessionId"].as_str().expect("a session");
        browser.session = format!("/session/{id}");
        let home = browser.call("GET", "/window", &Value::Null);
        let home = home.expect("the first window");
        home.as_str()
            .expect("a handle")
            .clone_into(&mut browser.home);
        browser
    }

    /// One WebDriver command: its value, or the error as text.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let path = format!("{}{path}", self.session);
        let answer = Client::connect(self.chromedriver)
            .and_then(|mut client| client.request(method, &path, JSON, &body));
        let answer = answer.map_err(|error| error.to_string())?;
        let value = answer.json()["value"].take();
        match value["error"].as_str() {
            Some(error) if answer.status != 200 => Err(format!("{error}: {}", value["message"])),
            _ => Ok(value),
        }
    }

    /// The same in a window.
    fn call_in(
        &self,
        window: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let mut focus = self.focus.lock().unwrap_or_else(PoisonError::into_inner);
        if focus.window != window {
            focus.window.clear();
            self.call("POST", "/window", &json!({"handle": window}))?;
            window.clone_into(&mut focus.window);
        }
        self.call(method, path, body)
    }
}

/// A window, closed when dropped.
#[derive(Debug)]
pub(super) struct Window {
    browser: &'static Browser,
    handle: String,
}

impl Window {
    /// A new window for the test of this name; `None` where there is no browser and none is required.
    pub(super) fn open(test: &str) -> Option<Self> {
        for program in PROGRAMS {
            let found = output(Command::new(program).arg("--version"));
            if found.is_err() {
                let required = std::env::var_os("CI").is_some();
                assert!(!required, "{test}: {program} is missing");
                skipped(test, &format!("there is no {program}"));
                return None;
            }
        }
        let number = WINDOWS.fetch_add(1, Ordering::Relaxed) % BROWSERS.len();
        let browser = BROWSERS[number].get_or_init(Browser::start);
        Some(Self::of(browser))
    }

    /// One more window beside this one.
    pub(super) fn another(&self) -> Self {
        Self::of(self.browser)
    }

    fn of(browser: &'static Browser) -> Self {
        // A tab would hide the one before it, and a page that is hidden draws nothing.
        let window = browser.call_in(
            &browser.home,
            "POST",
            "/window/new",
            &json!({"type": "window"}),
        );
        let window = window.expect("a window");
        let handle = window["handle"].as_str().expect("a handle");
        let window = Self {
            browser,
            handle: handle.to_owned(),
        };
        // Otherwise it is as large as the one that was looked at last, whatever test that is of.
        window.resize(1200, 900);
        window
    }

    /// Loads a page.
    #[track_caller]
    pub(super) fn go(&self, url: &str) {
        self.call("/url", &json!({"url": url})).expect(url);
    }

    /// A command of the browser's developer tools; its answer.
    #[track_caller]
    pub(super) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.call("/goog/cdp/execute", &body).expect(command)
    }

    /// Drags with the mouse from the middle of one element to just below the upper edge of another.
    #[track_caller]
    pub(super) fn drag(&self, from: &str, to: &str) {
        let ends = "document.querySelector(arguments[0]).scrollIntoView({block: 'center'}); \
             const [from, to] = [...arguments].map((it) => document.querySelector(it).getBoundingClientRect()); \
             return [from.x + from.width / 2, from.y + from.height / 2, to.x + to.width / 2, to.y + 3].map(Math.round)";
        let ends = self.run(ends, &json!([from, to]));
        let go = |x: usize, y: usize| json!({"type": "pointerMove", "duration": 60, "x": ends[x], "y": ends[y]});
        let actions = [
            go(0, 1),
            json!({"type": "pointerDown", "button": 0}),
            go(0, 3),
            go(2, 3),
            json!({"type": "pointerUp", "button": 0}),
        ];
        let mouse = json!({"type": "pointer", "id": "mouse", "actions": actions});
        self.call("/actions", &json!({"actions": [mouse]}))
            .expect("a mouse");
    }

    /// Presses the Enter key.
    #[track_caller]
    pub(super) fn press_enter(&self) {
        let enter = "\u{e007}";
        let keys = [
            json!({"type": "keyDown", "value": enter}),
            json!({"type": "keyUp", "value": enter}),
        ];
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.call("/actions", &actions).expect("a keyboard");
    }

    /// Gives the window another size, in pixels.
    #[track_caller]
    pub(super) fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height});
        self.call("/window/rect", &size).expect("a size");
    }

    /// Runs the body of a function with these `arguments`; what it returns, awaited.
    #[track_caller]
    pub(super) fn run(&self, script: &str, arguments: &Value) -> Value {
        let outcome = self.try_run(script, arguments);
        outcome.unwrap_or_else(|error| panic!("{error} in:\n{script}"))
    }

    /// Types as somebody at the keyboard does: characters, and the keys of [`key`], each pressed and released.
    #[track_caller]
    pub(super) fn keys(&self, text: &str) {
        let strokes = text.chars().flat_map(|character| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": character}))
        });
        self.press(&strokes.collect());
    }

    /// Presses a key while Control is held.
    #[track_caller]
    pub(super) fn control(&self, character: char) {
        let down = |value: char| json!({"type": "keyDown", "value": value});
        let up = |value: char| json!({"type": "keyUp", "value": value});
        self.press(&vec![
            down(key::CONTROL),
            down(character),
            up(character),
            up(key::CONTROL),
        ]);
    }

    #[track_caller]
    fn press(&self, strokes: &Vec<Value>) {
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.call("/actions", &actions).expect("keys");
    }

    /// Clicks an element as a mouse does, where it is on the screen.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        const TRIES: u32 = 20;
        let using = json!({"using": "css selector", "value": selector});
        for tries in 1.. {
            let found = self.call("/element", &using);
            let found = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
            let ids = found.as_object().expect("an element");
            let id = ids.values().next().and_then(Value::as_str);
            let path = format!("/element/{}/click", id.expect("its id"));
            match self.call(&path, &json!({})) {
                Ok(_) => return,
                // The live part of a page was exchanged in between.
                Err(error) if error.contains("stale element") && tries < TRIES => {}
                Err(error) => panic!("{selector}: {error:?}"),
            }
        }
    }

    /// Waits until a script returns this.
    #[track_caller]
    pub(super) fn shows(&self, script: &str, expected: &Value) {
        let as_expected = |value: &Value| value == expected;
        self.becomes(&format!("{expected}"), script, &json!([]), as_expected);
    }

    /// Notes in `window.said` what a button says from now on: it says "Copied" for two seconds, which a busy machine may
    /// not see.
    pub(super) fn listens_to(&self, button: &str) {
        let script = "const button = document.querySelector(arguments[0]); window.said = []; \
                      new MutationObserver(() => window.said.push(button.textContent)).observe(button, {childList: true})";
        self.run(script, &json!([button]));
    }

    /// Waits until what a script returns is as wanted.
    #[track_caller]
    pub(super) fn becomes(
        &self,
        what: &str,
        script: &str,
        arguments: &Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let outcome = self.try_run(script, arguments);
            match outcome {
                Ok(value) if wanted(&value) => return value,
                outcome => assert!(
                    started.elapsed() < PROCESS_DEADLINE,
                    "in vain: {what}\nof: {script}\nlast: {outcome:?}"
                ),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the browser logged about this origin since the last look: errors, refusals, breaches of policy.
    pub(super) fn log(&self, origin: &str) -> Vec<String> {
        let entries = self.call("/se/log", &json!({"type": "browser"}));
        let entries = entries.expect("the log");
        let focus = &self.browser.focus;
        let mut focus = focus.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.as_array().expect("a list") {
            focus.log.push(entry["message"].to_string());
        }
        let (own, others) = std::mem::take(&mut focus.log)
            .into_iter()
            .partition(|message| message.contains(origin));
        focus.log = others;
        own
    }

    fn try_run(&self, script: &str, arguments: &Value) -> Result<Value, String> {
        let body = json!({"script": script, "args": arguments});
        self.call("/execute/sync", &body)
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.browser.call_in(&self.handle, "POST", path, body)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let nothing = Value::Null;
        let closed = self
            .browser
            .call_in(&self.handle, "DELETE", "/window", &nothing);
        drop(closed);
    }
}
