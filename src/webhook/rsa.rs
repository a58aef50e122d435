//! RSA keys of tools that sign with a certificate, with a key of a set, or with one key.
//!
//! `certificate` and `key_set` make [`RsaKey`]s once; `certified` and `pubsub` compare signatures with them.
//!
//! **Invariant**: a key that was made can be used: it has 2048 to 8192 bits.

use ring::signature::{
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents,
};

/// Shorter keys can be broken, and longer ones take long to verify.
const MODULUS_LEN: std::ops::RangeInclusive<usize> = 256..=1_024;
const EXPONENT_LEN_MAX: usize = 4;

/// How what is signed is hashed and padded: as in PKCS #1 v1.5, but for the last.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hash {
    /// Of the first signature version of Amazon SNS.
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    /// PSS with SHA-256.
    Pss,
}

/// A public key: both numbers with the highest byte first, and no zeros before it.
pub(super) struct RsaKey {
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

impl RsaKey {
    /// The key of these numbers, highest byte first; `None` if it cannot be used. It is found when settings are read,
    /// so that no delivery is refused for a bad key.
    pub(super) fn of(modulus: &[u8], exponent: &[u8]) -> Option<RsaKey> {
        let (modulus, exponent) = (without_zeros(modulus), without_zeros(exponent));
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte & 1 == 1);
        let fits = MODULUS_LEN.contains(&modulus.len())
            && exponent.len() <= EXPONENT_LEN_MAX
            && exponent != [1]
            && odd(&modulus)
            && odd(&exponent);
        fits.then_some(RsaKey { modulus, exponent })
    }

    /// The bytes of a signature.
    pub(super) fn signature_len(&self) -> usize {
        self.modulus.len()
    }

    /// Whether the signature is that of the message by this key.
    pub(super) fn verifies(&self, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
        let key = RsaPublicKeyComponents {
            n: &self.modulus,
            e: &self.exponent,
        };
        let parameters = match hash {
            Hash::Sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
            Hash::Sha384 => &RSA_PKCS1_2048_8192_SHA384,
            Hash::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
            Hash::Pss => {
                return key
                    .verify(&RSA_PSS_2048_8192_SHA256, message, signature)
                    .is_ok();
            }
        };
        key.verify(parameters, message, signature).is_ok()
    }
}

fn without_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}
