//! Times of points.
//!
//! **Invariant**: a time is exact in the precision that it is written in, or cut; never rounded up.

use serde::Deserialize;

/// The unit of a point's time.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Precision {
    Ns,
    Us,
    #[default]
    Ms,
    S,
}

impl Precision {
    /// As `/write` knows it.
    pub(crate) fn in_version_1(self) -> &'static str {
        match self {
            Self::Us => "u",
            _ => self.in_version_2(),
        }
    }

    /// As `/api/v2/write` knows it.
    pub(crate) fn in_version_2(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
        }
    }

    /// Unix time in nanoseconds, in this unit; none if that is beyond 64 bits.
    pub(crate) fn of(self, nanoseconds: i128) -> Option<i64> {
        let unit = match self {
            Self::Ns => 1,
            Self::Us => 1_000,
            Self::Ms => 1_000_000,
            Self::S => 1_000_000_000,
        };
        i64::try_from(nanoseconds.div_euclid(unit)).ok()
    }

    /// Unix time in milliseconds, in this unit.
    pub(crate) fn of_ms(self, milliseconds: u64) -> i64 {
        self.of(i128::from(milliseconds) * 1_000_000)
            .unwrap_or(i64::MAX)
    }
}

/// Unix time in nanoseconds: `2024-02-29T12:00:00.5+02:00`. What is finer is cut.
pub(crate) fn rfc3339(text: &str) -> Option<i128> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse::<i64>().ok()).flatten()
    };
    let is = |at: usize, wanted: &[u8]| {
        text.as_bytes()
            .get(at)
            .is_some_and(|byte| wanted.contains(byte))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let separated = is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !separated || !(1..=days_of_month).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut nanoseconds = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit())?;
        let digits = &fraction[..end];
        let kept = &digits[..digits.len().min(9)];
        nanoseconds = kept.parse::<i128>().ok()? * 10_i128.pow(9 - u32::try_from(kept.len()).ok()?);
        rest = &fraction[end..];
    }
    let offset_minutes = match rest {
        "Z" | "z" => 0,
        _ => {
            let at = text.len() - rest.len();
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if rest.len() != 6 || !is(at + 3, b":") || hours > 23 || minutes > 59 {
                return None;
            }
            match rest.as_bytes()[0] {
                b'+' => hours * 60 + minutes,
                b'-' => -(hours * 60 + minutes),
                _ => return None,
            }
        }
    };
    // Days since 1970, in years that begin in March: the leap day is the last one.
    let (years, months) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = years * 365 + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + (months * 153 + 2) / 5
        + day
        - 719_469;
    let seconds = ((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    Some(i128::from(seconds) * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_exactly() {
        for (text, seconds, nanoseconds) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("1969-12-31T23:59:59.999Z", -1, 999_000_000),
            ("2000-02-29T23:59:60.5+23:59", 951_782_460, 500_000_000),
            (
                "2024-03-01t00:00:00.123456789123-00:30",
                1_709_253_000,
                123_456_789,
            ),
            ("0000-01-01 00:00:00z", -62_167_219_200, 0),
            ("9999-12-31T23:59:59Z", 253_402_300_799, 0),
        ] {
            let expected = seconds * 1_000_000_000 + nanoseconds;
            assert_eq!(rfc3339(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-02-30T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+0100",
            "2024-01-01T00:00:00é00:00",
            "2024-01-01T00:00:00+01:00Z",
            "+024-01-01T00:00:00Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
        let every_day = (0..2_930_000).step_by(997);
        for day in every_day {
            let (year, month, date) = date(day);
            let text = format!("{year:04}-{month:02}-{date:02}T00:00:00Z");
            assert_eq!(
                rfc3339(&text),
                Some(i128::from(day) * 86_400_000_000_000),
                "{text}"
            );
        }
    }

    /// The date of a day since 1970, counted off.
    fn date(mut day: u32) -> (u32, u32, u32) {
        let leap = |year: u32| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut year = 1970;
        while day >= 365 + u32::from(leap(year)) {
            day -= 365 + u32::from(leap(year));
            year += 1;
        }
        let february = 28 + u32::from(leap(year));
        let mut month = 1;
        for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if day < days {
                break;
            }
            day -= days;
            month += 1;
        }
        (year, month, day + 1)
    }

    #[test]
    fn units_cut_and_never_round() {
        let before_1970 = -1_500_000_001;
        assert_eq!(Precision::Ns.of(before_1970), Some(-1_500_000_001));
        assert_eq!(Precision::Us.of(before_1970), Some(-1_500_001));
        assert_eq!(Precision::Ms.of(1_999_999), Some(1));
        assert_eq!(Precision::S.of_ms(1_999), 1);
        assert_eq!(Precision::Ns.of(i128::from(i64::MAX) + 1), None);
    }
}
