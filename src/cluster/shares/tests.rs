//! Unit tests of `shares.rs`.

use super::*;

const RATE: u64 = 1_000;
const STEP: Duration = Duration::from_millis(250);

/// Some nodes and what is published; time passes step by step.
struct World {
    nodes: Vec<Shares<u8>>,
    published: HashMap<Uuid, (NodeShare, u64)>,
    now: Duration,
}

impl World {
    fn of(count: usize) -> Self {
        let nodes = (0..count).map(|_| Shares::new(Uuid::now_v7())).collect();
        Self {
            nodes,
            published: HashMap::new(),
            now: Duration::ZERO,
        }
    }

    /// One node publishes what it has to.
    fn publish(&mut self, at: usize, wanted: u64) {
        let ids: Vec<Uuid> = self.nodes.iter().map(|node| node.node).collect();
        let node = &mut self.nodes[at];
        let others = ids.into_iter().filter(|id| *id != node.node).collect();
        let wanted = (wanted > 0).then_some(Wanted {
            id: 0,
            per_second: RATE,
            wanted,
        });
        let publish = node.look(self.now, others, wanted);
        for (_, share, wanted) in publish.shares {
            self.published.insert(node.node, (share, wanted));
        }
        if !publish.withdrawn.is_empty() {
            self.published.remove(&node.node);
        }
    }

    /// One node reads what there is.
    fn read(&mut self, at: usize) {
        let all = (self.published.iter()).map(|(node, (share, wanted))| PublishedShare {
            id: 0,
            node: *node,
            share: *share,
            wanted: *wanted,
        });
        self.nodes[at].receive(all);
    }

    fn used(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.of(&0).parts()).collect()
    }

    /// All nodes look, in an order that `random` says, publishing and reading interleaved.
    fn step(&mut self, wanted: &[u64], random: &mut impl FnMut(usize) -> usize) {
        let mut acts: Vec<(usize, bool)> = (0..self.nodes.len()).map(|at| (at, false)).collect();
        while !acts.is_empty() {
            let (at, is_published) = acts.swap_remove(random(acts.len()));
            match is_published {
                false => {
                    self.publish(at, wanted[at]);
                    acts.push((at, true));
                }
                true => self.read(at),
            }
            let used: u32 = self.used().iter().sum();
            let spare = NodeShare::MIN.parts() * 8;
            assert!(
                used <= NodeShare::WHOLE.parts() + spare,
                "{:?}",
                self.used()
            );
        }
        self.now += STEP;
    }
}

/// Numbers below what is asked for, the same in every run.
fn random(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        seed =
            (seed.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap_or(0) % below
    }
}

/// Of the rate, in percent, what nodes may use that are asked for so much, when all had time to look.
fn percent(count: usize, wanted: &[u64], seed: u64) -> u64 {
    let mut random = random(seed);
    let mut world = World::of(count);
    for _ in 0..40 {
        world.step(wanted, &mut random);
    }
    let taken = world.used().into_iter().zip(wanted).map(|(parts, wanted)| {
        let may = RATE * u64::from(parts) / u64::from(NodeShare::WHOLE.parts());
        may.min(*wanted)
    });
    taken.sum::<u64>() * 100 / RATE
}

#[test]
fn the_rate_is_used_wherever_requests_come_and_never_more() {
    for seed in 0..20 {
        for count in [2, 3, 4] {
            let even = vec![RATE; count];
            let mut one = vec![0; count];
            one[0] = 2 * RATE;
            let mut uneven = vec![RATE / 10; count];
            uneven[count - 1] = 3 * RATE;
            for wanted in [even, one, uneven] {
                let percent = percent(count, &wanted, seed);
                assert!((94..=100).contains(&percent), "{percent} % of {wanted:?}");
            }
        }
    }
}

#[test]
fn what_moves_between_nodes_is_followed() {
    let mut random = random(7);
    let mut world = World::of(4);
    for round in 0..12 {
        let mut wanted = vec![0; 4];
        wanted[round % 4] = 2 * RATE;
        for _ in 0..20 {
            world.step(&wanted, &mut random);
        }
        let used = world.used()[round % 4];
        assert!(used > NodeShare::WHOLE.parts() * 94 / 100, "{used}");
    }
    for _ in 0..40 {
        world.step(&[0; 4], &mut random);
    }
    assert!(
        world.published.is_empty(),
        "nothing is kept of what is over"
    );
    assert_eq!(world.used(), [NodeShare::of_equals(4).parts(); 4]);
}

#[test]
fn a_node_that_comes_waits_until_the_others_know_of_it() {
    let mut shares = Shares::new(Uuid::now_v7());
    let other = vec![Uuid::now_v7()];
    let wanted = Wanted {
        id: 0,
        per_second: RATE,
        wanted: RATE,
    };
    shares.look(Duration::ZERO, other.clone(), [wanted]);
    shares.receive([]);
    assert!(shares.of(&0).parts() < NodeShare::WHOLE.parts() / 20);
    assert!(shares.of(&1).parts() < NodeShare::WHOLE.parts() / 20);
    shares.look(NEW_FOR, other, [wanted]);
    shares.receive([]);
    assert_eq!(shares.of(&0), NodeShare::of_equals(2));
    assert_eq!(shares.of(&1), NodeShare::of_equals(2));
    shares.forget();
    shares.look(NEW_FOR + STEP, Vec::new(), [wanted]);
    assert_eq!(shares.of(&0), NodeShare::WHOLE, "it is alone");
}
