//! The header of a write-ahead log, its checksums, and the single bit that makes one right again.
//!
//! **Invariant**: a bit is named only if no other would do as well.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) const HEADER_BYTES: usize = 32;
pub(super) const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Where a checksum stands after so many words.
pub(super) type Sum = (u32, u32);

/// How words and checksums of this log are written.
#[derive(Clone, Copy)]
pub(super) struct Header {
    big_endian: bool,
    pub(super) page_bytes: usize,
    pub(super) salts: [u8; 8],
    pub(super) sum: Option<Sum>,
}

pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

fn sum(big_endian: bool, bytes: &[u8], (mut a, mut b): Sum) -> Sum {
    for pair in bytes.as_chunks::<8>().0 {
        let [p, q, r, s, t, u, v, w] = *pair;
        let word = match big_endian {
            true => u32::from_be_bytes,
            false => u32::from_le_bytes,
        };
        a = a.wrapping_add(word([p, q, r, s])).wrapping_add(b);
        b = b.wrapping_add(word([t, u, v, w])).wrapping_add(a);
    }
    (a, b)
}

impl Header {
    pub(super) fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let magic = number(bytes, 0);
        let page_bytes = number(bytes, 8);
        if magic & !1 != MAGIC
            || number(bytes, 4) != VERSION
            || !page_bytes.is_power_of_two()
            || !(512..=65_536).contains(&page_bytes)
        {
            return None;
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&bytes[16..24]);
        let big_endian = magic & 1 == 1;
        let found = sum(big_endian, &bytes[..24], (0, 0));
        (found == (number(bytes, 24), number(bytes, 28))).then_some(Self {
            big_endian,
            page_bytes: page_bytes as usize,
            salts,
            sum: Some(found),
        })
    }

    /// With one bit turned over, and which. Some bits are as good as others for the checksum: the frames know the salts.
    pub(super) fn mended(bytes: &[u8; HEADER_BYTES], salts: [u8; 8]) -> Option<(Self, (u64, u8))> {
        let all = (0..HEADER_BYTES * 8).filter_map(|bit| {
            let (at, mask) = (bit / 8, 1 << (bit % 8));
            let mut other = *bytes;
            other[at] ^= mask;
            Some((Self::read(&other)?, (at as u64, mask)))
        });
        let all: Vec<_> = all.collect();
        let known = all.iter().find(|(header, _)| header.salts == salts);
        known.or(all.first()).copied()
    }

    /// The header cannot be read: frames tell by the one after the next what it was.
    pub(super) fn guessed(file: &File, page_bytes: usize) -> io::Result<Option<Self>> {
        let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        let mut frames = vec![0; 2 * frame_bytes];
        let second = (HEADER_BYTES + frame_bytes) as u64;
        if !read_whole(file, &mut frames, second)? {
            return Ok(None);
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&frames[8..16]);
        let (one, other) = frames.split_at(frame_bytes);
        let stored = |frame: &[u8]| (number(frame, 16), number(frame, 20));
        let follows = |big_endian: &bool| {
            let after = sum(*big_endian, &other[..8], stored(one));
            other[8..16] == salts
                && sum(*big_endian, &other[FRAME_HEADER_BYTES..], after) == stored(other)
        };
        let found = [false, true].into_iter().find(follows);
        Ok(found.map(|big_endian| Self {
            big_endian,
            page_bytes,
            salts,
            sum: None,
        }))
    }

    pub(super) fn frame_sum(&self, frame: &[u8], before: Sum) -> Sum {
        let after = sum(self.big_endian, &frame[..8], before);
        sum(self.big_endian, &frame[FRAME_HEADER_BYTES..], after)
    }

    /// The bit of a frame that is wrong, if it is one and there is no other that it may be. Each word counts in the
    /// checksum by factors of its own, so that what a bit would change is known without summing up again; of the high bits
    /// of a word the checksum tells less: several words may be meant. Whether it is the checksum itself that is wrong, the
    /// frame that follows tells.
    pub(super) fn wrong_bit(
        &self,
        frame: &[u8],
        before: Sum,
        following: &[u8],
    ) -> Option<(usize, u8)> {
        let found = self.frame_sum(frame, before);
        let stored = (number(frame, 16), number(frame, 20));
        if frame[8..16] != self.salts {
            let differing = || (8..16).filter(|at| frame[*at] != self.salts[at - 8]);
            let place = differing().next()?;
            let mask = frame[place] ^ self.salts[place - 8];
            let one = differing().count() == 1 && mask.count_ones() == 1;
            return (one && found == stored).then_some((place, mask));
        }
        let words = self.wrong_words(frame, found, stored);
        let wrong = [found.0 ^ stored.0, found.1 ^ stored.1].map(u32::to_be_bytes);
        let wrong = wrong.as_flattened();
        let bits: u32 = wrong.iter().map(|byte| byte.count_ones()).sum();
        let sum_follows = || {
            let next = (number(following, 16), number(following, 20));
            following.len() == frame.len() && self.frame_sum(following, found) == next
        };
        if bits == 1 && (words.is_empty() || sum_follows()) {
            let byte = wrong.iter().position(|byte| *byte != 0)?;
            return Some((16 + byte, wrong[byte]));
        }
        match words[..] {
            [word] => Some(word),
            _ => None,
        }
    }

    /// The bits of what the checksum is over that would make it right.
    fn wrong_words(&self, frame: &[u8], found: Sum, stored: Sum) -> Vec<(usize, u8)> {
        let wanted = (
            stored.0.wrapping_sub(found.0),
            stored.1.wrapping_sub(found.1),
        );
        let mut all = Vec::new();
        let mut factors = [(1_u32, 1_u32), (0, 1)];
        let pairs = (FRAME_HEADER_BYTES..frame.len()).step_by(8).rev();
        for begin in pairs.chain([0]) {
            for (word, (a, b)) in factors.iter_mut().enumerate() {
                for byte in 0..4 {
                    let place = begin + word * 4 + byte;
                    for bit in 0..8 {
                        let value = match self.big_endian {
                            true => 1_u32 << (8 * (3 - byte) + bit),
                            false => 1_u32 << (8 * byte + bit),
                        };
                        let change = match frame[place] >> bit & 1 {
                            0 => value,
                            _ => value.wrapping_neg(),
                        };
                        if (a.wrapping_mul(change), b.wrapping_mul(change)) == wanted {
                            all.push((place, 1 << bit));
                        }
                    }
                }
                // One pair of words further from the end.
                let (x, y) = (*a, *b);
                *a = x.wrapping_add(y);
                *b = x.wrapping_add(y).wrapping_add(y);
            }
        }
        all
    }
}

pub(super) fn read_whole(file: &File, into: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(into, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
