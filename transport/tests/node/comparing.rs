//! Reads, writes and sends that go raw though the policy would compress them, and that they bring the same.

use std::thread;

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::Reason;
use mgcomp_transport::link::Message;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Address, DataReady, Header, Rank, Tag, TaggedSend, WriteRequest};
use mgcomp_transport::node::Node;
use mgcomp_transport::region::Access;

use super::overheard::Overheard;
use crate::common::job::{config, end_of, meet};
use crate::common::stubborn::{FASTEST, SLOW, Stubborn};
use crate::common::watched;

const BYTES: usize = 16 << 10;
const TAG: Tag = Tag(7);

/// Rank 0 moves bytes from and to rank 1. To send them in one way takes long.
struct Pair {
    nodes: [Node; 2],
    from: HostBuffer,
    into: HostBuffer,
    there: [Address; 2],
}

impl Pair {
    fn new(reason: Reason, slow: Algorithm) -> Self {
        let nodes = Loopback::fabric(2, None).unwrap().into_iter().map(|link| {
            let hear = move |message: &Message| {
                let (Header::DataReady(DataReady { algorithm, .. })
                | Header::WriteRequest(WriteRequest { algorithm, .. })
                | Header::TaggedSend(TaggedSend { algorithm, .. })) = message.header
                else {
                    return;
                };
                if algorithm == slow {
                    thread::sleep(SLOW);
                }
            };
            Node::start(
                Box::new(Overheard { link, hear }),
                Box::new(Stubborn { reason, slow: None }),
                config(),
            )
            .unwrap()
        });
        let nodes: [Node; 2] = nodes.collect::<Vec<_>>().try_into().ok().unwrap();
        nodes.iter().for_each(meet);
        // Every other four bytes are zero.
        let bytes: Vec<u8> = (0..BYTES).map(|at| if at / 4 % 2 == 0 { 0 } else { at as u8 | 1 }).collect();
        let from = HostBuffer::from(bytes);
        let inbox = HostBuffer::zeroed(BYTES);
        let there = [
            nodes[1].register(from.all(), Element::U32, Access::all()).unwrap(),
            nodes[1].register(inbox.all(), Element::U32, Access::all()).unwrap(),
        ];
        Self { nodes, from, into: HostBuffer::zeroed(BYTES), there }
    }

    /// Returns what was decided on it.
    fn write(&self) -> (Algorithm, Reason) {
        let write = self.nodes[0].write(Rank(1), self.from.all(), Element::U32, self.there[1]);
        assert_eq!(end_of(write), Ok(BYTES as u64));
        decided(&self.nodes[0])
    }

    /// The same of what is sent.
    fn send(&self) -> (Algorithm, Reason) {
        self.into.all().write(|into| into.fill(0xaa));
        let received = self.nodes[1].receive(Rank(0), TAG, self.into.all());
        let sent = self.nodes[0].send(Rank(1), TAG, self.from.all(), Element::U32);
        assert_eq!((end_of(sent), end_of(received)), (Ok(BYTES as u64), Ok(BYTES as u64)));
        assert!(self.into.all().to_vec() == self.from.all().to_vec());
        decided(&self.nodes[0])
    }

    /// Sends what is done once it has left.
    fn post(&self) -> (Algorithm, Reason) {
        let received = self.nodes[1].receive(Rank(0), TAG, self.into.all());
        let posted = self.nodes[0].post(Rank(1), TAG, self.from.all(), Element::U32);
        assert_eq!((end_of(posted), end_of(received)), (Ok(BYTES as u64), Ok(BYTES as u64)));
        decided(&self.nodes[0])
    }

    fn read(&self, from: Address) -> (Algorithm, Reason) {
        self.into.all().write(|into| into.fill(0xaa));
        assert_eq!(end_of(self.nodes[0].read(Rank(1), from, self.into.all())), Ok(BYTES as u64));
        assert!(self.into.all().to_vec() == self.from.all().to_vec());
        decided(&self.nodes[1])
    }

    /// Goes on until one has gone in this way, which must come to pass. Returns all.
    fn until(
        &self,
        one: impl Fn(&Self) -> (Algorithm, Reason),
        is_last: impl Fn(&[(Algorithm, Reason)]) -> bool,
    ) -> Vec<(Algorithm, Reason)> {
        let mut all = Vec::new();
        while all.is_empty() || !is_last(&all) {
            all.push(one(self));
            let (algorithm, reason) = all[all.len() - 1];
            assert!(algorithm == Algorithm::Zvc || algorithm == Algorithm::None, "{reason}");
        }
        all
    }
}

/// The last decision.
fn decided(node: &Node) -> (Algorithm, Reason) {
    let last = node.decisions().pop().unwrap().decision;
    (last.algorithm, last.reason)
}

fn count(all: &[(Algorithm, Reason)], one: (Algorithm, Reason)) -> usize {
    all.iter().filter(|each| **each == one).count()
}

#[test]
fn writes_and_sends_go_raw_where_they_take_longer_with_compression() {
    watched(|| {
        let pair = Pair::new(FASTEST, Algorithm::Zvc);
        let is_slower = |all: &[_]| matches!(all.last(), Some((_, Reason::TransferSlower { .. })));
        for one in [Pair::write, Pair::send] {
            let all = pair.until(one, is_slower);
            assert!(count(&all, (Algorithm::Zvc, FASTEST)) >= 4, "{all:?}");
            assert!(count(&all, (Algorithm::None, Reason::TransferTimed)) >= 4, "{all:?}");
            let Some((Algorithm::None, Reason::TransferSlower { coded_ns, raw_ns })) = all.last() else {
                panic!("{all:?}")
            };
            assert!(u128::from(*coded_ns) >= SLOW.as_nanos() && raw_ns < coded_ns, "{coded_ns} {raw_ns}");
        }
        // Raw or not, what was written has arrived.
        pair.read(pair.there[1]);
    });
}

#[test]
fn what_is_done_before_it_was_received_is_not_compared() {
    watched(|| {
        let pair = Pair::new(FASTEST, Algorithm::Zvc);
        for _ in 0..40 {
            assert_eq!(pair.post(), (Algorithm::Zvc, FASTEST));
        }
    });
}

#[test]
fn reads_go_raw_where_they_take_longer_with_compression() {
    watched(|| {
        let pair = Pair::new(FASTEST, Algorithm::Zvc);
        // No comparison has more than 16 in a row that are raw.
        let raw = (Algorithm::None, Reason::RawWanted);
        let is_raw = |all: &[_]| all.rchunks(20).next().is_some_and(|last| count(last, raw) == 20);
        let all = pair.until(|pair| pair.read(pair.there[0]), is_raw);
        assert!(count(&all, (Algorithm::Zvc, FASTEST)) >= 4, "{all:?}");
    });
}

#[test]
fn what_takes_longer_raw_is_compressed() {
    watched(|| {
        let pair = Pair::new(FASTEST, Algorithm::None);
        let coded = (Algorithm::Zvc, FASTEST);
        for (raw, one) in [
            ((Algorithm::None, Reason::TransferTimed), &Pair::write as &dyn Fn(&Pair) -> _),
            ((Algorithm::None, Reason::TransferTimed), &Pair::send),
            ((Algorithm::None, Reason::RawWanted), &|pair: &Pair| pair.read(pair.there[0])),
        ] {
            // Far more in a row than a comparison has.
            let is_compressed = |all: &[_]| {
                count(all, raw) > 0 && all.rchunks(40).next().is_some_and(|last| count(last, coded) == 40)
            };
            pair.until(one, is_compressed);
        }
    });
}

#[test]
fn what_was_not_decided_by_times_is_left_alone() {
    watched(|| {
        let pair = Pair::new(Reason::Fixed, Algorithm::Zvc);
        for _ in 0..20 {
            assert_eq!(pair.write(), (Algorithm::Zvc, Reason::Fixed));
            assert_eq!(pair.send(), (Algorithm::Zvc, Reason::Fixed));
            assert_eq!(pair.read(pair.there[0]), (Algorithm::Zvc, Reason::Fixed));
        }
    });
}
