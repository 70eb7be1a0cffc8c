//! What is encoded for several peers at once, with an executor that does what a test says.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use mgcomp_selector::{DecisionLog, Estimate, Fixed, Outcome, Record};

use super::super::stats::Stats;
use super::*;
use crate::control::Meter;
use crate::memory::HostBuffer;
use crate::message::Tag;
use crate::session::RequestId;

const LEN: usize = 64 << 10;
const SEND: Purpose = Purpose::Send { request: RequestId(0) };

/// How it was coded, and its first byte.
type Made = Result<(Algorithm, u8), Status>;

/// What was handed in, and not done yet.
#[derive(Clone, Default)]
struct Handed(Arc<Mutex<Vec<(Ticket, Work)>>>);

impl Executor for Handed {
    fn submit(&mut self, ticket: Ticket, work: Work) -> Option<Done> {
        self.0.lock().unwrap().push((ticket, work));
        None
    }
}

struct Bench {
    coder: Coder,
    handed: Handed,
    buffer: HostBuffer,
    stats: Arc<Mutex<Stats>>,
    log: Arc<Mutex<DecisionLog>>,
}

impl Bench {
    fn new(algorithm: Algorithm) -> Self {
        let handed = Handed::default();
        let policy = Box::new(Fixed::try_new(algorithm).unwrap());
        let log = Arc::new(Mutex::new(DecisionLog::new(100)));
        let stats = Arc::<Mutex<Stats>>::default();
        let records = Records::new(Meter::default(), stats.clone(), log.clone());
        let coder = Coder::new(policy, Box::new(handed.clone()), Arc::default(), records);
        Self { coder, handed, buffer: HostBuffer::zeroed(LEN), stats, log }
    }

    fn for_several(&self, peers: usize) -> Payload {
        Payload::for_several(self.buffer.all(), peers)
    }

    /// Job 10 × `peer` sends `source` to `peer`, which decodes all but `but`.
    fn send_but(&mut self, peer: u32, source: &Payload, but: Option<Algorithm>) {
        let allowed = AlgorithmSet::supported().iter().filter(|&algorithm| Some(algorithm) != but).collect();
        let (job, stream) = ((Rank(peer), JobId(10 * u64::from(peer))), Stream::Tag(Tag(1)));
        let done = self.coder.encode(job, source.clone(), Element::U8, stream, (allowed, None), SEND);
        assert!(done.is_none_or(|done| done.peer == Rank(peer)));
    }

    fn send(&mut self, peer: u32, source: &Payload) {
        self.send_but(peer, source, None);
    }

    /// What is to be encoded, and by what.
    fn handed(&self) -> Vec<(Ticket, Algorithm)> {
        let algorithm = |work: &Work| match work {
            Work::Encode { algorithm, .. } => *algorithm,
            other => panic!("{other:?}"),
        };
        self.handed.0.lock().unwrap().iter().map(|(ticket, work)| (*ticket, algorithm(work))).collect()
    }

    fn end(&mut self, ticket: Ticket, result: Made) {
        self.handed.0.lock().unwrap().retain(|(handed, _)| *handed != ticket);
        let payload = |byte| Payload::from_bytes(Bytes::from(vec![byte; 100]));
        let result = result.map(|(sent, byte)| Output::Encoded(sent, payload(byte)));
        self.coder.done(Done { ticket, took: Duration::from_micros(5), result, lost: None });
    }

    /// Who has heard of the end of a job, and of what.
    fn heard(&mut self) -> Vec<(u32, u64, Made)> {
        let mut heard = Vec::new();
        while let Some(Finished { peer, job, result, .. }) = self.coder.next_finished() {
            let JobResult::Encoded(result) = result else { panic!("nothing was decoded") };
            let result = result.map(|(sent, payload)| (sent, payload.bytes().unwrap()[0]));
            heard.push((peer.0, job.0, result));
        }
        heard.sort_by_key(|&(peer, ..)| peer);
        heard
    }

    fn records(&self) -> Vec<Record> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).records().copied().collect()
    }
}

#[test]
fn what_goes_to_several_is_encoded_once_and_each_hears_of_it() {
    let mut bench = Bench::new(Algorithm::Xp);
    let source = bench.for_several(3);
    (1..4).for_each(|peer| bench.send(peer, &source));
    assert_eq!(bench.handed(), [(Ticket(0), Algorithm::Xp)]);
    assert_eq!(bench.heard(), []);
    bench.end(Ticket(0), Ok((Algorithm::Xp, 7)));
    let all = [1, 2, 3].map(|peer| (peer, 10 * u64::from(peer), Ok((Algorithm::Xp, 7))));
    assert_eq!(bench.heard(), all);
    // All three are sent and logged; one has taken time.
    let stats = bench.stats.lock().unwrap().clone();
    assert_eq!((stats.total().transfers, stats.total().coded_bytes), (3, 300));
    assert_eq!(stats.encode, Duration::from_micros(5));
    let timed =
        |peer| bench.records().iter().find(|record| record.facts.peer == peer).unwrap().outcome.encode;
    assert_eq!([1, 2, 3].map(timed), [Some(Duration::from_micros(5)), None, None]);
    // And how long each peer has taken to decode it counts for that one.
    bench.coder.decoded((Rank(3), JobId(30)), Duration::from_micros(2));
    let decoded = |record: &Record| (record.facts.peer, record.outcome.decode);
    let expected = [(1, None), (2, None), (3, Some(Duration::from_micros(2)))];
    let mut records: Vec<_> = bench.records().iter().map(decoded).collect();
    records.sort_unstable();
    assert_eq!(records, expected);
}

#[test]
fn a_peer_that_asks_later_takes_what_is_there() {
    let mut bench = Bench::new(Algorithm::Xp);
    let source = bench.for_several(3);
    bench.send(1, &source);
    bench.end(Ticket(0), Ok((Algorithm::Xp, 7)));
    assert_eq!(bench.heard(), [(1, 10, Ok((Algorithm::Xp, 7)))]);
    // At once: nothing is left to hear.
    let allowed = AlgorithmSet::supported();
    let job = (Rank(2), JobId(20));
    let stream = Stream::Tag(Tag(1));
    let done = bench.coder.encode(job, source.clone(), Element::U8, stream, (allowed, None), SEND);
    let Some(Finished {
        peer: Rank(2), job: JobId(20), result: JobResult::Encoded(Ok((sent, payload))), ..
    }) = done
    else {
        panic!("it was there")
    };
    assert_eq!((sent, payload.bytes().unwrap()[0]), (Algorithm::Xp, 7));
    assert_eq!((bench.handed(), bench.heard()), (vec![], vec![]));
}

#[test]
fn other_payloads_at_the_same_place_are_other_payloads() {
    let mut bench = Bench::new(Algorithm::Xp);
    for round in 0..2 {
        let source = bench.for_several(2);
        (1..3).for_each(|peer| bench.send(peer, &source));
        assert_eq!(bench.handed(), [(Ticket(2 * round), Algorithm::Xp)]);
        bench.end(Ticket(2 * round), Ok((Algorithm::Xp, round as u8)));
        let all = [1, 2].map(|peer| (peer, 10 * u64::from(peer), Ok((Algorithm::Xp, round as u8))));
        assert_eq!(bench.heard(), all);
    }
    let source = Payload::from_memory(bench.buffer.all());
    (1..3).for_each(|peer| bench.send(peer, &source));
    assert_eq!(bench.handed().len(), 2, "nobody has said that these are one");
}

#[test]
fn a_peer_without_the_codec_gets_it_raw_and_the_others_coded() {
    let mut bench = Bench::new(Algorithm::Xp);
    let source = bench.for_several(3);
    bench.send(1, &source);
    bench.send_but(2, &source, Some(Algorithm::Xp));
    bench.send(3, &source);
    let handed = bench.handed();
    let [(coded, Algorithm::Xp), (raw, Algorithm::None)] = handed[..] else { panic!("{handed:?}") };
    bench.end(raw, Ok((Algorithm::None, 1)));
    assert_eq!(bench.heard(), [(2, 20, Ok((Algorithm::None, 1)))]);
    bench.end(coded, Ok((Algorithm::Xp, 2)));
    let coded = Ok((Algorithm::Xp, 2));
    assert_eq!(bench.heard(), [(1, 10, coded), (3, 30, coded)]);
}

#[test]
fn what_saves_nothing_for_one_peer_goes_raw_to_all() {
    let mut bench = Bench::new(Algorithm::Xp);
    let source = bench.for_several(3);
    (1..3).for_each(|peer| bench.send(peer, &source));
    bench.end(Ticket(0), Ok((Algorithm::None, 1)));
    let raw = Ok((Algorithm::None, 1));
    assert_eq!(bench.heard(), [(1, 10, raw), (2, 20, raw)]);
    bench.send(3, &source);
    let handed = bench.handed();
    let [(ticket, Algorithm::None)] = handed[..] else { panic!("{handed:?}") };
    bench.end(ticket, Ok((Algorithm::None, 2)));
    assert_eq!(bench.heard(), [(3, 30, Ok((Algorithm::None, 2)))]);
    // No codec has worked for the last two.
    let timed: Vec<u32> = bench
        .records()
        .iter()
        .filter(|record| record.outcome.encode.is_some())
        .map(|r| r.facts.peer)
        .collect();
    assert_eq!(timed, [1]);
}

#[test]
fn what_fails_fails_for_all_who_wait_and_is_done_again_for_the_next() {
    let mut bench = Bench::new(Algorithm::Xp);
    let source = bench.for_several(3);
    (1..3).for_each(|peer| bench.send(peer, &source));
    bench.end(Ticket(0), Err(Status::Internal));
    assert_eq!(bench.heard(), [(1, 10, Err(Status::Internal)), (2, 20, Err(Status::Internal))]);
    bench.send(3, &source);
    assert_eq!(bench.handed(), [(Ticket(2), Algorithm::Xp)]);
}

#[test]
fn whose_session_is_over_counts_for_nothing_and_the_others_get_it_all_the_same() {
    for gone in [1, 2] {
        let mut bench = Bench::new(Algorithm::Xp);
        let source = bench.for_several(3);
        (1..4).for_each(|peer| bench.send(peer, &source));
        bench.coder.forget(Rank(gone));
        bench.end(Ticket(0), Ok((Algorithm::Xp, 7)));
        let heard = bench.heard();
        for peer in (1..4).filter(|&peer| peer != gone) {
            assert!(heard.contains(&(peer, 10 * u64::from(peer), Ok((Algorithm::Xp, 7)))), "{heard:?}");
        }
        assert_eq!(bench.stats.lock().unwrap().total().transfers, 2, "{gone} is gone");
        assert!(bench.records().iter().all(|record| record.facts.peer != gone));
    }
}

/// Codes everything by ZVC, and notes what it is asked and told.
#[derive(Debug)]
struct Noting {
    heard: Arc<Mutex<Vec<&'static str>>>,
    choice: Fixed,
}

impl Policy for Noting {
    fn name(&self) -> String {
        "noting".into()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        self.heard.lock().unwrap().push("plan");
        self.choice.plan(facts)
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.choice.choose(facts, estimates)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {
        self.heard.lock().unwrap().push("observe");
    }

    fn decoded(&mut self, _: &CheapFacts, _: &Decision, _: u64, _: Duration) {
        self.heard.lock().unwrap().push("decoded");
    }
}

#[test]
fn a_policy_learns_once_the_transfer_is_on_its_way_or_before_it_decides_again() {
    let mut bench = Bench::new(Algorithm::Zvc);
    let heard = Arc::<Mutex<Vec<&'static str>>>::default();
    bench.coder.policy =
        Box::new(Noting { heard: heard.clone(), choice: Fixed::try_new(Algorithm::Zvc).unwrap() });
    let source = Payload::from_bytes(Bytes::from(vec![0; 100]));
    let heard = || std::mem::take(&mut *heard.lock().unwrap());
    bench.send(1, &source);
    bench.end(Ticket(0), Ok((Algorithm::Zvc, 7)));
    assert_eq!((bench.heard().len(), heard()), (1, vec!["plan"]));
    bench.coder.learn();
    bench.coder.learn();
    assert_eq!(heard(), ["observe"]);
    bench.send(2, &source);
    bench.end(Ticket(1), Ok((Algorithm::Zvc, 7)));
    bench.send(3, &source);
    bench.end(Ticket(2), Ok((Algorithm::Zvc, 7)));
    assert_eq!(heard(), ["plan", "observe", "plan"]);
    // What is told of its decoding comes after that, too.
    bench.coder.decoded((Rank(3), JobId(30)), Duration::from_micros(2));
    assert_eq!(heard(), ["observe", "decoded"]);
}
