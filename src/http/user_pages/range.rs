//! A part of a file: `Range` with one range of bytes (RFC 9110, 14.2), as players request videos.
//!
//! **Invariant**: a part is within the file and is not empty. An unreadable range and several ranges are ignored, as
//! the RFC allows.

use std::ops::Range;

/// The requested part; `Some(None)` if it is outside of the file, `None` if no part is requested.
pub(super) fn part(wanted: &str, bytes: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = wanted.trim().strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = (first.trim(), last.trim());
    let part = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        // The last bytes of the file.
        (true, false) => bytes.saturating_sub(number(last)?)..bytes,
        (false, true) => number(first)?..bytes,
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(bytes)
        }
    };
    Some((part.start < part.end).then_some(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_a_part_and_anything_else_is_the_whole_file() {
        let check = |wanted: &str, expected: Option<Option<Range<u64>>>| {
            assert_eq!(part(wanted, 10), expected, "{wanted}");
        };
        check("bytes=0-3", Some(Some(0..4)));
        check("bytes=0-", Some(Some(0..10)));
        check("bytes=9-99", Some(Some(9..10)));
        check("bytes=-3", Some(Some(7..10)));
        check("bytes=-99", Some(Some(0..10)));
        check("bytes=10-", Some(None));
        check("bytes=-0", Some(None));
        check("bytes=99999999999999999999999-", Some(None));
        for none in [
            "bytes=5-3",
            "bytes=-",
            "bytes=a-3",
            "bytes=0-1,3-4",
            "lines=1-2",
            "bytes=+1-2",
        ] {
            check(none, None);
        }
    }
}
