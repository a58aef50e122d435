//! X.509 certificates, as far as a signature needs them: the RSA key, and when they end.
//!
//! `certified` reads them from the settings once, and every check compares with them. Of those of listeners
//! [`validity`] says when they end.
//!
//! **Invariant**: a certificate is believed because it stands in the settings; who issued it is not looked at. No
//! message shows a signature that was sent.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::preset::{Preset, Unit};
use super::rsa::{Hash, RsaKey};
use super::{InvalidVerifier, Refused, clock};
use base::clock::Unix;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// A tool's certificate, its next one, and the chains of both.
const CERTIFICATES_MAX: usize = 16;

// Tags of DER (X.690).
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
/// `rsaEncryption`, 1.2.840.113549.1.1.1.
pub(super) const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// The certificates of one tool; at least one.
pub(super) struct Certificates(Vec<Certificate>);

struct Certificate {
    key: RsaKey,
    /// The key of an expired certificate is not believed.
    ends_at: Unix,
}

/// A signature that came, and what it is of.
pub(super) struct Signed<'a> {
    /// `the signature in the body`
    pub(super) name: &'a str,
    pub(super) hash: Hash,
    pub(super) message: &'a [u8],
    pub(super) signature: &'a [u8],
    /// Where the delivery says that its certificate is, if that is an address of the tool. A person finds the next
    /// certificate there; Headgate never fetches it, because the sender chose the address.
    pub(super) certificate_at: Option<&'a str>,
}

impl Certificates {
    /// The certificates of a text in PEM (RFC 7468) that have an RSA key; what stands around them is not looked at.
    pub(super) fn of(preset: &Preset, text: &str) -> Result<Certificates, InvalidVerifier> {
        if text.starts_with("http") {
            return Err(invalid(
                "it is a URL; download the certificate from there, and set its text",
            ));
        }
        let (mut certificates, mut count, mut rest) = (Vec::new(), 0, text);
        while let Some((_, after)) = rest.split_once(BEGIN) {
            count += 1;
            if count > CERTIFICATES_MAX {
                let message = format!(
                    "it has more than {CERTIFICATES_MAX} certificates; remove the expired ones"
                );
                return Err(invalid(message));
            }
            let unreadable = || {
                invalid(format!(
                    "certificate {count} cannot be read; copy the whole certificate again"
                ))
            };
            let (body, after) = after.split_once(END).ok_or_else(unreadable)?;
            certificates.extend(read(body).ok_or_else(unreadable)?);
            rest = after;
        }
        match (count, certificates.is_empty()) {
            (0, _) => Err(invalid(format!(
                "it has no certificate; a certificate begins with `{BEGIN}`. {}",
                preset.secret_hint
            ))),
            (_, true) => Err(invalid(format!(
                "none of its certificates has an RSA key of 2048 to 8192 bits, which {} uses to sign",
                preset.title
            ))),
            (_, false) => Ok(Certificates(certificates)),
        }
    }

    /// Whether one of them that has not ended has signed. Several may be set, because the next one must be there before
    /// the tool changes.
    pub(super) fn check(&self, signed: &Signed<'_>, now: Unix) -> Result<(), Refused> {
        let mut ended = None;
        for one in &self.0 {
            if !(one.key).verifies(signed.hash, signed.message, signed.signature) {
                continue;
            }
            if one.ends_at > now {
                return Ok(());
            }
            ended = Some(one.ends_at);
        }
        let name = signed.name;
        let mut message = match (ended, self.0.as_slice()) {
            (Some(ends_at), _) => format!(
                "{name} was made with a certificate that expired on {}; set the provider's new certificate",
                date(ends_at)
            ),
            (None, [_]) => format!("{name} does not match the certificate"),
            (None, several) => {
                format!("{name} matches none of the {} certificates", several.len())
            }
        };
        if ended.is_none()
            && let Some(ends_at) = self.expired_at(now)
        {
            message += &format!(", expired since {}", date(ends_at));
        }
        if let Some(address) = signed.certificate_at {
            message += &format!("; the delivery names the one at {address}");
        }
        Err(Refused::signature(message))
    }

    /// When the last of them ended, if all of them have.
    pub(super) fn expired_at(&self, now: Unix) -> Option<Unix> {
        let last = self.0.iter().map(|one| one.ends_at).max();
        last.filter(|ends_at| *ends_at <= now)
    }
}

/// The day of a time: `2030-01-31`.
fn date(at: Unix) -> String {
    let mut written = clock::written(Unit::Rfc3339, at);
    written.truncate("2030-01-31".len());
    written
}

/// What stands between the two marks of PEM; the inner `None`: its key is none of RSA that can be used. Browsers drop the
/// line breaks of what is pasted into a line.
fn read(body: &str) -> Option<Option<Certificate>> {
    let body: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(body).ok()?;
    let (counts, mut signed) = until_key(&der)?;
    let mut subject_key = signed.within(SEQUENCE)?;
    let algorithm = subject_key.within(SEQUENCE)?.take(OBJECT)?;
    let bits = subject_key.take(BIT_STRING)?;
    let key = if algorithm == RSA { rsa(bits) } else { None };
    let ends_at = counts.end;
    Some(key.map(|key| Certificate { key, ends_at }))
}

/// From when to when a certificate in DER counts; `None` if it cannot be read.
pub fn validity(der: &[u8]) -> Option<Range<Unix>> {
    until_key(der).map(|(counts, _)| counts)
}

/// From when to when a certificate counts, and what follows its subject.
fn until_key(der: &[u8]) -> Option<(Range<Unix>, Der<'_>)> {
    let mut signed = Der(der).within(SEQUENCE)?.within(SEQUENCE)?;
    // The first version has no number.
    signed.take(VERSION);
    let _serial = signed.take(INTEGER)?;
    let _algorithm = signed.take(SEQUENCE)?;
    let _issuer = signed.take(SEQUENCE)?;
    let mut validity = signed.within(SEQUENCE)?;
    let counts = validity.time()?..validity.time()?;
    let _subject = signed.take(SEQUENCE)?;
    Some((counts, signed))
}

/// The key of a bit string, whose first byte says how many bits at the end are unused.
fn rsa(bits: &[u8]) -> Option<RsaKey> {
    let mut numbers = Der(bits.strip_prefix(&[0])?).within(SEQUENCE)?;
    RsaKey::of(numbers.take(INTEGER)?, numbers.take(INTEGER)?)
}

/// Values in DER that have not been read.
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, if it has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let rest = self.0.strip_prefix(&[tag])?;
        let (&len, rest) = rest.split_first()?;
        // A short length, or the count of the bytes of a long one.
        let (len, rest) = if len < 0x80 {
            (usize::from(len), rest)
        } else {
            let count = usize::from(len & 0x7f);
            let (bytes, rest) = rest.split_at_checked(count)?;
            if !(1..=4).contains(&count) {
                return None;
            }
            let len = bytes
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte));
            (len, rest)
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(content)
    }

    /// The values inside the next one.
    pub(super) fn within(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(Der)
    }

    /// A time: `YYMMDDHHMMSSZ`, or with all digits of the year (RFC 5280, section 4.1.2.5).
    fn time(&mut self) -> Option<Unix> {
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok();
        let digits = match self.take(UTC_TIME) {
            Some(short) => {
                let short = text(short)?;
                let century = if short >= "5" { "19" } else { "20" };
                format!("{century}{short}")
            }
            None => text(self.take(GENERALIZED_TIME)?)?.to_owned(),
        };
        let digits = digits
            .strip_suffix('Z')
            .filter(|digits| digits.len() == 14)?;
        let at = |place| digits.get(place);
        let (date, time) = (at(0..8)?, at(8..14)?);
        let (year, month, day) = (date.get(..4)?, date.get(4..6)?, date.get(6..)?);
        let (hour, minute, second) = (time.get(..2)?, time.get(2..4)?, time.get(4..)?);
        let written = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
        let ms = clock::read(&written, Unit::Rfc3339)?;
        Some(Unix::from_ms(u64::try_from(ms).unwrap_or(0)))
    }
}

fn invalid(message: impl Into<String>) -> InvalidVerifier {
    InvalidVerifier::new("secret", message)
}
