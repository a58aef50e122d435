//! The keys of connectors and read keys: their streams, their secrets, and what they verify.
//!
//! **Invariant**: no message holds a key.

use std::collections::{BTreeSet, HashMap};

use super::Validator;
use crate::problem::{self, quoted};
use crate::schema::Shape;
use crate::{Settings, Verify, checks};
use base::clock::Unix;
use webhook::{CANDIDATES_MAX, Verifier};

impl Validator<'_> {
    /// Every key is for a declared stream, and has a secret of its own that fits.
    pub(super) fn keys(&mut self, settings: &mut Settings) {
        let streams = settings.streams.iter().map(|stream| stream.name.clone());
        let streams: BTreeSet<String> = streams.collect();
        // A stream whose own declaration was refused may well be the one that is meant by a key.
        let all_are_known = !self.origins.was_refused("streams");
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
                            "the connector has more than {CANDIDATES_MAX} signing keys for one stream; remove the expired ones"
                        );
                        self.problem(&format!("{path}.verify"), message);
                    }
                }
                if all_are_known && !streams.contains(&key.stream) {
                    self.undeclared(&format!("{path}.stream"), &key.stream, &streams);
                }
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
        let of_problems = &settings.problems.stream;
        for (i, key) in settings.read_keys.iter_mut().enumerate() {
            let path = format!("read_keys[{i}]");
            for (j, stream) in key.streams.iter().enumerate() {
                if all_are_known && !streams.contains(stream) && stream != of_problems {
                    self.undeclared(&format!("{path}.streams[{j}]"), stream, &streams);
                }
            }
            if self.resolve(&path, &mut key.secret, checks::read_key) {
                let shown = self.locate(&path, String::new()).path;
                let label = format!("{shown} ({})", quoted(&key.name));
                self.distinct_key(&mut digests, &path, label, key.digest());
            }
        }
    }

    /// Resolves the secrets of a signing key and sees whether they fit the scheme; false if it is of no use.
    fn verify(&mut self, path: &str, verify: &mut Verify, public_url: Option<&str>) -> bool {
        let path = format!("{path}.verify");
        let problems = self.problems.len();
        if verify.awaits_secret() {
            let message = "missing, so the key cannot verify requests yet; when the provider has sent its secret, copy it here from the connector's page";
            self.warning(&format!("{path}.secret"), message.to_owned());
        } else if verify.secret.is_none() {
            let wants = Shape::Secret.wants();
            self.problem(
                &format!("{path}.secret"),
                format!("missing; expected {wants}"),
            );
        }
        let preset = webhook::preset(&verify.options.scheme);
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
            Err(invalid) => self.problem(&format!("{path}.{}", invalid.field), invalid.message),
            Ok(verifier) if verifier.signs_url() && verifier.url().is_none() && public_url.is_none() => self.problem(
                &format!("{path}.scheme"),
                format!(
                    "\"{}\" signs the URL that is set at the provider; set server.public_url, or `url` here",
                    verify.options.scheme
                ),
            ),
            Ok(verifier) => self.weaknesses(&path, verify, &verifier),
        }
        if verify.options.tolerance_seconds == Some(0) {
            let message = "0 disables the check of a delivery's age, so anyone who has seen a delivery can replay it later; set a limit in seconds";
            self.warning(&format!("{path}.tolerance_seconds"), message.to_owned());
        }
        self.problems.len() == problems
    }

    /// What of a verification that works lets others in, or keeps the tool out.
    fn weaknesses(&mut self, path: &str, verify: &Verify, verifier: &Verifier) {
        let given = verify.options.details();
        for option in &verifier.preset().options {
            let is_given = given.iter().any(|(name, _)| *name == option.name);
            if let Some(without) = option.without.as_deref().filter(|_| !is_given) {
                let message = format!("missing: {without}");
                self.warning(&format!("{path}.{}", option.name), message);
            }
        }
        if verifier.expired_at(Unix::now()).is_some() {
            let message = "the certificate has expired, so no request can be verified; set the provider's newest certificate";
            self.warning(&format!("{path}.secret"), message.to_owned());
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
            let message = format!("the same key as {other}; every key needs its own secret");
            self.problem(path, message);
        } else {
            digests.insert(digest, label);
        }
    }

    fn undeclared(&mut self, path: &str, stream: &str, streams: &BTreeSet<String>) {
        if stream.is_empty() {
            return;
        }
        let meant = match problem::nearest(stream, streams.iter().map(String::as_str)) {
            Some(meant) => format!("; did you mean {}?", quoted(meant)),
            None => "; define it with [[streams]]".to_owned(),
        };
        self.problem(
            path,
            format!("the stream {} is not defined{meant}", quoted(stream)),
        );
    }
}
