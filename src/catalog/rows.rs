//! What the configuration declares and what the database holds, in one form, and how they go together.
//!
//! **Invariant**: where both have the same name, what is declared counts, and that is told.

use std::collections::HashSet;
use std::sync::Arc;

use super::ingest_key::KeyRow;
use super::signing::hash_of;
use super::sink::SinkRow;
use super::{Connector, KeyHash, ReadKey, Stream, key};
use base::clock::{self, Unix};
use settings::{Secret, Settings, quoted};

/// Everything, as it is written down: connectors without their keys.
#[derive(Debug, Default, Clone)]
pub(super) struct Rows {
    pub(super) streams: Vec<Stream>,
    pub(super) connectors: Vec<Connector>,
    pub(super) keys: Vec<KeyRow>,
    pub(super) read_keys: Vec<ReadKey>,
    /// What the database has of sinks; the declared ones are not written down here.
    pub(super) sinks: Vec<SinkRow>,
}

impl Rows {
    pub(super) fn declared(settings: &Settings) -> Self {
        let mut rows = Self::default();
        for stream in &settings.streams {
            rows.streams.push(Stream::new(stream.clone(), None));
        }
        let problems = &*settings.problems.stream;
        if !problems.is_empty() && rows.streams.iter().all(|one| *one.name != *problems) {
            rows.streams.push(Stream::of_problems(problems));
        }
        for connector in &settings.connectors {
            let name: Arc<str> = connector.name.as_str().into();
            for key in &connector.keys {
                rows.keys.push(KeyRow {
                    connector: Arc::clone(&name),
                    name: key.name.as_str().into(),
                    description: key.description.as_deref().map(Into::into),
                    hash: match &key.verify {
                        Some(verify) => hash_of(verify, &name, &key.name, &key.stream),
                        None => hash(key.digest()),
                    },
                    prefix: match &key.verify {
                        Some(verify) => Some(verify.shown().into()),
                        None => {
                            prefix(key.secret.as_ref(), key.certificate.as_deref()).map(Arc::from)
                        }
                    },
                    stream: key.stream.as_str().into(),
                    expires_at: time(key.expires_at.as_deref()),
                    revoked_at: None,
                    created_at: None,
                    allow_in_url: key.allow_in_url,
                    networks: key.networks.clone(),
                    verify: key.verify.clone().map(Arc::new),
                });
            }
            let settings = connector.clone();
            rows.connectors.push(Connector::new(settings, None));
        }
        for key in &settings.read_keys {
            rows.read_keys.push(ReadKey {
                prefix: prefix(key.secret.as_ref(), key.certificate.as_deref()).map(Box::from),
                ..ReadKey::new(key.clone(), hash(key.digest()), None)
            });
        }
        rows
    }

    /// Takes what is declared now. The built-in stream stays the one of the start: what writes it was started with that.
    pub(super) fn renew(&mut self, mut declared: Self) {
        let built_in = |stream: &Stream| stream.is_built_in;
        declared.streams.retain(|stream| !built_in(stream));
        let before = self.streams.iter().filter(|stream| built_in(stream));
        for stream in before {
            if declared.streams.iter().all(|one| one.name != stream.name) {
                declared.streams.push(stream.clone());
            }
        }
        *self = declared;
    }

    /// Both together, and what of `made` does not count beside `declared`, in sentences. These are no errors, because a
    /// file that declares a used name would otherwise prevent a start.
    pub(super) fn joined(declared: &Self, made: &Self) -> (Self, Vec<String>) {
        let mut rows = declared.clone();
        let mut warnings = Vec::new();
        let names: HashSet<&str> = declared.streams.iter().map(|one| &*one.name).collect();
        for stream in &made.streams {
            if names.contains(&*stream.name) {
                warnings.push(format!(
                    "the stream {} was created at run time and is declared now: the declaration applies",
                    quoted(&stream.name)
                ));
            } else {
                rows.streams.push(stream.clone());
            }
        }
        let mut names: HashSet<&str> = declared.connectors.iter().map(|one| &*one.name).collect();
        for connector in &made.connectors {
            if names.insert(&connector.name) {
                rows.connectors.push(connector.clone());
            } else {
                warnings.push(format!(
                    "the connector {} was created at run time and is declared now: the declared settings apply, keys that were created at run time stay",
                    quoted(&connector.name)
                ));
            }
        }
        let named = |key: &KeyRow| (Arc::clone(&key.connector), key.name.clone());
        let keys: HashSet<_> = declared.keys.iter().map(named).collect();
        for key in &made.keys {
            let subject = format!(
                "the key {} of the connector {}",
                quoted(&key.name),
                quoted(&key.connector)
            );
            if !names.contains(&*key.connector) {
                warnings.push(format!(
                    "{subject} was created at run time, and the connector is no longer declared: the key is rejected"
                ));
            } else if keys.contains(&named(key)) {
                warnings.push(format!(
                    "{subject} was created at run time and is declared now: the declared one applies, the other is rejected"
                ));
            } else {
                rows.keys.push(key.clone());
            }
        }
        let names: HashSet<&str> = declared.read_keys.iter().map(|one| &*one.name).collect();
        for key in &made.read_keys {
            if names.contains(&*key.name) {
                warnings.push(format!(
                    "the read key {} was created at run time and is declared now: the declared one applies, the other is rejected",
                    quoted(&key.name)
                ));
            } else {
                rows.read_keys.push(key.clone());
            }
        }
        (rows, warnings)
    }
}

fn hash(digest: Option<[u8; 32]>) -> KeyHash {
    // Always there once the configuration was checked.
    digest.map_or(KeyHash::NONE, KeyHash::from_bytes)
}

fn prefix(secret: Option<&Secret>, certificate: Option<&str>) -> Option<String> {
    let of_certificate = || {
        let fingerprint = settings::digest_of_fingerprint(certificate?)?;
        Some(settings::shown_certificate(fingerprint))
    };
    let shown = secret.map(|secret| key::prefix(secret.reveal()).to_owned());
    shown.or_else(of_certificate)
}

fn time(text: Option<&str>) -> Option<Unix> {
    text.and_then(clock::parse_rfc3339)
}
