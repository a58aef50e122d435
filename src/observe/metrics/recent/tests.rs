//! Unit tests of `metrics/recent.rs`.

use super::*;

const ONE: Minute = Minute {
    requests: 1,
    errors: 0,
    unavailable: 0,
    items: 3,
    timed: 1,
    took: Duration::from_millis(2),
    took_max: Duration::from_millis(2),
};
/// A time long after 1970, at the beginning of a minute.
const START_MINUTE: u64 = 29_000_000;
const START: Unix = Unix::from_ms(START_MINUTE * 60_000);
const MINUTE: Duration = Duration::from_mins(1);

fn requests(recent: &Recent, connector: Option<&str>, now: Unix) -> Vec<u64> {
    let hour = recent.hour(connector, now);
    assert_eq!(hour.len(), MINUTES);
    hour.iter().map(|minute| minute.requests).collect()
}

#[test]
fn percentiles_are_those_of_the_hour_up_to_an_eighth_more() {
    let recent = Recent::default();
    assert_eq!(recent.percentiles(START, [50]), None);
    for millis in 1..=100 {
        let took = Duration::from_millis(millis);
        let request = Minute { took, ..ONE };
        recent.note(None, START + MINUTE * (millis as u32 % 60), request);
    }
    let now = START + 59 * MINUTE;
    let found = recent.percentiles(now, [50, 99]).expect("they were timed");
    for (found, exact) in found.into_iter().zip([50, 99]) {
        let exact = Duration::from_millis(exact);
        assert!(
            found >= exact && found <= exact * 5 / 4,
            "{found:?} for {exact:?}"
        );
    }
    assert_eq!(recent.percentiles(now + 60 * MINUTE, [50]), None);
    // The shortest and the longest have a class too.
    for took in [Duration::ZERO, Duration::from_hours(9)] {
        recent.note(None, now, Minute { took, ..ONE });
    }
    assert!(longest_of(class_of(Duration::ZERO)) >= Duration::ZERO);
    for micros in [4, 5, 7, 8, 9, 15, 16, 1_000, 123_456] {
        let took = Duration::from_micros(micros);
        let longest = longest_of(class_of(took));
        assert!(
            longest > took && longest <= took * 5 / 4 + Duration::from_micros(1),
            "{took:?}: {longest:?}"
        );
    }
}

#[test]
fn each_minute_has_its_numbers_and_an_hour_later_none() {
    let recent = Recent::default();
    let shop: Arc<str> = "shop".into();
    recent.note(Some(&shop), START, ONE);
    recent.note(Some(&shop), START + Duration::from_millis(59_999), ONE);
    recent.note(None, START + 2 * MINUTE, ONE);
    let now = START + 2 * MINUTE;
    assert_eq!(requests(&recent, None, now)[57..], [2, 0, 1]);
    assert_eq!(requests(&recent, Some("shop"), now)[57..], [2, 0, 0]);
    assert_eq!(requests(&recent, Some("other"), now), [0; MINUTES]);
    let sum = recent.hour(None, now).into_iter().reduce(Minute::and);
    let sum = sum.expect("minutes");
    assert_eq!((sum.items, sum.took_max), (9, ONE.took_max));
    assert_eq!(sum.took, ONE.took * 3);

    let later = START + 59 * MINUTE;
    assert_eq!(requests(&recent, None, later)[..3], [2, 0, 1]);
    assert_eq!(requests(&recent, None, later + MINUTE)[..3], [0, 1, 0]);
    recent.note(None, START + 60 * MINUTE, ONE);
    let after = requests(&recent, None, START + 60 * MINUTE);
    assert_eq!((after[0], after[1], after[59]), (0, 1, 1));
    assert_eq!(after.iter().sum::<u64>(), 2);
}

#[test]
fn what_was_counted_before_joins_what_is_counted_now() {
    let recent = Recent::default();
    let shop: Arc<str> = "shop".into();
    let minute = START_MINUTE;
    recent.note(Some(&shop), START, ONE);
    recent.restore("shop", minute, ONE);
    recent.restore("shop", minute - 59, ONE);
    // Nothing is forgotten for something too old.
    recent.restore("shop", minute - 60, ONE);
    for connector in [None, Some("shop")] {
        let hour = requests(&recent, connector, START);
        assert_eq!((hour[0], hour[59], hour.iter().sum::<u64>()), (1, 2, 3));
    }
}

#[test]
fn a_clock_that_is_set_back_begins_afresh() {
    let recent = Recent::default();
    recent.note(None, START + 100 * MINUTE, ONE);
    recent.note(None, START, ONE);
    let hour = requests(&recent, None, START);
    assert_eq!((hour[59], hour.iter().sum::<u64>()), (1, 1));
}

#[test]
fn there_are_so_many_connectors_and_no_more() {
    let recent = Recent::default();
    for number in 0..CONNECTORS_MAX + 5 {
        recent.note(Some(&number.to_string().into()), START, ONE);
    }
    assert_eq!(recent.lock().connectors.len(), CONNECTORS_MAX);
    let all = requests(&recent, None, START);
    assert_eq!(all[59], CONNECTORS_MAX as u64 + 5);
}
