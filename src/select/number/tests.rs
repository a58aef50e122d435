//! Unit tests of `number.rs`.

use super::*;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a number"))
}

#[test]
fn numbers_are_compared_without_a_loss() {
    let sorted = [
        "-1e400",
        "-18446744073709551617",
        "-18446744073709551616",
        "-10",
        "-9.5",
        "-1e-400",
        "0",
        "1e-400",
        "0.1",
        "0.10000000000000000001",
        "1",
        "1.5",
        "2",
        "10",
        "9007199254740993",
        "1e400",
        "1e99999999999999999999",
    ];
    for pair in sorted.windows(2) {
        assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
    }
    for (one, same) in [
        ("1.50", "15e-1"),
        ("-0.0", "0"),
        ("1000", "1E+3"),
        ("0.001", "1e-3"),
    ] {
        assert_eq!(decimal(one), decimal(same));
    }
    for wrong in [
        "", "-", "x", "1.2.3", "1e", ".5", "5.", "007", "+1", " 1", "1,5", "true", "0x10", "٥",
    ] {
        assert_eq!(Decimal::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn numbers_are_rounded_as_people_do() {
    let check = |text: &str, places: u32, expected: Option<&str>| {
        assert_eq!(
            decimal(text).rounded(places).as_deref(),
            expected,
            "{text} to {places}"
        );
    };
    check("10.5", 2, Some("10.50"));
    check("10.50", 1, Some("10.5"));
    check("10.5", 0, Some("11"));
    check("-10.5", 0, Some("-11"));
    check("9.995", 2, Some("10.00"));
    check("0.04", 1, Some("0.0"));
    check("-0.04", 1, Some("0.0"));
    check("0.05", 1, Some("0.1"));
    check("0.005", 1, Some("0.0"));
    check("0", 2, Some("0.00"));
    check("2.675", 2, Some("2.68"));
    check("1.2e3", 1, Some("1200.0"));
    check("18446744073709551616", 1, Some("18446744073709551616.0"));
    check("1e400", 2, None);
    check("1e-400", 2, Some("0.00"));
}
