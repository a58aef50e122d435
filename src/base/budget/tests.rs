//! Unit tests of `budget.rs`.

use super::*;

fn share() -> Arc<Share> {
    Arc::default()
}

#[test]
fn portions_are_bounded_together_and_a_lone_one_always_fits() {
    let budget = Arc::new(Budget::new(100, 100));
    let (one, other) = (share(), share());
    let mut large = budget.portion(&one, 500);
    assert_eq!(large.take(400), Ok(()));
    assert_eq!(large.take(100), Ok(()));
    assert_eq!(large.take(1), Err(Full::Portion));
    assert_eq!(budget.portion(&other, 500).take(1), Err(Full::Budget));
    drop(large);
    let mut half = budget.portion(&one, 500);
    assert_eq!(half.take(60), Ok(()));
    assert_eq!(budget.portion(&other, 500).take(41), Err(Full::Budget));
    assert_eq!(budget.portion(&other, 500).take(40), Ok(()));
    let mut unauthenticated = budget.portion_of_unauthenticated(&other, 500);
    assert_eq!(unauthenticated.take(1), Err(Full::Budget));
    drop((half, unauthenticated));
    assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
}

#[test]
fn one_share_leaves_room_for_others() {
    let budget = Arc::new(Budget::new(100, 25));
    let (greedy, modest) = (share(), share());
    let mut held: Vec<Portion> = (0..25).map(|_| budget.portion(&greedy, 10)).collect();
    let full = |portion: &mut Portion| portion.take(1) == Err(Full::Share);
    assert!(!held.iter_mut().any(full));
    assert_eq!(budget.portion(&greedy, 10).take(1), Err(Full::Share));
    assert_eq!(budget.portion(&modest, 30).take(30), Ok(()), "its first");
    drop(held);
    assert_eq!(budget.portion(&greedy, 10).take(1), Ok(()));
}

#[test]
fn who_has_most_gives_way_and_nobody_else_notices() {
    let budget = Arc::new(Budget::new(100, 50));
    let (greedy, modest, new) = (share(), share(), share());
    let take = |share: &Arc<Share>, bytes| {
        let mut portion = budget.portion(share, 100);
        assert_eq!(portion.take(bytes), Ok(()));
        let gives_way = portion.waits();
        (portion, gives_way)
    };
    let (oldest, other, few) = (take(&greedy, 25), take(&greedy, 24), take(&modest, 45));
    let mut portion = budget.portion(&new, 100);
    assert_eq!(portion.take(10), Ok(()));
    let gave_way = [&oldest, &other, &few].map(|(_, token)| token.is_cancelled());
    assert_eq!(gave_way, [true, false, false]);
    // Before it has left, its room counts.
    assert_eq!(portion.take(10), Ok(()));
    assert!(!other.1.is_cancelled());
    drop(oldest);
    assert_eq!(budget.taken.load(Ordering::Relaxed), 89);
    assert_eq!(budget.leaving.load(Ordering::Relaxed), 0);
    // Who has most finds nobody to take from.
    drop(other);
    let mut most = budget.portion(&new, 100);
    assert_eq!(most.take(30), Ok(()));
    assert_eq!(budget.portion(&new, 100).take(10), Err(Full::Share));
    assert_eq!(budget.portion(&share(), 100).take(10), Ok(()));
    assert!(
        few.1.is_cancelled(),
        "it has 45, and the newest 50 that wait for nothing"
    );
}
