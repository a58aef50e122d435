//! What the preset of a provider says, sent as the provider would: a connector for it, and deliveries that are signed now.
//!
//! **Invariant**: a sender has a secret, a connector and a stream of its own.

use std::collections::BTreeMap;

use base::clock::Unix;
use reqwest::Method;
use serde_json::json;
use webhook::{Preset, Sample, Signed, Trial};

use super::vectors::with;
use crate::app::{Reply, TestApp};
use crate::setup::Setup;

pub(super) const PUBLIC: &str = "https://hooks.example.com";
/// The word that is agreed on with a provider that asks for one.
pub(super) const WORD: &str = "the-word-of-the-tests";

/// A delivery, whoever signed it.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Sent {
    /// The same with another value in the body, which can be read as well.
    pub(super) fn tampered(&self) -> Sent {
        let mut body = self.body.clone().into_bytes();
        let at = (0..body.len()).rev().find(|&at| {
            let is_text = body[at].is_ascii_alphabetic() && body.get(at + 1) == Some(&b'"');
            body[at].is_ascii_digit() || is_text
        });
        let at = at.expect("a letter or a digit");
        body[at] = match body[at] {
            b'7' => b'8',
            b'x' => b'y',
            digit if digit.is_ascii_digit() => b'7',
            _ => b'x',
        };
        Sent {
            body: String::from_utf8(body).expect("text"),
            ..self.clone()
        }
    }
}

/// A provider that is played.
pub(super) struct Sender {
    pub(super) name: &'static str,
    pub(super) preset: &'static Preset,
    pub(super) trial: Trial,
}

impl Sender {
    /// None where only the provider can sign, or nothing is signed, or there is no sample.
    pub(super) fn of(preset: &'static Preset) -> Option<Self> {
        let trials = Trial::all(preset).expect("a secret of its form");
        preset.samples.first()?;
        Some(Self {
            name: &preset.name,
            preset,
            trial: trials.into_iter().next()?,
        })
    }

    pub(super) fn target(&self) -> String {
        format!("/api/webhook/{0}/{0}", self.name)
    }

    pub(super) fn sample(&self) -> &'static Sample {
        &self.preset.samples[0]
    }

    pub(super) fn with(&self, setup: Setup) -> Setup {
        let mut settings = json!({ "scheme": self.name, "secret": self.trial.secret });
        let options: BTreeMap<&str, &str> = self.trial.options.details().into_iter().collect();
        if !options.is_empty() {
            settings["options"] = json!(options);
        }
        if let Some(header) = &self.trial.options.header {
            settings["header"] = header.as_str().into();
        }
        if self.name == "whatsapp" {
            settings["verify_token"] = WORD.into();
        }
        with(setup, self.name, &[settings])
    }

    pub(super) fn signed(&self, sample: &Sample, id: &str) -> Sent {
        let signed = self.trial.sign(sample, id, &self.target(), Unix::now());
        let signed: Signed = signed.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Sent {
            id: id.to_owned(),
            url: signed.target(&format!("{PUBLIC}{}", self.target())),
            headers: signed.headers,
            body: String::from_utf8(signed.body).expect("text"),
        }
    }

    pub(super) async fn send(&self, app: &TestApp, method: Method, sent: &Sent) -> Reply {
        let headers: Vec<(&str, &str)> = (sent.headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let path = sent.url.strip_prefix(PUBLIC).expect("our URL");
        let anyone = app.anonymous();
        anyone
            .call(method, path, &headers, sent.body.clone().into_bytes())
            .await
    }
}
