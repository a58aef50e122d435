//! Deliveries that were really sent, checked.
//!
//! **Invariant**: their secrets may be any, also such as nobody should use.

use std::time::Duration;

use super::{PUBLIC_URL, Tried, verified, with_request};
use crate::place::header_name;
use crate::preset::{Preset, SentDelivery};
use crate::{Delivery, Options, Verifier};
use base::clock::Unix;

/// Each delivery that was really sent.
pub fn vectors(preset: &'static Preset) -> Vec<Tried> {
    let tried = preset.vectors.iter().enumerate().map(|(position, vector)| {
        let result = vector.checked(preset);
        let (word, wrong) = match (vector.valid, result) {
            (true, result) => ("verified", result.err()),
            (false, Err(_)) => ("rejected", None),
            (false, Ok(())) => ("rejected", Some("it was verified".to_owned())),
        };
        Tried::of(format!("vector {}: {word}", position + 1), wrong)
    });
    tried.collect()
}

/// Headers of the way, not of what was sent. A vector with them would differ by who captured it.
const OF_THE_WAY: [&str; 5] = [
    "host",
    "content-length",
    "connection",
    "accept-encoding",
    "transfer-encoding",
];

impl SentDelivery {
    /// One that was captured as a request of HTTP: perhaps a line with its method and target, the lines of its headers,
    /// an empty line, and its body to the last byte.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(request: &[u8]) -> Result<SentDelivery, String> {
        let ends: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
        let ends = ends.iter().filter_map(|end| {
            let at = request
                .windows(end.len())
                .position(|window| window == *end)?;
            Some((at, at + end.len()))
        });
        let Some((end, body)) = ends.min() else {
            return Err("there is no empty line between the headers and the body".to_owned());
        };
        let head = String::from_utf8_lossy(&request[..end]);
        let mut lines = head.lines().peekable();
        let first = lines.next_if(|line| line.split_once(": ").is_none());
        let mut sent = SentDelivery {
            body: request[body..].to_vec(),
            ..SentDelivery::default()
        };
        let mut host = None;
        for line in lines {
            let header = line
                .split_once(':')
                .filter(|(name, _)| header_name(name).is_ok());
            let Some((name, value)) = header else {
                let shown: String = line.chars().take(80).collect();
                return Err(format!("`{}` is not a header", shown.escape_debug()));
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("host") {
                host = Some(value);
            }
            if !OF_THE_WAY.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                sent.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        if let Some(first) = first {
            let mut words = first.split_whitespace();
            let method = words.next().filter(|method| *method != "POST");
            sent.method = method.map(str::to_owned);
            sent.url = words
                .next()
                .map(|target| match (target.starts_with('/'), host) {
                    (true, Some(host)) => format!("https://{host}{target}"),
                    _ => target.to_owned(),
                });
        }
        Ok(sent)
    }

    /// As `[[vectors]]` of a preset, without that line.
    pub fn to_toml(&self) -> String {
        crate::format::vector_toml(self)
    }

    /// Whether it is believed, and why not.
    ///
    /// # Errors
    /// The reason, in words that a user can act on.
    pub fn checked(&self, preset: &'static Preset) -> Result<(), String> {
        let verifier = self.verifier(preset)?;
        let now = match self.now {
            Some(seconds) => Unix::from_ms(0) + Duration::from_secs(seconds),
            None => Unix::now(),
        };
        self.asked(now, |of| verified(&verifier, of))
            .map_err(|refused| refused.message)
    }

    /// When the tool says that it was sent.
    pub fn sent_at(&self, preset: &'static Preset) -> Option<Unix> {
        let verifier = self.verifier(preset).ok()?;
        self.asked(Unix::now(), |of| verifier.sent_at(of))
    }

    fn verifier(&self, preset: &'static Preset) -> Result<Verifier, String> {
        let mut options = Options::of(&preset.name);
        if self.now.is_none() && preset.published().is_none() {
            options.tolerance_seconds = Some(0);
        }
        for (name, text) in &self.options {
            match name.as_str() {
                "header" => options.header = Some(text.clone()),
                _ => options.set_detail(name, Some(text.clone())),
            }
        }
        Verifier::of_any_secret(preset, &options, &self.secret, None)
            .map_err(|invalid| invalid.to_string())
    }

    fn asked<T>(&self, now: Unix, then: impl FnOnce(&Delivery<'_>) -> T) -> T {
        let method = self.method.as_deref().unwrap_or("POST");
        let url = self.url.as_deref().unwrap_or(PUBLIC_URL);
        with_request(method, url, &self.headers, &self.body, now, then)
    }
}
