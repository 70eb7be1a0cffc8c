//! Collectives that go raw though the policy would compress them, and that they bring the same.

use std::thread;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::{CheapFacts, Decision, Estimate, Outcome, Plan, Policy, Reason};
use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::node::Node;

use super::buffer_of;
use super::common::job::{config, meet};

/// Always the same algorithm for the same reason; and one way of sending takes long.
#[derive(Debug)]
struct Stubborn {
    reason: Reason,
    slow: Algorithm,
}

/// Far longer than a collective takes otherwise, and short enough for it to be compared.
const SLOW: Duration = Duration::from_millis(3);
const FASTEST: Reason = Reason::Fastest { predicted_ns: 1, raw_ns: 2 };
/// Each rank's block.
const BYTES: usize = 16 << 10;

impl Policy for Stubborn {
    fn name(&self) -> String {
        "stubborn".to_owned()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        let decision = Decision::bypass(facts, self.reason);
        Plan::Use(Decision { algorithm: Algorithm::Zvc, ..decision })
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, self.reason)
    }

    fn observe(&mut self, _: &CheapFacts, decision: &Decision, _: &Outcome) {
        if decision.algorithm == self.slow {
            thread::sleep(SLOW);
        }
    }
}

/// What the first rank decided in so many all-gathers, each of which brought what it should.
fn decided(reason: Reason, slow: Algorithm, collectives: usize) -> Vec<(Algorithm, Reason)> {
    let start = |link| Node::start(Box::new(link), Box::new(Stubborn { reason, slow }), config()).unwrap();
    let nodes: Vec<Node> = Loopback::fabric(2, None).unwrap().into_iter().map(start).collect();
    nodes.iter().for_each(meet);
    let communicators: Vec<_> = nodes.into_iter().map(Communicator::world).collect();
    let all = [0, 1].map(|rank| buffer_of(rank, BYTES).all().to_vec()).concat();
    thread::scope(|scope| {
        for communicator in &communicators {
            scope.spawn(|| {
                let (mine, got) = (buffer_of(communicator.rank(), BYTES), HostBuffer::zeroed(2 * BYTES));
                for _ in 0..collectives {
                    got.all().write(|got| got.fill(0xaa));
                    communicator.all_gather(&mine.all(), &got.all(), Element::U8).unwrap();
                    assert!(got.all().read(|got| *got == all));
                }
            });
        }
    });
    let records = communicators[0].node().decisions();
    let of_blocks = records.iter().filter(|record| record.facts.raw_bytes == BYTES as u64);
    let decided: Vec<_> =
        of_blocks.map(|record| (record.decision.algorithm, record.decision.reason)).collect();
    assert_eq!(decided.len(), collectives, "one message each");
    decided
}

fn count(decided: &[(Algorithm, Reason)], is_one: impl Fn(Algorithm, Reason) -> bool) -> usize {
    decided.iter().filter(|&&(algorithm, reason)| is_one(algorithm, reason)).count()
}

#[test]
fn collectives_go_raw_where_they_take_longer_with_compression() {
    let decided = decided(FASTEST, Algorithm::Zvc, 200);
    let is_compressed = |algorithm, reason| algorithm == Algorithm::Zvc && reason == FASTEST;
    let is_timed = |algorithm, reason| algorithm == Algorithm::None && reason == Reason::CollectiveTimed;
    let is_slower = |algorithm, reason| match reason {
        Reason::CollectiveSlower { coded_ns, raw_ns } => {
            assert!(u128::from(coded_ns) >= SLOW.as_nanos() && raw_ns < coded_ns, "{reason}");
            algorithm == Algorithm::None
        }
        _ => false,
    };
    let [compressed, timed, slower] =
        [count(&decided, is_compressed), count(&decided, is_timed), count(&decided, is_slower)];
    assert_eq!(compressed + timed + slower, decided.len());
    assert!(compressed >= 4 && timed >= 4, "{decided:?}");
    assert!(slower > 100, "{decided:?}");
}

#[test]
fn collectives_are_compressed_where_they_take_longer_raw() {
    let decided = decided(FASTEST, Algorithm::None, 200);
    let timed = count(&decided, |algorithm, _| algorithm == Algorithm::None);
    assert!((2..50).contains(&timed), "{decided:?}");
    assert_eq!(count(&decided, |_, reason| reason == Reason::CollectiveTimed), timed);
}

#[test]
fn what_was_not_decided_by_times_is_left_alone() {
    let decided = decided(Reason::Fixed, Algorithm::Zvc, 40);
    assert!(decided.iter().all(|&made| made == (Algorithm::Zvc, Reason::Fixed)));
}
