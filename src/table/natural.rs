//! Text in the order in which people count: `m2` before `m10`.
//!
//! **Invariant**: the order is total: two texts are equal in it only if they are the same text.

use std::cmp::Ordering;

/// Compares runs of digits as numbers, and all else character by character.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one, other);
    loop {
        let ((run_a, rest_a), (run_b, rest_b)) = (split(a), split(b));
        let ordering = match (is_number(run_a), is_number(run_b)) {
            (true, true) => by_value(run_a, run_b),
            _ => run_a.cmp(run_b),
        };
        if ordering.is_ne() || run_a.is_empty() {
            // Numbers of the same value may be written with zeros before them.
            return ordering.then_with(|| one.cmp(other));
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The digits, or the one character, at the beginning; and the rest.
fn split(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = match digits {
        0 => text.chars().next().map_or(0, char::len_utf8),
        digits => digits,
    };
    text.split_at(length)
}

fn is_number(run: &str) -> bool {
    run.starts_with(|first: char| first.is_ascii_digit())
}

/// The digits stay text, because a run can have more of them than a number holds.
fn by_value(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_count_as_numbers() {
        let sorted = [
            "",
            "01",
            "1",
            "2",
            "10",
            "18446744073709551616",
            "18446744073709551617",
            "a",
            "m1",
            "m2",
            "m2a",
            "m10",
            "m10.9",
            "m10.10",
            "v1-2",
            "v1-10",
            "z",
            "ä",
            "日本2",
            "日本10",
        ];
        for (at, one) in sorted.iter().enumerate() {
            for (than, other) in sorted.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&than), "{one} and {other}");
            }
        }
    }
}
