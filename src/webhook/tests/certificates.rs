//! Certificates of the settings, and those that cannot be used.

use std::time::Duration;

use super::{CERTIFICATE, SECRET, invalid, options_of};
use crate::Verifier;
use base::clock::Unix;

fn pem(der: &[u8]) -> String {
    let body = crate::key::base64(der);
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

fn der() -> Vec<u8> {
    use base64::Engine as _;
    let lines = CERTIFICATE.lines().filter(|line| !line.starts_with('-'));
    let body: String = lines.collect();
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(body).expect("Base64")
}

/// A value in DER.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut value = match len {
        0..0x80 => vec![tag, len as u8],
        _ => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    value.extend(content);
    value
}

/// A certificate without any extra: its end, its algorithm, and the two numbers of its key.
fn certificate(ends: (u8, &str), algorithm: &[u8], modulus: &[u8], exponent: &[u8]) -> String {
    let sequence = |parts: &[Vec<u8>]| tlv(0x30, &parts.concat());
    let key = sequence(&[tlv(2, modulus), tlv(2, exponent)]);
    let bits = [&[0], &*key].concat();
    let signed = sequence(&[
        tlv(2, &[1]),
        sequence(&[]),
        sequence(&[]),
        sequence(&[tlv(0x17, b"200101000000Z"), tlv(ends.0, ends.1.as_bytes())]),
        sequence(&[]),
        sequence(&[sequence(&[tlv(6, algorithm)]), tlv(3, &bits)]),
    ]);
    pem(&sequence(&[signed]))
}

const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const YEAR_2030: (u8, &str) = (0x17, "300101000000Z");
const END: Unix = Unix::from_ms(1_893_456_000_000);
const EXPONENT: [u8; 3] = [1, 0, 1];

fn verifier(text: &str) -> Verifier {
    Verifier::new(&options_of("sns"), text, None).expect("certificates")
}

#[test]
fn certificates_are_found_in_any_text() {
    let ends = |text: &str| verifier(text).expired_at(Unix::MAX);
    let one = ends(CERTIFICATE);
    assert!(one.is_some());
    let joined: String = CERTIFICATE.lines().collect();
    let windows = CERTIFICATE.replace('\n', "\r\n");
    let chain = format!("Subject: a\n{CERTIFICATE}\nIssuer: b\n{CERTIFICATE}rest");
    for text in [joined, windows, chain] {
        assert_eq!(ends(&text), one, "{text}");
    }
}

#[test]
fn the_last_one_decides_when_they_have_expired() {
    let modulus = [&[0, 0xff][..], &[0xff; 255]].concat();
    let of = |ends| certificate(ends, &RSA, &modulus, &EXPONENT);
    let ends = |text: &str| verifier(text).expired_at(Unix::MAX);
    let years = [
        ((0x17, "491231235959Z"), 2_524_607_999_000),
        ((0x17, "500101000000Z"), 0),
        ((0x17, "991231235959Z"), 946_684_799_000),
        ((0x18, "20500101000000Z"), 2_524_608_000_000),
        ((0x18, "99991231235959Z"), 253_402_300_799_000),
    ];
    for (year, ms) in years {
        assert_eq!(ends(&of(year)), Some(Unix::from_ms(ms)), "{year:?}");
    }
    let both = of((0x17, "200101000000Z")) + &of(YEAR_2030);
    assert_eq!(
        verifier(&both).expired_at(END - Duration::from_millis(1)),
        None
    );
    assert_eq!(verifier(&both).expired_at(END), Some(END));
    let wrong = |ends, part: &str| invalid(&options_of("sns"), &of(ends), "secret", part);
    for text in [
        "301301000000Z",
        "3001010000Z",
        "300101000000+0100",
        "é01010000Z",
        "Z",
        "",
    ] {
        wrong((0x17, text), "certificate 1 cannot be read");
        wrong((0x18, text), "certificate 1 cannot be read");
    }
    wrong((0x04, "300101000000Z"), "certificate 1 cannot be read");
}

#[test]
fn what_has_no_key_that_fits_is_refused() {
    let refused = |text: &str, part: &str| {
        for scheme in ["sns", "paypal"] {
            invalid(&options_of(scheme), text, "secret", part);
        }
    };
    let zeros = |len: usize| [&[0, 0xff][..], &vec![0xff; len - 1]].concat();
    let of = |modulus: &[u8], exponent: &[u8]| certificate(YEAR_2030, &RSA, modulus, exponent);
    verifier(&of(&zeros(256), &EXPONENT));
    verifier(&of(&zeros(1_024), &[3]));
    let other = certificate(YEAR_2030, &[0x2a, 0x86], &zeros(256), &EXPONENT);
    let even = [&[0xff; 255][..], &[0xfe]].concat();
    let unusable = [
        other.clone(),
        of(&zeros(255), &EXPONENT),
        of(&zeros(1_025), &EXPONENT),
        of(&even, &EXPONENT),
        of(&zeros(256), &[1]),
        of(&zeros(256), &[2]),
        of(&zeros(256), &[]),
        of(&zeros(256), &[1, 0, 0, 0, 1]),
    ];
    for text in unusable {
        refused(&text, "none of its certificates has an RSA key of 2048");
    }
    // Among others it is left out.
    verifier(&format!("{other}{CERTIFICATE}"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let refused = |text: &str, part: &str| invalid(&options_of("sns"), text, "secret", part);
    refused(
        "https://sns.eu-west-1.amazonaws.com/a.pem",
        "download the certificate",
    );
    refused(
        SECRET,
        "begins with `-----BEGIN CERTIFICATE-----`. The certificate in PEM",
    );
    let key = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY");
    refused(&key, "it has no certificate");
    let unreadable = "certificate 1 cannot be read; copy the whole certificate again";
    refused(&CERTIFICATE[..CERTIFICATE.len() - 30], unreadable);
    refused(&CERTIFICATE.replacen("MII", "M*I", 1), unreadable);
    let second = format!("{CERTIFICATE}{}", pem(b"\x30\x03\x02\x01\x01"));
    refused(&second, "certificate 2 cannot be read");
    refused(&CERTIFICATE.repeat(17), "more than 16 certificates");
    verifier(&CERTIFICATE.repeat(16));
}

#[test]
fn bytes_that_are_changed_or_missing_cause_no_panic() {
    let der = der();
    for len in 0..der.len() - 300 {
        invalid(
            &options_of("sns"),
            &pem(&der[..len]),
            "secret",
            "cannot be read",
        );
    }
    for at in 0..der.len() {
        for byte in [0x00, 0x30, 0x7f, 0x80, 0x84, 0x85, 0xff] {
            let mut changed = der.clone();
            changed[at] = byte;
            let _ = Verifier::new(&options_of("sns"), &pem(&changed), None);
        }
    }
}
