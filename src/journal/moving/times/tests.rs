//! Unit tests of `moving/times.rs`.

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const BEGAN: Lived = Lived::from_ms(1 << 40);

#[test]
fn a_log_becomes_few_generations_that_rise() {
    for (hours, most) in [(0_u32, 1), (5, 1), (6, 2), (13, 3), (24 * 30, 9)] {
        let points: Vec<(Lived, Seq)> = (0..=hours)
            .map(|hour| (BEGAN + HOUR * hour, Seq::new(u64::from(hour) * 10)))
            .collect();
        let lived = points.last().expect("a point").0;
        let spans = spans(&points, lived);
        assert!(spans.len() <= most, "{hours}: {spans:?}");
        assert_eq!(spans[0], (Seq::MIN, BEGAN));
        assert!(spans.is_sorted_by(|a, b| a.0 < b.0 && a.1 + 6 * HOUR <= b.1));
        for (first, at) in &spans[1..] {
            assert!(points.contains(&(*at, *first - 1)));
        }
    }
    // Nobody sent anything for a month.
    let idle = [
        (BEGAN, Seq::new(7)),
        (BEGAN + 700 * HOUR, Seq::new(7)),
        (BEGAN + 701 * HOUR, Seq::new(8)),
    ];
    assert_eq!(spans(&idle, BEGAN + 701 * HOUR).len(), 2);
    assert_eq!(spans(&[], BEGAN), [(Seq::MIN, BEGAN)]);
}

#[test]
fn points_rise_and_make_nothing_older() {
    let mut points = Points::default();
    let at = |seconds| BEGAN + Duration::from_secs(seconds);
    let arrived = [(10, 0), (11, 1), (12, 40), (13, 35), (14, 90)];
    for (seq, seconds) in arrived {
        points.arrived(Seq::new(seq), at(seconds));
    }
    points.given(Seq::new(20), at(95));
    points.given(Seq::new(11), at(20));
    points.given(Seq::new(30), at(95));
    let rising = points.rising();
    assert!(
        rising.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
        "{rising:?}"
    );
    for (seq, seconds) in arrived {
        let reached = rising.iter().find(|(_, through)| *through >= Seq::new(seq));
        assert!(
            reached.is_some_and(|(lived, _)| *lived >= at(seconds)),
            "{seq}"
        );
    }
    assert_eq!(rising.last(), Some(&(at(95), Seq::new(30))));
}

#[test]
fn numbers_that_nobody_has_are_as_many_however_they_are_taken_together() {
    let mut gaps = Gaps::default();
    let requests = 3 * GAPS_MAX as u64;
    for number in 0..requests {
        gaps.request(Seq::new(1 + number * 4_096));
        gaps.request(Seq::new(2 + number * 4_096));
    }
    let ranges = gaps.ranges();
    assert!(ranges.len() < GAPS_MAX);
    assert!(ranges.is_sorted_by(|a, b| a.end <= b.start));
    let numbers: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert_eq!(numbers, (requests - 1) * 4_094);
    let mut few = Gaps::default();
    for number in [3, 4, 10] {
        few.request(Seq::new(number));
    }
    assert_eq!(few.ranges(), [Seq::new(4)..Seq::new(9)]);
}
