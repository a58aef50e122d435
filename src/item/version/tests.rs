//! Unit tests of `version.rs`.

use super::Version;

#[test]
fn bytes_sort_as_versions_do() {
    let all = [i128::MIN, -1_000_001, -1, 0, 1, 999, 1 << 64, i128::MAX];
    for pair in all.map(Version::from_millionths).windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
        assert!(pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
        assert_eq!(Version::from_bytes(pair[1].to_bytes()), pair[1]);
    }
}

#[test]
fn versions_are_numbers_or_times() {
    for (older, newer) in [
        ("1", "2"),
        ("9", "10"),
        ("-3", "0"),
        ("-1", "-0.9"),
        ("1.4", "1.5"),
        ("0.000001", "0.000002"),
        ("1700000000", "1700000000.25"),
        ("1355517523.000005", "1355517523.000006"),
        ("9223372036854775807", "9223372036854775808"),
        ("99999999999999999998", "99999999999999999999"),
        ("1767607200000000000", "1767607200000000001"),
        ("2026-01-05T10:00:00Z", "2026-01-05T10:00:01Z"),
        ("2026-01-05T10:00:00-05:00", "2026-01-05T10:00:00-06:00"),
        ("2026-01-05T10:00:00.1Z", "2026-01-05T10:00:00.25Z"),
        (
            "2026-01-05T10:00:00.000000001Z",
            "2026-01-05T10:00:00.000000002Z",
        ),
        ("1969-12-31T23:59:59.9Z", "1970-01-01T00:00:00Z"),
        ("1767607200000", "2026-01-05T10:00:00.000000001Z"),
    ] {
        assert!(Version::parse(older).is_some(), "{older}");
        assert!(
            Version::parse(older) < Version::parse(newer),
            "{older} {newer}"
        );
    }
    for (one, other) in [
        ("1", "1.0"),
        ("1.10", "1.1"),
        ("1e3", "1000"),
        ("1.5E-1", "0.15"),
        ("-0", "+0.0"),
        ("00007", "7"),
        ("0.0000005", "0.000001"),
        ("0e99", "0"),
        ("1767607200000", "2026-01-05T10:00:00Z"),
        ("2026-01-05T10:00:00Z", "2026-01-05T05:00:00-05:00"),
    ] {
        assert!(Version::parse(one).is_some(), "{one}");
        assert_eq!(Version::parse(one), Version::parse(other), "{one} {other}");
    }
    let long = "1".repeat(Version::TEXT_BYTES_MAX + 1);
    let none = [
        "",
        "-",
        ".",
        "e5",
        "1e",
        "1e9999999999",
        "soon",
        "2026-01-05",
        "1e300",
        "NaN",
        "inf",
        "0x10",
        "1_000",
        " 1",
        "1 ",
        "1.2.3",
        "--1",
        "٣",
        &long,
    ];
    for text in none {
        assert_eq!(Version::parse(text), None, "{text}");
    }
}

#[test]
fn a_version_is_written_as_the_shortest_decimal() {
    for (millionths, text) in [
        (0, "0"),
        (9_000_000, "9"),
        (-1_500_000, "-1.5"),
        (-1, "-0.000001"),
        (1_767_607_200_000_000_001_000_000, "1767607200000000001"),
        (1_700_000_000_001_000, "1700000000.001"),
    ] {
        assert_eq!(Version::from_millionths(millionths).to_string(), text);
    }
}

#[test]
fn versions_of_before_keep_their_scale() {
    for thousandths in [i64::MIN, -7, 0, 1_500, i64::MAX] {
        let version = Version::from_thousandths(thousandths);
        assert_eq!(version.millionths(), i128::from(thousandths) * 1_000);
    }
    assert_eq!(size_of::<Option<Version>>(), 24);
}
