//! The sinks: their plugins, their secrets, and what one of their settings means for another.
//!
//! **Invariant**: a secret stands where the plugin does not read it, or is told of.

use std::collections::BTreeMap;
use std::path::Path;

use super::Validator;
use crate::beginning::{no_changes, no_state, notes, removes_parts};
use crate::problem::{self, quoted};
use crate::{
    BUILT_IN_PLUGINS, Http, Leaves, Listed, OnUpdate, Ordering, Retry, Secret, Settings, Sink,
    SinkWhere, Start, Stream, checks, masking, pool, section,
};
use base::clock::millis;
use select::Where;

/// Why a sink cannot have several calls at once, if that is what it wants.
fn one_call_only(sink: &Sink) -> Option<&'static str> {
    if sink.in_flight == 1 {
        return None;
    }
    if sink.ordering == Ordering::Strict {
        return Some(
            "requires ordering = \"key\", because \"strict\" makes one call at a time; set it, or remove in_flight",
        );
    }
    let waits_for_others = sink.http.is_some() || sink.postgres.is_some();
    (!waits_for_others).then_some(
        "requires `http` or `postgres`, because other sinks do not wait for a receiver; remove in_flight",
    )
}

/// What is said of a sink that does not go with what it follows: the setting and the sentence. `is_set` tells what
/// somebody has set.
pub(crate) fn mode_mistakes(
    sink: &Sink,
    is_set: impl Fn(&str) -> bool,
) -> Vec<(&'static str, &'static str)> {
    const OF_LATEST: [(&str, &str); 5] = [
        (
            "start",
            "mode = \"latest\" always starts with all items of the data pool; remove start",
        ),
        (
            "retry.attempts",
            "with mode = \"latest\", the newest items are retried without limit; remove retry.attempts",
        ),
        (
            "ordering",
            "with mode = \"latest\", only the newest state of each item is sent, so no order applies; remove ordering",
        ),
        (
            "in_flight",
            "mode = \"latest\" makes one call at a time; remove in_flight",
        ),
        (
            "leaves",
            "with mode = \"latest\", an item that no longer matches `where` is always removed; remove leaves",
        ),
    ];
    const OF_JOURNAL: [(&str, &str); 2] = [
        (
            "shown",
            "requires mode = \"latest\", because the journal has only the values that sources sent",
        ),
        ("max_rate", "requires mode = \"latest\""),
    ];
    let mistakes = match sink.is_latest() {
        true => &OF_LATEST[..],
        false => &OF_JOURNAL[..],
    };
    // Settings that are printed have all of their defaults.
    let is_default = |setting: &str| match setting {
        // It says where such a sink starts, and the default does not.
        "start" => sink.start == Start::State,
        "retry.attempts" => sink.retry.attempts == Retry::default().attempts,
        "ordering" => sink.ordering == Ordering::default(),
        "in_flight" => sink.in_flight == 1,
        "leaves" => sink.leaves == Leaves::default(),
        "shown" => !sink.shown,
        _ => sink.max_rate == Sink::MAX_RATE,
    };
    let meant = |(setting, _): &&(&'static str, _)| is_set(setting) && !is_default(setting);
    mistakes.iter().filter(meant).copied().collect()
}

impl Validator<'_> {
    /// Resolves what sinks refer to, and sees whether it fits together.
    pub(super) fn sinks(&mut self, settings: &mut Settings) {
        let plugins_dir = settings.storage.plugins_dir();
        for (index, sink) in settings.sinks.iter_mut().enumerate() {
            if sink.name == pool::NAME && !settings.pool.enabled {
                let switch = match self.origins.of("pool.enabled") {
                    Some(origin) => origin.to_string(),
                    None => "default".to_owned(),
                };
                self.problem(
                    &format!("sinks[{index}]"),
                    format!(
                        "the sink pool is defined here, but {switch} disables it (pool.enabled = false); remove one of the two"
                    ),
                );
            }
            self.sink(index, sink, &plugins_dir, &settings.streams);
        }
        for (index, sink) in settings.sinks.iter().enumerate() {
            if let Some((setting, why)) = sink.conflict_with(&settings.sinks) {
                self.problem(&format!("sinks[{index}].{setting}"), why);
            }
        }
        for (index, sink) in settings.sinks.iter().enumerate() {
            if sink.is_latest()
                && let Some(why) = no_changes(sink, &settings.sinks)
            {
                let message = format!("\"latest\" is not possible: {why}");
                self.problem(&format!("sinks[{index}].mode"), message);
                continue;
            }
            if sink.start == Start::State
                && !sink.is_latest()
                && let Some(why) = no_state(sink, &settings.sinks)
            {
                let message = format!("\"state\" is not possible: {why}");
                self.problem(&format!("sinks[{index}].start"), message);
            }
            if sink.start != Start::Now {
                for note in notes(sink, &settings.streams, &settings.sinks) {
                    let message = format!("the sink {}: {note}", quoted(&sink.name));
                    self.warning(&format!("sinks[{index}].start"), message);
                }
            }
        }
    }

    /// Resolves what a sink refers to, and sees whether its settings fit together.
    pub(crate) fn sink(
        &mut self,
        index: usize,
        sink: &mut Sink,
        plugins_dir: &Path,
        streams: &[Stream],
    ) {
        if let Some(http) = &mut sink.http {
            self.http(&format!("sinks[{index}].http"), http);
        }
        if let Some(postgres) = &mut sink.postgres {
            let path = format!("sinks[{index}].postgres.url");
            match postgres.url.resolve(&self.env) {
                Ok(()) => self.secret_shape(&path, &postgres.url, checks::postgres_url),
                Err(error) => self.problem(&path, error.to_string()),
            }
        }
        for (name, secret) in &mut sink.secrets {
            if let Err(error) = secret.resolve(&self.env) {
                let path = problem::join(&format!("sinks[{index}].secrets"), name);
                self.problem(&path, error.to_string());
            }
        }
        if !BUILT_IN_PLUGINS.contains(&sink.plugin.as_str()) {
            let path = format!("sinks[{index}].plugin");
            self.plugin_file(&path, plugins_dir, &mut sink.plugin);
        } else if sink.sha256.is_some() {
            self.problem(
                &format!("sinks[{index}].sha256"),
                format!("\"{}\" is built in; only a file can be pinned", sink.plugin),
            );
        }
        self.plugin_secrets(&format!("sinks[{index}].config"), &sink.config);
        let writes = sink.writes();
        let unlisted = sink.targets().find(|to| writes.lists(to) == Listed::No);
        if let Some(target) = unlisted {
            let message = format!(
                "does not list {}, to which a rule sends items, so they become dead letters; add it, or change the rule",
                quoted(target)
            );
            self.warning(&format!("sinks[{index}].writes"), message);
        }
        self.retry(&format!("sinks[{index}].retry.max_ms"), &sink.retry);
        let path = format!("sinks[{index}]");
        let is_set = |setting: &str| self.origins.of(&format!("{path}.{setting}")).is_some();
        for (setting, message) in mode_mistakes(sink, is_set) {
            self.problem(&format!("{path}.{setting}"), message.to_owned());
        }
        if let Some(own) = sink.makes.iter().find(|made| sink.matches(made)) {
            let message = format!(
                "names the stream {own}, which the sink receives, so it would receive what it makes; add {own} to `except`",
                own = quoted(own)
            );
            self.problem(&format!("{path}.makes"), message);
        }
        if let Some(why) = one_call_only(sink) {
            self.problem(&format!("sinks[{index}].in_flight"), why.to_owned());
        }
        self.selection(index, sink, streams);
    }

    /// What is read of `where` and `fields` may be something else than was meant.
    fn selection(&mut self, index: usize, sink: &Sink, streams: &[Stream]) {
        let spaced = sink.fields.as_ref().and_then(|one| one.fields().spaced());
        if let Some(spaced) = spaced {
            self.warning(&format!("sinks[{index}].fields"), with_space(&spaced));
        }
        let conditions = sink.r#where.as_ref().map(SinkWhere::conditions);
        let removes = sink.leaves == Leaves::Remove && !sink.is_latest();
        if removes && conditions.is_none_or(Where::is_empty) {
            self.warning(
                &format!("sinks[{index}].leaves"),
                "has no effect without `where`, because all items match; set `where`, or remove this".to_owned(),
            );
        }
        let Some(conditions) = conditions else {
            return;
        };
        let path = format!("sinks[{index}].where");
        if let Some(spaced) = conditions.spaced() {
            self.warning(&path, with_space(&spaced));
        }
        if removes && let Some(why) = removes_parts(sink, streams) {
            self.problem(&format!("sinks[{index}].leaves"), why);
            return;
        }
        let mut merged = streams
            .iter()
            .filter(|stream| stream.on_update == OnUpdate::Merge && sink.matches(&stream.name));
        // The whole item is looked at.
        if sink.is_latest() {
            return;
        }
        if let Some(field) = conditions.field()
            && let Some(stream) = merged.next()
        {
            let (field, stream) = (quoted(&field), quoted(&stream.name));
            let message = format!(
                "checks the field {field}, but updates of the stream {stream} are merged: an update without the field is checked as if the item had none"
            );
            self.warning(&path, message);
        }
    }

    fn retry(&mut self, path: &str, retry: &Retry) {
        if retry.max_ms < retry.first_ms {
            let (first_ms, max_ms) = (millis(*retry.first_ms), millis(*retry.max_ms));
            let message = format!(
                "{max_ms} is shorter than the first pause, retry.first_ms = {first_ms}; set a longer time"
            );
            self.problem(path, message);
        }
    }

    /// What is in `config` is the plugin's, and no secret.
    fn plugin_secrets(&mut self, path: &str, config: &serde_json::Value) {
        let headers = config["headers"].as_object();
        let authorization = headers.and_then(|headers| {
            let mut names = headers.keys();
            names.find(|name| name.eq_ignore_ascii_case("authorization"))
        });
        let refused = authorization.map(|name| problem::join("headers", name));
        if let Some(place) = &refused {
            self.problem(
                &format!("{path}.{place}"),
                "a secret is not allowed in `config`, which the plugin reads; put it into `http.headers` of this sink, whose values it never sees: headers = { authorization = { env = \"…\" } }".to_owned(),
            );
        }
        for place in masking::named_secrets(config) {
            if Some(&place) != refused.as_ref() {
                self.warning(
                    &format!("{path}.{place}"),
                    "its name is that of a secret, and the plugin reads it; `http.headers` and `secrets` of the sink keep secrets in files and variables".to_owned(),
                );
            }
        }
    }

    /// Headers whose values are secrets.
    pub(super) fn headers(&mut self, path: &str, headers: &mut BTreeMap<String, Secret>) {
        for (name, secret) in headers {
            let path = problem::join(path, name);
            match secret.resolve(&self.env) {
                Ok(()) => self.secret_shape(&path, secret, checks::header_value),
                Err(error) => self.problem(&path, error.to_string()),
            }
        }
    }

    fn http(&mut self, path: &str, http: &mut Http) {
        self.headers(&format!("{path}.headers"), &mut http.headers);
        let open = http.hosts().into_iter().find(|host| !host.is_encrypted());
        if let (Some(host), false) = (open, http.headers.is_empty()) {
            self.warning(
                &format!("{path}.headers"),
                format!("they are also sent to {host}, without encryption; use a host with TLS"),
            );
        }
    }

    /// Makes a path of a bare name, and looks whether the file is there.
    fn plugin_file(&mut self, path: &str, plugins_dir: &Path, plugin: &mut String) {
        let name = plugin.clone();
        if !plugin.contains('/') && !plugin.ends_with(".wasm") {
            *plugin = section::in_folder(plugins_dir, plugin);
        }
        if Path::new(plugin).is_file() {
            return;
        }
        let name = name.rsplit('/').next().unwrap_or_default();
        let meant = match problem::nearest(name, BUILT_IN_PLUGINS.iter().copied()) {
            Some(meant) => format!("; did you mean \"{meant}\"?"),
            None => format!("; built in: {}", BUILT_IN_PLUGINS.join(", ")),
        };
        self.problem(
            path,
            format!("neither a built-in plugin nor a file: {plugin}{meant}"),
        );
    }
}

fn with_space(text: &str) -> String {
    format!(
        "has {}, which begins or ends with a space: spaces belong to names and values",
        quoted(text)
    )
}
