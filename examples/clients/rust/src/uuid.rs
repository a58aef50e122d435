//! Idempotency keys: UUIDv7, whose order is that in which they were made.
//!
//! **Invariant**: a key is greater than every key that this process made or saw before, even if the clock goes back.

use std::sync::Mutex;
use std::time::Duration;

use crate::lock;

/// Milliseconds and a counter of 12 bits.
static LAST: Mutex<u64> = Mutex::new(0);

/// A new key.
pub(crate) fn create(now: Duration) -> String {
    let stamp = {
        let mut last = lock(&LAST);
        *last = (*last + 1).max((now.as_millis() as u64) << 12);
        *last
    };
    let head = (stamp >> 12 << 16) | 0x7000 | (stamp & 0xfff);
    let tail = (random() & (u64::MAX >> 2)) | (1 << 63);
    let text = format!("{head:016x}{tail:016x}");
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20]];
    format!("{}-{}", parts.join("-"), &text[20..])
}

/// Makes all that follow greater than this one.
pub(crate) fn saw(text: &str) {
    let Some(head) = head(text) else {
        return;
    };
    let stamp = (head >> 16 << 12) | (head & 0xfff);
    let mut last = lock(&LAST);
    *last = (*last).max(stamp);
}

/// The first half of a UUIDv7.
fn head(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let is_form = bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'7',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    if !is_form {
        return None;
    }
    let digits = [&text[..8], &text[9..13], &text[14..18]].concat();
    u64::from_str_radix(&digits, 16).ok()
}

/// Random bits. A system without any has nothing to make keys of.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|error| panic!("the system has no random numbers: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_uuids_that_grow_whatever_the_clock_says() {
        let hour = Duration::from_secs(1_800_000_000);
        let mut keys: Vec<String> = (0..5000).map(|_| create(hour)).collect();
        saw("ffff0000-0000-7fff-8000-000000000000");
        saw("not one");
        keys.push(create(Duration::ZERO));
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(keys.iter().all(|key| head(key).is_some()), "{}", keys[0]);
        assert!(
            keys.last()
                .is_some_and(|key| key.starts_with("ffff0000-0001-7"))
        );
    }
}
