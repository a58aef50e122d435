//! What all sources together must say, and what one setting means for another: what is missing, references, secrets,
//! collisions; and warnings.
//!
//! Called by [`load`](super::load) on the merged settings, after every value has been checked on its own.
//!
//! **Invariant**: a mistake is reported once: what only follows from a value that was already refused is left out.

mod tokens;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::merge::Origins;
use super::problem::{self, Origin, Problem, quoted};
use super::schema::{Field, ROOT, Shape};
use super::{
    BUILT_IN_PLUGINS, ClientCertificates, Durability, Http, Listed, ProxyHeader, Secret, Settings,
    Tls, Verify, checks, hidden, pool,
};
use crate::clock;
use crate::sender::{self, CANDIDATES_MAX, Verifier};

/// Collects the problems and warnings of merged settings.
pub(super) struct Validator<'a> {
    origins: &'a Origins,
    env: HashMap<&'a str, &'a str>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl<'a> Validator<'a> {
    pub(super) fn new(origins: &'a Origins, env: &'a [(String, String)]) -> Self {
        Validator {
            origins,
            env: env
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Checks everything and resolves the secrets.
    pub(super) fn run(&mut self, settings: &mut Settings) {
        self.whole("", ROOT);
        self.admin_token(settings);
        self.admin_tokens(settings);
        self.listeners(settings);
        self.encryption(settings);
        self.limits(settings);
        self.keys(settings);
        self.delete_when(settings);
        self.sinks(settings);
        self.general_warnings(settings);
    }

    /// Whether all sources together say what must be said of each element of a list.
    fn whole(&mut self, path: &str, fields: &[Field]) {
        for field in fields {
            let list = problem::join(path, field.name);
            let element = match field.shape {
                Shape::Tables(element) => element,
                Shape::Table(fields) => {
                    self.whole(&list, fields);
                    continue;
                }
                _ => continue,
            };
            for index in 0.. {
                let path = format!("{list}[{index}]");
                if self.origins.of(&path).is_none() {
                    break;
                }
                let said = |name: &str| self.origins.of(&problem::join(&path, name)).is_some();
                let missing = element.fields.iter();
                let missing: Vec<_> = missing.filter(|f| f.required && !said(f.name)).collect();
                let has_key = element.one_of.is_empty() || element.one_of.iter().any(|k| said(k));
                for field in missing {
                    let message = format!("missing; wants {}", field.shape.wants());
                    self.problem(&problem::join(&path, field.name), message);
                }
                if !has_key {
                    self.problem(&path, format!("has no key; wants {}", element.either()));
                }
                self.whole(&path, element.fields);
            }
        }
    }

    fn listeners(&mut self, settings: &Settings) {
        let was_refused = |path| self.origins.was_refused(path);
        if was_refused("server.listen") || was_refused("admin.listen") {
            return;
        }
        if settings.server.listen.collides_with(&settings.admin.listen) {
            self.problem(
                "admin.listen",
                format!(
                    "\"{}\" collides with server.listen, \"{}\"; the two need addresses of their own",
                    settings.admin.listen, settings.server.listen
                ),
            );
        }
    }

    fn limits(&mut self, settings: &Settings) {
        let limits = &settings.limits;
        if limits.max_flattened_bytes < limits.max_body_bytes {
            self.warning(
                "limits.max_flattened_bytes",
                "smaller than limits.max_body_bytes: bodies within the limit may be refused once flattened".to_owned(),
            );
        }
        if limits.max_pending_bytes < limits.max_flattened_bytes {
            self.warning(
                "limits.max_pending_bytes",
                "smaller than limits.max_flattened_bytes: the largest requests may always be answered 503".to_owned(),
            );
        }
    }

    fn keys(&mut self, settings: &mut Settings) {
        let streams: Vec<String> = settings.streams.iter().map(|s| s.name.clone()).collect();
        let mut digests = HashMap::new();
        let public_url = settings.server.public_url.as_deref();
        for (i, connector) in settings.connectors.iter_mut().enumerate() {
            let mut candidates: HashMap<String, usize> = HashMap::new();
            for (j, key) in connector.keys.iter_mut().enumerate() {
                let path = format!("connectors[{i}].keys[{j}]");
                if key.verify.is_some() {
                    let before = candidates.entry(key.stream.clone()).or_default();
                    *before += 1;
                    if *before == CANDIDATES_MAX + 1 {
                        let message = format!(
                            "one more than the {CANDIDATES_MAX} keys of a stream that a delivery is tried with; take those away that have ended"
                        );
                        self.problem(&format!("{path}.verify"), message);
                    }
                }
                self.declared(&format!("{path}.stream"), &key.stream, &streams);
                let verified = match &mut key.verify {
                    Some(verify) => self.verify(&path, verify, public_url),
                    None => self.resolve(&path, &mut key.secret, checks::ingest_key),
                };
                if verified {
                    let label = format!(
                        "{} ({} of {})",
                        self.locate(&path, String::new()).path,
                        quoted(&key.name),
                        quoted(&connector.name)
                    );
                    self.distinct_key(&mut digests, &path, label, key.digest());
                }
            }
        }
        for (i, key) in settings.read_keys.iter_mut().enumerate() {
            let path = format!("read_keys[{i}]");
            for (j, stream) in key.streams.iter().enumerate() {
                self.declared(&format!("{path}.streams[{j}]"), stream, &streams);
            }
            if self.resolve(&path, &mut key.secret, checks::read_key) {
                let shown = self.locate(&path, String::new()).path;
                let label = format!("{shown} ({})", quoted(&key.name));
                self.distinct_key(&mut digests, &path, label, key.digest());
            }
        }
    }

    /// A rule of removals has a field and values.
    fn delete_when(&mut self, settings: &Settings) {
        let streams = settings.streams.iter().map(|one| &one.delete_when);
        let connectors = settings.connectors.iter().map(|one| &one.delete_when);
        for (list, rules) in [
            ("streams", streams.collect::<Vec<_>>()),
            ("connectors", connectors.collect()),
        ] {
            for (index, when) in rules.iter().enumerate() {
                if let Some(when) = when
                    && (when.field.is_empty() || when.is.is_empty())
                {
                    let message = "wants a field, and the values with which it removes: { field = \"_event\", is = [\"orders/delete\"] }";
                    self.problem(&format!("{list}[{index}].delete_when"), message.to_owned());
                }
            }
        }
    }

    fn sinks(&mut self, settings: &mut Settings) {
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
                        "the sink pool is declared here, and {switch} does without it (pool.enabled = false); take one of the two away"
                    ),
                );
            }
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
                self.plugin_file(&path, &plugins_dir, &mut sink.plugin);
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
                    "does not list {}, where a rule puts items: they will be dead letters",
                    quoted(target)
                );
                self.warning(&format!("sinks[{index}].writes"), message);
            }
            if sink.retry.max_ms < sink.retry.first_ms {
                self.problem(
                    &format!("sinks[{index}].retry.max_ms"),
                    format!(
                        "{} is shorter than the first pause, retry.first_ms = {}",
                        sink.retry.max_ms, sink.retry.first_ms
                    ),
                );
            }
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
                "no secret may stand in `config`, which the plugin reads; put it into `http.headers` of this sink, whose values it never sees: headers = { authorization = { env = \"…\" } }".to_owned(),
            );
        }
        for place in hidden::named_secrets(config) {
            if Some(&place) != refused.as_ref() {
                self.warning(
                    &format!("{path}.{place}"),
                    "its name is that of a secret, and the plugin reads it; `http.headers` and `secrets` of the sink keep secrets in files and variables".to_owned(),
                );
            }
        }
    }

    fn http(&mut self, path: &str, http: &mut Http) {
        for (name, secret) in &mut http.headers {
            let path = problem::join(&format!("{path}.headers"), name);
            match secret.resolve(&self.env) {
                Ok(()) => self.secret_shape(&path, secret, checks::header_value),
                Err(error) => self.problem(&path, error.to_string()),
            }
        }
        let open = http.hosts().into_iter().find(|host| !host.is_encrypted());
        if let (Some(host), false) = (open, http.headers.is_empty()) {
            self.warning(
                &format!("{path}.headers"),
                format!("they are sent to {host} too, without encryption"),
            );
        }
    }

    /// Makes a path of a bare name, and looks whether the file is there.
    fn plugin_file(&mut self, path: &str, plugins_dir: &Path, plugin: &mut String) {
        let name = plugin.clone();
        if !plugin.contains('/') && !plugin.ends_with(".wasm") {
            let file = plugins_dir.join(format!("{plugin}.wasm"));
            *plugin = file.to_string_lossy().into_owned();
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

    fn general_warnings(&mut self, settings: &Settings) {
        if settings.storage.durability == Durability::Os {
            self.warning(
                "storage.durability",
                "\"os\": a power cut may lose requests that were answered 202".to_owned(),
            );
        }
    }

    /// Files that are missing, and connections that anybody can read.
    fn encryption(&mut self, settings: &Settings) {
        let listeners = [
            ("server", &settings.server.listen, &settings.server.tls),
            ("admin", &settings.admin.listen, &settings.admin.tls),
        ];
        for (name, listen, tls) in listeners {
            let path = format!("{name}.tls");
            match tls {
                Some(tls) => self.tls(&path, tls),
                None if self.origins.was_refused(&path) || listen.is_local() => {}
                None if name == "server" => self.warning(
                    "server.listen",
                    format!("\"{listen}\" can be reached from other machines, and keys are sent there without encryption: set server.tls, or put a proxy with TLS in front"),
                ),
                None if settings.admin.insecure => self.warning(
                    "admin.listen",
                    format!("\"{listen}\" can be reached from other machines, and is not encrypted"),
                ),
                None => self.problem(
                    "admin.listen",
                    format!("\"{listen}\" can be reached from other machines, and is not encrypted: set admin.tls, or listen on 127.0.0.1 or a Unix socket behind a proxy with TLS; admin.insecure = true lets tokens be sent in the open"),
                ),
            }
        }
        if settings.server.proxy_header == ProxyHeader::ProxyProtocol
            && settings.server.trusted_proxies.is_empty()
        {
            let message = "\"proxy-protocol\" is for the proxies that server.trusted_proxies lists, and it lists none";
            self.warning("server.proxy_header", message.to_owned());
        }
    }

    fn tls(&mut self, path: &str, tls: &Tls) {
        for (name, file) in [("certificate", &tls.certificate), ("key", &tls.key)] {
            if file.as_os_str().is_empty() && !self.origins.was_refused(path) {
                let message = "missing; wants the path of a file in PEM".to_owned();
                self.problem(&format!("{path}.{name}"), message);
            }
        }
        if tls.client_ca.is_some() && tls.client_certificates == ClientCertificates::None {
            let message = "without client_certificates = \"optional\" or \"required\" no certificate is asked for".to_owned();
            self.problem(&format!("{path}.client_ca"), message);
        }
    }

    /// Resolves the secret of a key; false if the key has no usable digest.
    fn resolve(&mut self, path: &str, secret: &mut Option<Secret>, check: checks::Check) -> bool {
        let path = format!("{path}.secret");
        let Some(secret) = secret else {
            return true;
        };
        match secret.resolve(&self.env) {
            Ok(()) => {
                self.secret_shape(&path, secret, check);
                true
            }
            Err(error) => {
                self.problem(&path, error.to_string());
                false
            }
        }
    }

    /// Resolves the secrets of a signing key and sees whether they fit the scheme; false if it is of no use.
    fn verify(&mut self, path: &str, verify: &mut Verify, public_url: Option<&str>) -> bool {
        let path = format!("{path}.verify");
        let problems = self.problems.len();
        if verify.awaits_secret() {
            let message = "missing: the key verifies nothing yet; when the tool has sent its own secret, the connector's page shows it, to be set here";
            self.warning(&format!("{path}.secret"), message.to_owned());
        } else if verify.secret.is_none() {
            let wants = Shape::Secret.wants();
            self.problem(&format!("{path}.secret"), format!("missing; wants {wants}"));
        }
        let preset = sender::preset(&verify.options.scheme);
        let is_published = preset.is_some_and(|preset| preset.published().is_some());
        let secrets = [
            ("secret", &mut verify.secret),
            ("verify_token", &mut verify.verify_token),
        ];
        for (name, secret) in secrets {
            let path = format!("{path}.{name}");
            if let Some(secret) = secret {
                match secret.resolve(&self.env) {
                    // Anybody may read it.
                    Ok(()) if is_published => {}
                    Ok(()) => self.secret_shape(&path, secret, |_| Ok(())),
                    Err(error) => self.problem(&path, error.to_string()),
                }
            }
        }
        if self.problems.len() > problems {
            return false;
        }
        match verify.verifier() {
            Err(unfit) => self.problem(&format!("{path}.{}", unfit.field), unfit.message),
            Ok(verifier) if verifier.signs_url() && verifier.url().is_none() && public_url.is_none() => self.problem(
                &format!("{path}.scheme"),
                format!(
                    "\"{}\" signs the URL that the tool was given: set server.public_url, or `url` here",
                    verify.options.scheme
                ),
            ),
            Ok(verifier) => self.weaknesses(&path, verify, &verifier),
        }
        if verify.options.tolerance_seconds == Some(0) {
            let message = "0: the age of a delivery is not looked at, so whoever has seen one can send it again later";
            self.warning(&format!("{path}.tolerance_seconds"), message.to_owned());
        }
        self.problems.len() == problems
    }

    /// What of a verification that works lets others in, or keeps the tool out.
    fn weaknesses(&mut self, path: &str, verify: &Verify, verifier: &Verifier) {
        let given = verify.options.details();
        for detail in verifier.preset().details {
            let is_given = given.contains(&(detail.name, None));
            if let Some(without) = detail.without.filter(|_| is_given) {
                let message = format!("missing: {without}");
                self.warning(&format!("{path}.{}", detail.name), message);
            }
        }
        if verifier.expired_ms(clock::unix_ms()).is_some() {
            let message = "the certificate has expired, so that nothing passes: set the newest one of the tool";
            self.warning(&format!("{path}.secret"), message.to_owned());
        }
    }

    fn secret_shape(&mut self, path: &str, secret: &Secret, check: checks::Check) {
        if let Err(message) = check(secret.reveal()) {
            self.problem(path, message);
        }
        if let Some(sentence) = secret.readable_by_others() {
            self.warning(path, sentence);
        }
    }

    fn distinct_key(
        &mut self,
        digests: &mut HashMap<[u8; 32], String>,
        path: &str,
        label: String,
        digest: Option<[u8; 32]>,
    ) {
        let Some(digest) = digest else {
            return;
        };
        if let Some(other) = digests.get(&digest) {
            let message = format!("the same key as {other}; every key needs a secret of its own");
            self.problem(path, message);
        } else {
            digests.insert(digest, label);
        }
    }

    fn declared(&mut self, path: &str, stream: &str, streams: &[String]) {
        // A stream whose own declaration was refused may well be the one that is meant here.
        if stream.is_empty()
            || self.origins.was_refused("streams")
            || streams.iter().any(|name| name == stream)
        {
            return;
        }
        let meant = match problem::nearest(stream, streams.iter().map(String::as_str)) {
            Some(meant) => format!("; did you mean {}?", quoted(meant)),
            None => "; declare it with [[streams]]".to_owned(),
        };
        self.problem(
            path,
            format!("the stream {} is not declared{meant}", quoted(stream)),
        );
    }

    fn problem(&mut self, path: &str, message: String) {
        let problem = self.locate(path, message);
        self.problems.push(problem);
    }

    fn warning(&mut self, path: &str, message: String) {
        let warning = self.locate(path, message);
        self.warnings.push(warning);
    }

    fn locate(&self, path: &str, message: String) -> Problem {
        let (origin, path) = match self.origins.nearest(path) {
            Some((origin, path)) => (origin.clone(), path),
            None => (Origin::of(0, &Arc::from("default")), path.to_owned()),
        };
        Problem {
            origin,
            path,
            message,
        }
    }
}
