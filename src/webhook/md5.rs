//! HMAC with MD5, which `ring` does not have: Patreon signs with it.
//!
//! A [`Key`](super::key::Key) signs and compares with it; presets name it, and no setting of a key does by itself.
//!
//! **Invariant**: MD5 is used with a secret alone, where its collisions are no way in.

use std::borrow::Cow;

use md5::{Digest as _, Md5};

pub(super) const TAG_LEN: usize = 16;
/// What MD5 takes at a time.
const BLOCK_LEN: usize = 64;

/// A secret, taken in on both ways.
pub(super) struct HmacMd5 {
    inner: Md5,
    outer: Md5,
}

impl HmacMd5 {
    pub(super) fn new(secret: &[u8]) -> HmacMd5 {
        let digest = Md5::digest(secret);
        let secret = match secret.len() > BLOCK_LEN {
            true => digest.as_slice(),
            false => secret,
        };
        let taken = |pad: u8| {
            let mut block = [pad; BLOCK_LEN];
            for (byte, own) in block.iter_mut().zip(secret) {
                *byte ^= own;
            }
            Md5::new_with_prefix(block)
        };
        HmacMd5 {
            inner: taken(0x36),
            outer: taken(0x5c),
        }
    }

    /// The tag of a message, whose parts are taken one after the other.
    pub(super) fn tag(&self, message: &[Cow<'_, [u8]>]) -> [u8; TAG_LEN] {
        let mut inner = self.inner.clone();
        message.iter().for_each(|part| inner.update(part));
        let mut outer = self.outer.clone();
        outer.update(inner.finalize());
        outer.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::HmacMd5;
    use base::text::hex;

    /// RFC 2202, section 2: the first, and one whose key is longer than a block.
    #[test]
    fn tags_are_those_of_the_standard() {
        let tag = |secret: &[u8], message: &[u8]| hex(&HmacMd5::new(secret).tag(&[message.into()]));
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
