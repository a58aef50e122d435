//! What all sources together must say, and what one setting means for another: what is missing, references, secrets,
//! collisions; and warnings. Keys, sinks and admin tokens are in `validate/`.
//!
//! Called by [`load`](super::load) on the merged settings, after every value has been checked on its own.
//!
//! **Invariant**: a mistake is reported once: what only follows from a value that was already refused is left out.

mod cluster;
mod keys;
mod sinks;
mod tokens;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;

use super::merge::Origins;
use super::problem::{self, Origin, Problem};
use super::record::Check;
use super::schema::{Field, ROOT, Shape};
use super::{ClientCertificates, Durability, ProxyHeader, Secret, Settings, Tls, is_daemons};
pub(crate) use sinks::mode_mistakes;

/// What is said of a stream with a name of the daemon's that people made before it had such names.
pub const OF_DAEMON: &str = "names that begin with `_` are reserved for the daemon. The stream works, but `*` in `streams` matches it only for the sink `pool`; choose another name";

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
        self.cluster(settings);
        self.listeners(settings);
        self.encryption(settings);
        self.limits(settings);
        self.keys(settings);
        self.delete_when(settings);
        self.versions(settings);
        self.sinks(settings);
        self.telemetry(settings);
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
                    let message = format!("missing; expected {}", field.shape.wants());
                    self.problem(&problem::join(&path, field.name), message);
                }
                if !has_key {
                    self.problem(&path, format!("has no key; expected {}", element.either()));
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
                    "\"{}\" collides with server.listen, \"{}\"; each needs its own address",
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
                "smaller than limits.max_body_bytes, so accepted body sizes can be too large once flattened; set at least the same value".to_owned(),
            );
        }
        if limits.max_pending_bytes < limits.max_flattened_bytes {
            self.warning(
                "limits.max_pending_bytes",
                "smaller than limits.max_flattened_bytes, so the largest requests may always be answered 503; set at least the same value".to_owned(),
            );
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
                    let message = "expected a field, and the values that remove an item: { field = \"_event\", is = [\"orders/delete\"] }";
                    self.problem(&format!("{list}[{index}].delete_when"), message.to_owned());
                }
            }
        }
    }

    /// What the collector of traces is sent with each request.
    fn telemetry(&mut self, settings: &mut Settings) {
        let otlp = &mut settings.telemetry.otlp;
        let path = "telemetry.otlp.headers";
        self.headers(path, &mut otlp.headers);
        let is_open = |endpoint: &String| endpoint.starts_with("http://");
        if otlp.endpoint.as_ref().is_some_and(is_open) && !otlp.headers.is_empty() {
            self.warning(
                path,
                "they are sent without encryption; use an https:// endpoint".to_owned(),
            );
        }
    }

    fn general_warnings(&mut self, settings: &Settings) {
        for (index, stream) in settings.streams.iter().enumerate() {
            if is_daemons(&stream.name) {
                let message = format!("{}: {OF_DAEMON}", problem::quoted(&stream.name));
                self.warning(&format!("streams[{index}].name"), message);
            }
        }
        if settings.storage.durability == Durability::Os {
            self.warning(
                "storage.durability",
                "\"os\": a power cut can lose requests that were answered 202; to prevent that, set \"fsync\"".to_owned(),
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
                    format!("\"{listen}\" is reachable from other machines, and keys are sent without encryption; set server.tls, or use a TLS proxy"),
                ),
                None if settings.admin.insecure => self.warning(
                    "admin.listen",
                    format!("\"{listen}\" is reachable from other machines without encryption"),
                ),
                None => self.problem(
                    "admin.listen",
                    format!("\"{listen}\" is reachable from other machines without encryption; set admin.tls, or listen on 127.0.0.1 or a Unix socket behind a TLS proxy. To send tokens in plain text anyway, set admin.insecure = true"),
                ),
            }
        }
        if settings.server.proxy_header == ProxyHeader::ProxyProtocol
            && settings.server.trusted_proxies.is_empty()
        {
            let message = "\"proxy-protocol\" applies only to proxies in server.trusted_proxies, which is empty; list the proxies there";
            self.warning("server.proxy_header", message.to_owned());
        }
    }

    fn tls(&mut self, path: &str, tls: &Tls) {
        for (name, file) in [("certificate", &tls.certificate), ("key", &tls.key)] {
            if file.as_os_str().is_empty() && !self.origins.was_refused(path) {
                let message = "missing; expected the path of a file in PEM".to_owned();
                self.problem(&format!("{path}.{name}"), message);
            }
        }
        if tls.client_ca.is_some() && tls.client_certificates == ClientCertificates::None {
            let message = "has no effect: to request certificates of clients, set client_certificates = \"optional\" or \"required\"".to_owned();
            self.problem(&format!("{path}.client_ca"), message);
        }
    }

    /// Resolves the secret of a key; false if the key has no usable digest.
    fn resolve(&mut self, path: &str, secret: &mut Option<Secret>, check: Check) -> bool {
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

    fn secret_shape(&mut self, path: &str, secret: &Secret, check: Check) {
        if let Err(message) = check(secret.reveal()) {
            self.problem(path, message);
        }
        if let Some(sentence) = secret.readable_by_others() {
            self.warning(path, sentence);
        }
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
