//! What a process answers when a test asks it: what is submitted, and what the admin API says and does.
//!
//! **Invariant**: a wait that was in vain fails with what the daemon says of itself, and with its log.

use serde_json::Value;

use super::{Answer, Client, JSON, Process, bearer};
use crate::setup::{is_in_a_cluster, key_of};
use crate::wait::{PROCESS_DEADLINE, eventually, eventually_within};

impl Process {
    /// Submits a body to a stream; the answer's status and body.
    pub(crate) fn post(&self, stream: &str, headers: &str, body: &str) -> Answer {
        let headers = format!("{JSON}{headers}");
        self.ask("POST", "/api/ingest", &key_of(stream), &headers, body)
    }

    /// A connection to the service.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.service).expect("the daemon listens")
    }

    /// Calls the service with any secret; `headers` are whole lines that end in CRLF.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        secret: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let headers = format!("{}{headers}", bearer(secret));
        let answer = self.client().request(method, path, &headers, body);
        answer.expect("an answer")
    }

    /// Submits a body that must be accepted; its request id.
    pub(crate) fn accepted(&self, stream: &str, headers: &str, body: &str) -> String {
        let answer = self.post(stream, headers, body);
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.request_id()
    }

    /// Submits a body that every sink must take; its request id.
    pub(crate) fn processed(&self, stream: &str, headers: &str, body: &str) -> String {
        let id = self.accepted(stream, headers, body);
        self.request_becomes(&id, "processed");
        id
    }

    /// Submits a body of which a sink must give something up; its request id.
    pub(crate) fn failed(&self, stream: &str, headers: &str, body: &str) -> String {
        let id = self.accepted(stream, headers, body);
        self.request_becomes(&id, "failed");
        id
    }

    /// Removes an item; the request id.
    pub(crate) fn removed(&self, stream: &str, key: &str) -> String {
        let path = format!("/api/streams/{stream}/items/{key}");
        let answer = self.ask("DELETE", &path, &key_of(stream), "", "");
        assert_eq!(answer.status, 202, "{}", answer.body);
        answer.request_id()
    }

    /// What the admin listener answers. A daemon that has met damage says so and starts again: it is away for a moment.
    fn try_get(&self, path: &str) -> Option<Answer> {
        let mut client = Client::connect(self.admin).ok()?;
        let answer = client.get(path, &self.setup.admin_token()).ok()?;
        (answer.status != 503).then_some(answer)
    }

    fn get(&self, path: &str) -> Answer {
        let answer = eventually("the daemon answers", || self.try_get(path));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer
    }

    /// Gets something from the admin API; what stands under `data`.
    pub(crate) fn admin(&self, path: &str) -> Value {
        self.get(path).json()["data"].take()
    }

    /// Gets a list from the admin API.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        match self.admin(path) {
            Value::Array(list) => list,
            other => panic!("{path}: not a list: {other}"),
        }
    }

    /// What the status says is wrong, as JSON.
    pub(crate) fn problems(&self) -> String {
        self.admin("/api/admin/status")["problems"].to_string()
    }

    /// The metrics, as text.
    pub(crate) fn metrics(&self) -> String {
        self.get("/metrics").body
    }

    /// The value of a metric, by its name and labels as they are printed.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        value_of(&self.metrics(), series)
    }

    /// Waits until the files were looked through: damage is repaired then, whoever met it.
    pub(crate) fn looked_through(&self) {
        const SERIES: &str = "headgate_files_checked_timestamp_seconds";
        eventually("the files are looked through", || {
            let at = value_of(&self.try_get("/metrics")?.body, SERIES)?;
            (at != 0.0).then_some(())
        });
    }

    /// Calls the admin API.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut client = Client::connect(self.admin).expect("the daemon listens");
        let answer = client.call(method, path, &self.setup.admin_token(), body);
        answer.expect("an answer")
    }

    /// Makes something by the admin API: the answer, which is a 201.
    #[track_caller]
    pub(crate) fn make(&self, path: &str, body: &Value) -> Answer {
        let answer = self.call("POST", path, &body.to_string());
        assert_eq!(answer.status, 201, "{path}: {}", answer.body);
        answer
    }

    /// Calls the admin API of a daemon that may be gone; the status of the answer, if there is one.
    pub(crate) fn try_call(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let mut client = Client::connect(self.admin).ok()?;
        let answer = client
            .call(method, path, &self.setup.admin_token(), body)
            .ok()?;
        Some(answer.status)
    }

    /// How a sink is.
    pub(crate) fn sink(&self, name: &str) -> Value {
        let mut sinks = self.list("/api/admin/sinks").into_iter();
        let sink = sinks.find(|sink| sink["name"] == name);
        sink.expect("a sink of this name")
    }

    /// Waits until a sink is as wanted.
    pub(crate) fn sink_becomes(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually_within(
            PROCESS_DEADLINE,
            || {
                let sink = self.sink(name);
                format!(
                    "the sink {name} becomes {what}; it is {sink}\n{}",
                    self.log()
                )
            },
            || Some(self.sink(name)).filter(&wanted),
        )
    }

    /// Waits until nothing waits for any sink, retries included.
    pub(crate) fn drained(&self) {
        self.drained_when(|| self.is_drained());
    }

    /// Waits until the sinks have everything, which is what `look` says; it may have them try again.
    pub(crate) fn drained_when(&self, mut look: impl FnMut() -> bool) {
        eventually_within(
            PROCESS_DEADLINE,
            || {
                let sinks = self.admin("/api/admin/sinks");
                format!("the sinks have everything: {sinks}\n{}", self.log())
            },
            || look().then_some(()),
        );
    }

    /// Whether every sink has everything.
    pub(crate) fn is_drained(&self) -> bool {
        let runs = |sink: &Value| sink["state"] != "elsewhere" || !is_in_a_cluster();
        let done = |sink: &Value| sink["lag"] == 0 && sink["retries"] == 0 && runs(sink);
        self.list("/api/admin/sinks").iter().all(done)
    }

    /// A sink's dead letters, newest first.
    pub(crate) fn dead_letters(&self, sink: &str) -> Vec<Value> {
        self.list(&format!("/api/admin/sinks/{sink}/dead-letters?limit=500"))
    }

    /// A sink's one dead letter.
    #[track_caller]
    pub(crate) fn dead_letter(&self, sink: &str) -> Value {
        let letters = self.dead_letters(sink);
        let [letter] = &letters[..] else {
            panic!("one dead letter was expected: {letters:?}");
        };
        letter.clone()
    }

    /// A request as the admin API tells of it.
    pub(crate) fn request(&self, request_id: &str) -> Value {
        self.admin(&format!("/api/admin/requests/{request_id}"))
    }

    /// Waits until the log has a request with this status. It has a rejected one only after the answer.
    pub(crate) fn request_becomes(&self, request_id: &str, status: &str) -> Value {
        let path = format!("/api/admin/requests/{request_id}");
        let look = || Some(self.try_get(&path)?.json()["data"].take());
        eventually_within(
            PROCESS_DEADLINE,
            || {
                format!(
                    "a request becomes {status}; it is {:?}\n{}",
                    look(),
                    self.log()
                )
            },
            || look().filter(|request| request["status"] == status),
        )
    }
}

/// The value of a metric in what `/metrics` answers, by its name and labels as they are printed.
pub(crate) fn value_of(metrics: &str, series: &str) -> Option<f64> {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(value.parse().expect("a metric is a number"))
}
