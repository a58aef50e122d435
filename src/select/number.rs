//! Decimal numbers as JSON writes them: compared and rounded as text.
//!
//! **Invariant**: no floating point: `1e400`, 2^64 and `0.1` are what they say.

use std::cmp::Ordering;
use std::fmt;

/// A number with more digits than this is not written out to be rounded, because an exponent of a few characters can
/// stand for any number of digits.
const DIGITS_MAX: i64 = 64;
/// An exponent beyond this counts as this. Sums with it do not overflow 64 bits.
const EXPONENT_MAX: i64 = 1 << 61;
/// A number that takes more characters is printed with an exponent.
const PRINTED_MAX: usize = 40;

/// A number in one form: 0.d₁d₂d₃… × 10^exponent. One form, so that `1`, `1.0` and `1e0` are equal and have the same
/// hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    is_negative: bool,
    /// Neither the first nor the last is 0; none of zero. Two numbers are then compared by exponent and text alone.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// The value of a text that is written as JSON writes a number. Only what JSON allows is a number, so that `007`
    /// and `1.` stay texts.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let are_digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
        if has_leading_zero || !are_digits(whole) || !are_digits(fraction) {
            return None;
        }
        // Zeros before the first digit and behind the last one say nothing of the digits.
        let mut first = whole.trim_start_matches('0');
        let mut zeros = whole.len() - first.len();
        let mut second = fraction.trim_end_matches('0');
        if first.is_empty() {
            let behind = second.trim_start_matches('0');
            zeros += second.len() - behind.len();
            second = behind;
        }
        if second.is_empty() {
            first = first.trim_end_matches('0');
        }
        let digits = [first, second].concat();
        if digits.is_empty() {
            return Some(Self::zero());
        }
        Some(Self {
            is_negative,
            digits,
            exponent: (exponent + whole.len() as i64 - zeros as i64)
                .clamp(-EXPONENT_MAX, EXPONENT_MAX),
        })
    }

    /// The number with so many places behind the point, the last one rounded, a half away from zero. None: it is too
    /// long to be written out.
    pub fn rounded(&self, places: u32) -> Option<String> {
        let places = i64::from(places);
        if self.exponent.abs() > DIGITS_MAX {
            let is_tiny = self.exponent < 0;
            return is_tiny.then(|| Self::zero().written(&[], places));
        }
        let kept = self.exponent + places;
        let mut digits: Vec<u8> = (0..kept.max(0)).map(|at| self.digit(at)).collect();
        if kept >= 0 && self.digit(kept) >= 5 {
            let mut carries = true;
            for digit in digits.iter_mut().rev() {
                *digit += 1;
                carries = *digit == 10;
                if !carries {
                    break;
                }
                *digit = 0;
            }
            if carries {
                digits.insert(0, 1);
            }
        }
        Some(self.written(&digits, places))
    }

    fn zero() -> Self {
        Self {
            is_negative: false,
            digits: String::new(),
            exponent: 0,
        }
    }

    fn digit(&self, at: i64) -> u8 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.digits
            .as_bytes()
            .get(at)
            .map_or(0, |digit| digit - b'0')
    }

    /// The digits with the point before the last `places` of them. Zero has no sign, so that `-0.4` without places is
    /// `0`.
    fn written(&self, digits: &[u8], places: i64) -> String {
        let places = usize::try_from(places).unwrap_or(0);
        let missing = (places + 1).saturating_sub(digits.len());
        let all = std::iter::repeat_n(&0, missing).chain(digits);
        let mut text: String = all.map(|digit| char::from(b'0' + digit)).collect();
        if places > 0 {
            text.insert(text.len() - places, '.');
        }
        if self.is_negative && digits.iter().any(|digit| *digit > 0) {
            text.insert(0, '-');
        }
        text
    }
}

/// An exponent of any length. A longer one counts as the largest, because a number with it is valid JSON, too.
fn read_exponent(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX).min(2 * EXPONENT_MAX);
    Some(if is_negative { -size } else { size })
}

/// Written out where that is short, else as `d.ddde±n`: what is read of it is the same number.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let count = self.digits.len() as i64;
        if self.exponent.abs() <= PRINTED_MAX as i64 {
            let places = (count - self.exponent).max(0);
            let digits: Vec<u8> = (0..count.max(self.exponent))
                .map(|at| self.digit(at))
                .collect();
            let text = self.written(&digits, places);
            if text.len() <= PRINTED_MAX {
                return f.write_str(&text);
            }
        }
        let (first, others) = self.digits.split_at(1);
        let point = if others.is_empty() { "" } else { "." };
        write!(f, "{sign}{first}{point}{others}e{}", self.exponent - 1)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |one: &Self| match (one.digits.is_empty(), one.is_negative) {
            (true, _) => 0,
            (_, true) => -1,
            (_, false) => 1,
        };
        let size = |one: &Self, other: &Self| {
            let by_exponent = one.exponent.cmp(&other.exponent);
            by_exponent.then_with(|| one.digits.cmp(&other.digits))
        };
        rank(self)
            .cmp(&rank(other))
            .then_with(|| match self.is_negative {
                true => size(other, self),
                false => size(self, other),
            })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;
