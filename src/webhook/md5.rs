//! HMAC with MD5, which `ring` does not have: Patreon signs with it.
//!
//! A [`Key`](super::key::Key) signs and compares with it; presets name it, and no setting of a key does by itself.
//!
//! **Invariant**: MD5 is used with a secret alone, where its collisions are no way in.

use std::borrow::Cow;

use hmac::{Hmac, Mac as _};
use md5::Md5;

/// A secret that is taken in.
pub(super) type HmacMd5 = Hmac<Md5>;

pub(super) const TAG_LEN: usize = 16;

/// The same with a message, whose parts are taken one after the other.
pub(super) fn with(key: &HmacMd5, message: &[Cow<'_, [u8]>]) -> HmacMd5 {
    let mut mac = key.clone();
    message.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use hmac::KeyInit as _;

    use super::*;
    use base::text::hex;

    /// RFC 2202, section 2: the first, and one whose key is longer than a block.
    #[test]
    fn tags_are_those_of_the_standard() {
        let tag = |secret: &[u8], message: &[u8]| {
            let key = HmacMd5::new_from_slice(secret).expect("a key of any length");
            hex(&with(&key, &[message.into()]).finalize().into_bytes())
        };
        assert_eq!(
            tag(&[0x0b; 16], b"Hi There"),
            "9294727a3638bb1c13f48ef8158bfc9d"
        );
        assert_eq!(
            tag(
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            ),
            "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"
        );
    }
}
