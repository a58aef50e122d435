//! How tools sign: algorithms, and how signatures, secrets and times are written.
//!
//! **Invariant**: an algorithm that presets can name is in [`ALGORITHMS`].

/// How a message is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Hmac(Digest),
    HmacMd5,
    Ed25519,
    /// ECDSA over P-256 with SHA-256; 64 bytes are both numbers, others are DER.
    P256,
    /// RSA as in PKCS #1 v1.5.
    RsaPkcs1(Digest),
    /// RSA with PSS and SHA-256.
    RsaPss,
    /// A digest over a message that holds the secret.
    Hash(Digest),
    Jwt(JwtAlgorithm),
    /// The secret itself.
    Token,
    /// Twilio's signature over the URL and the sorted form.
    Twilio,
    /// Amazon SNS's signature, which stands in the body, by the key of a certificate.
    Sns,
    /// PayPal's signature, by the key of a certificate.
    Paypal,
    /// Google Pub/Sub's token, signed by a key of a set.
    Pubsub,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// How a JSON Web Token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    Hs256,
    Es256,
    Rs256,
}

/// The names of algorithms in presets.
pub(crate) const ALGORITHMS: [(&str, Algorithm); 23] = [
    ("hmac-sha256", Algorithm::Hmac(Digest::Sha256)),
    ("hmac-sha1", Algorithm::Hmac(Digest::Sha1)),
    ("hmac-sha384", Algorithm::Hmac(Digest::Sha384)),
    ("hmac-sha512", Algorithm::Hmac(Digest::Sha512)),
    ("hmac-md5", Algorithm::HmacMd5),
    ("ed25519", Algorithm::Ed25519),
    ("ecdsa-p256-sha256", Algorithm::P256),
    ("rsa-pkcs1-sha256", Algorithm::RsaPkcs1(Digest::Sha256)),
    ("rsa-pkcs1-sha384", Algorithm::RsaPkcs1(Digest::Sha384)),
    ("rsa-pkcs1-sha512", Algorithm::RsaPkcs1(Digest::Sha512)),
    ("rsa-pss-sha256", Algorithm::RsaPss),
    ("sha1", Algorithm::Hash(Digest::Sha1)),
    ("sha256", Algorithm::Hash(Digest::Sha256)),
    ("sha384", Algorithm::Hash(Digest::Sha384)),
    ("sha512", Algorithm::Hash(Digest::Sha512)),
    ("jwt-hs256", Algorithm::Jwt(JwtAlgorithm::Hs256)),
    ("jwt-es256", Algorithm::Jwt(JwtAlgorithm::Es256)),
    ("jwt-rs256", Algorithm::Jwt(JwtAlgorithm::Rs256)),
    ("token", Algorithm::Token),
    ("twilio", Algorithm::Twilio),
    ("sns", Algorithm::Sns),
    ("paypal", Algorithm::Paypal),
    ("pubsub", Algorithm::Pubsub),
];

/// How a signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits, either case.
    Hex,
    /// Base64 of the standard alphabet, padded.
    Base64,
    /// Base64 of the alphabet for URLs, with or without padding.
    Base64Url,
}

/// How a secret is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretForm {
    /// As it is.
    Text,
    /// Hexadecimal digits.
    Hex,
    /// Base64 of the standard alphabet, padded.
    Base64,
    /// Base64 of the alphabet for URLs.
    Base64Url,
    /// `whsec_` and Base64 of a key (Standard Webhooks).
    Whsec,
}

/// How a timestamp is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unix seconds.
    Seconds,
    /// Unix milliseconds.
    Milliseconds,
    /// As in RFC 3339.
    Rfc3339,
}
