//! Unit tests of `acts/number.rs`.

use super::*;

#[test]
fn sums_are_exact() {
    for (value, step, expected) in [
        ("2", "1", "3"),
        ("1.50", "1", "2.50"),
        ("0.10", "0.1", "0.20"),
        ("1e2", "1", "101"),
        ("1.5E+1", "1", "16"),
        ("15e-1", "1", "2.5"),
        ("0", "-1", "-1"),
        ("0.5", "-0.5", "0.0"),
        ("-0", "1", "1"),
        ("-0.05", "0.01", "-0.04"),
        ("\"10\"", "1", "\"11\""),
        ("12345678901234567890123", "1", "12345678901234567890124"),
        ("0e999", "1", "1"),
    ] {
        assert_eq!(
            sum(value, step).as_deref(),
            Some(expected),
            "{value} + {step}"
        );
    }
}

#[test]
fn what_is_no_number_is_none() {
    for value in [
        "null",
        "true",
        "[1]",
        "{}",
        "\" 1\"",
        "\"+1\"",
        "\"1,5\"",
        "\"007\"",
        "\"\"",
        "\"A\"",
        "\"1 \"",
        "\"\\u0031\"",
        "\"NaN\"",
        "1e400",
        "1e-400",
        "1e99999999999999999999",
        "\"1e\"",
        "\"e1\"",
    ] {
        assert_eq!(sum(value, "1"), None, "{value}");
    }
    let long = "9".repeat(100);
    assert_eq!(sum(&long, "1"), None);
    assert_eq!(sum(&long, "-1").map(|sum| sum.len()), Some(100));
}

#[test]
fn zero_is_known_however_it_is_written() {
    for zero in ["0", "-0", "0.0", "0e5", "-0.00E+3"] {
        assert!(is_zero(zero), "{zero}");
    }
    for other in ["1", "0.01", "-1e0", "10", ""] {
        assert!(!is_zero(other), "{other}");
    }
}
