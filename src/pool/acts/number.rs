//! Adding to a number that an item shows, exactly.
//!
//! **Invariant**: what is added to is a JSON number, or a text that is exactly one; the sum has as many decimals as the
//! longer of the two, and is written without an exponent.

use num_bigint::BigInt;
use serde_json::value::RawValue;

/// A sum has at most so many digits, because an exponent of a few characters can stand for any number of them.
const DIGITS_MAX: usize = 100;

/// A number is `digits` times ten to the power of minus `decimals`. A float would change digits that the source has
/// sent.
struct Decimal {
    digits: BigInt,
    decimals: u32,
}

/// `value` plus `step`, both as JSON writes them; a text stays one. None: one of them is no number, or the sum is too long.
pub(super) fn sum(value: &str, step: &str) -> Option<String> {
    let step = Decimal::read(step)?;
    match value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        Some(text) => Some(format!("\"{}\"", Decimal::read(text)?.plus(step)?)),
        None => Decimal::read(value)?.plus(step),
    }
}

/// Whether a JSON number is zero. A text that is no number is not.
pub fn is_zero(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().any(|byte| byte == b'0')
        && mantissa
            .bytes()
            .all(|byte| matches!(byte, b'0' | b'.' | b'-'))
}

impl Decimal {
    /// As JSON writes numbers; none: it is none, or has far too many digits.
    fn read(text: &str) -> Option<Self> {
        // What JSON takes for a value, of any size, and begins as numbers do.
        let value: &RawValue = serde_json::from_str(text).ok()?;
        if value.get() != text
            || !text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        {
            return None;
        }
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text, 0_i64),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let decimals = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        let far = i64::try_from(DIGITS_MAX).ok()?;
        let mut digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
        if decimals > far || whole.len() + fraction.len() > 2 * DIGITS_MAX {
            return None;
        }
        if decimals < 0 {
            let zeros = u32::try_from(-decimals).ok()?;
            if i64::from(zeros) > far && digits != BigInt::ZERO {
                return None;
            }
            digits *= BigInt::from(10).pow(zeros.min(DIGITS_MAX as u32));
        }
        let decimals = u32::try_from(decimals.max(0)).ok()?;
        Some(Self { digits, decimals })
    }

    fn at(&self, decimals: u32) -> BigInt {
        &self.digits * BigInt::from(10).pow(decimals - self.decimals)
    }

    fn plus(self, other: Self) -> Option<String> {
        let decimals = self.decimals.max(other.decimals);
        let sum = self.at(decimals) + other.at(decimals);
        let sign = match sum < BigInt::ZERO {
            true => "-",
            false => "",
        };
        let decimals = decimals as usize;
        let digits = sum.magnitude().to_string();
        let digits = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        if digits.len() > DIGITS_MAX {
            return None;
        }
        Some(match fraction {
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        })
    }
}

#[cfg(test)]
mod tests;
