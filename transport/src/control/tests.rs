//! The page between a steered policy and whoever else has it mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, Decision, Estimate, Lambda, LinkFacts, Outcome, Overlap, Plan, PolicySpec, Reason,
    SampleSize, Steering, StreamId,
};

use super::histogram::{Histogram, Measure};
use super::layout::WORDS;
use super::*;
use crate::message::Rank;

const POSITION: Position = Position { rank: Rank(2), ranks: 8 };

fn facts(stream: u32, raw_bytes: u64) -> CheapFacts {
    CheapFacts {
        peer: 5,
        stream: StreamId(stream),
        raw_bytes,
        element: Element::F32,
        allowed: AlgorithmSet::supported(),
        link: LinkFacts::try_new(10.0, 500, Overlap::None).ok(),
        lambda: None,
        is_observed: true,
    }
}

/// A steered `fixed:bdi`, and the page as the daemon sees it.
fn steered_bdi() -> (Box<dyn Policy>, Meter, Arc<Attachment>) {
    steered_policy("fixed:bdi".parse::<PolicySpec>().unwrap().build(&Steering::default()))
}

fn steered_policy(policy: Box<dyn Policy>) -> (Box<dyn Policy>, Meter, Arc<Attachment>) {
    let attachment = Arc::new(Attachment::start(Vec::new()).unwrap());
    let (policy, meter) = steer_by(attachment.clone(), policy, None, POSITION);
    (policy, meter, attachment)
}

fn decide(policy: &mut dyn Policy, facts: &CheapFacts) -> Decision {
    match policy.plan(facts) {
        Plan::Use(decision) => decision,
        sample @ Plan::Sample { .. } => panic!("{sample:?}"),
    }
}

fn settings(policy: &str) -> Settings {
    Settings { policy: Some(policy.parse().unwrap()), ..Settings::default() }
}

fn outcome(sent: Algorithm, coded_bytes: u64, encode_ns: Option<u64>) -> Outcome {
    let encode = encode_ns.map(Duration::from_nanos);
    Outcome { sent, coded_bytes, sampling: None, encode, decode: None, acknowledged: None }
}

#[test]
fn settings_hold_from_the_next_transfer_on() {
    let (mut policy, _meter, attachment) = steered_bdi();
    let (one, two) = (facts(1, 4096), facts(2, 4096));
    let page = attachment.page();
    let mut algorithms = || [&one, &two].map(|facts| decide(policy.as_mut(), facts).algorithm);

    assert_eq!(algorithms(), [Algorithm::Bdi, Algorithm::Bdi]);
    page.set(None, &settings("fixed:zvc"));
    assert_eq!(algorithms(), [Algorithm::Zvc, Algorithm::Zvc]);
    page.set(Some(1), &settings("fixed:rle"));
    assert_eq!(algorithms(), [Algorithm::Zvc, Algorithm::Rle], "a slot's own word counts");
    page.set(None, &Settings::default());
    assert_eq!(algorithms(), [Algorithm::Bdi, Algorithm::Rle]);
    page.set(Some(1), &Settings::default());
    assert_eq!(algorithms(), [Algorithm::Bdi, Algorithm::Bdi]);

    let view = page.view(1).unwrap();
    assert_eq!((view.peer, view.stream, view.rank, view.kind), (5, 2, 2, SlotKind::Sent));
    assert_eq!((view.changes, view.in_effect), (3, Settings::default()));
}

#[test]
fn a_slot_that_is_unset_goes_by_the_default_again() {
    let (mut policy, _meter, attachment) = steered_bdi();
    let page = attachment.page();
    let mut algorithm = || decide(policy.as_mut(), &facts(1, 4096)).algorithm;
    page.set(None, &settings("fixed:zvc"));
    page.set(Some(0), &settings("fixed:rle"));
    assert_eq!(algorithm(), Algorithm::Rle);
    page.unset(0);
    assert_eq!((page.load_raw(layout::settings(0)), algorithm()), (0, Algorithm::Zvc));
    page.set(Some(0), &Settings::default());
    assert_eq!(algorithm(), Algorithm::Bdi, "a word of no settings is one of its own");
    // There is no such slot.
    [Page::other() + 1, usize::MAX].into_iter().for_each(|slot| page.unset(slot));
}

#[test]
fn off_and_the_gate_come_before_the_policy() {
    let (mut policy, _meter, attachment) = steered_bdi();
    let gate = Settings { gate: SizeGate::try_new(8192), ..Settings::default() };
    attachment.page().set(None, &gate);
    assert_eq!(decide(policy.as_mut(), &facts(1, 8191)).reason, Reason::TooShort { least_bytes: 8192 });
    assert_eq!(decide(policy.as_mut(), &facts(1, 8192)).algorithm, Algorithm::Bdi);
    attachment.page().set(None, &Settings { compress: Some(false), ..gate });
    let decision = decide(policy.as_mut(), &facts(1, 1 << 20));
    assert_eq!((decision.algorithm, decision.reason), (Algorithm::None, Reason::SwitchedOff));
}

#[test]
fn lambda_steers_the_program_s_own_policy() {
    let adaptive = PolicySpec::Adaptive.build(&Steering::default());
    let (mut policy, _meter, attachment) = steered_policy(adaptive);
    // λ decides without a link, while without λ nothing can be said of times.
    let facts = CheapFacts { link: None, ..facts(1, 1 << 20) };
    assert_eq!(decide(policy.as_mut(), &facts).reason, Reason::LinkUnknown);
    let lambda = Lambda::try_new(0.0).unwrap();
    attachment.page().set(None, &Settings { lambda: Some(lambda), ..Settings::default() });
    let decide = |policy: &mut dyn Policy| match policy.plan(&facts) {
        Plan::Use(decision) => decision,
        Plan::Sample { algorithms, .. } => {
            let known = Algorithm::ALL.into_iter().filter(|&algorithm| algorithms.contains(algorithm));
            let bits = facts.raw_bits() / 2;
            let estimates: Vec<_> = known.map(|algorithm| Estimate { algorithm, bits }).collect();
            policy.choose(&facts, &estimates)
        }
    };
    let decision =
        (0..100).map(|_| decide(policy.as_mut())).find(|decision| decision.reason != Reason::NotSampled);
    let decision = decision.expect("a stream is sampled in the end");
    assert_eq!(decision.reason, Reason::LowestPenalty { lambda });
    assert_eq!(attachment.page().view(0).unwrap().in_effect.lambda, Some(lambda));
}

#[test]
fn what_adaptive_has_learned_is_as_good_under_another_lambda() {
    let adaptive = PolicySpec::Adaptive.build(&Steering::default());
    let (mut policy, _meter, attachment) = steered_policy(adaptive);
    let facts = facts(1, 1 << 20);
    let mut samples = 0;
    let mut send = |policy: &mut dyn Policy| {
        let decision = match policy.plan(&facts) {
            Plan::Use(decision) => decision,
            Plan::Sample { algorithms, .. } => {
                samples += 1;
                let bits = facts.raw_bits() / 2;
                let estimates: Vec<_> =
                    algorithms.iter().map(|algorithm| Estimate { algorithm, bits }).collect();
                policy.choose(&facts, &estimates)
            }
        };
        let coded = decision.algorithm != Algorithm::None;
        let coded_bytes = if coded { facts.raw_bytes / 2 } else { facts.raw_bytes };
        let encode_ns = coded.then_some(100_000);
        policy.observe(&facts, &decision, &outcome(decision.algorithm, coded_bytes, encode_ns));
        (decision, samples)
    };
    let (_, known) = (0..50).map(|_| send(policy.as_mut())).last().unwrap();
    assert!(known > 0);
    for lambda_gbps in [0.0, 6.0, 0.0] {
        let lambda = Lambda::try_new(lambda_gbps).unwrap();
        attachment.page().set(None, &Settings { lambda: Some(lambda), ..Settings::default() });
        let (decision, samples) = send(policy.as_mut());
        assert_eq!(decision.reason, Reason::LowestPenalty { lambda });
        assert_ne!(decision.algorithm, Algorithm::None);
        assert_eq!(samples, known, "a stream that starts anew is sampled first");
    }
    attachment.page().set(None, &Settings::default());
    let by_time: Vec<Reason> = (0..100).map(|_| send(policy.as_mut()).0.reason).collect();
    let is_fastest = |reason: &Reason| matches!(reason, Reason::Fastest { .. });
    // Now and then something else is tried.
    assert!(by_time.iter().filter(|reason| is_fastest(reason)).count() > 80, "{by_time:?}");
    assert!(
        by_time.iter().all(|reason| is_fastest(reason) || matches!(reason, Reason::Trial { .. })),
        "{by_time:?}"
    );
}

#[test]
fn what_no_version_writes_changes_nothing_and_is_counted() {
    let (mut policy, _meter, attachment) = steered_bdi();
    attachment.page().set(None, &settings("fixed:zvc"));
    assert_eq!(decide(policy.as_mut(), &facts(1, 4096)).algorithm, Algorithm::Zvc);
    let nonsense = 1 << 63 | 1 << 50;
    attachment.page().store_raw(layout::settings(0), nonsense);
    for _ in 0..3 {
        assert_eq!(decide(policy.as_mut(), &facts(1, 4096)).algorithm, Algorithm::Zvc);
    }
    assert_eq!(attachment.page().not_understood(), 1);
    attachment.page().set(Some(0), &settings("fixed:rle"));
    assert_eq!(decide(policy.as_mut(), &facts(1, 4096)).algorithm, Algorithm::Rle);
}

/// A policy of a program's own making: always asks for a sample.
#[derive(Debug)]
struct Sampler;

impl Policy for Sampler {
    fn name(&self) -> String {
        "mine".to_owned()
    }

    fn plan(&mut self, _: &CheapFacts) -> Plan {
        Plan::Sample { algorithms: AlgorithmSet::supported(), size: SampleSize::Whole }
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, Reason::SampledLate)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}
}

/// A policy of a program's own making that notes of which λ and bytes it hears that they were decoded.
#[derive(Debug, Default)]
struct Listener(Arc<Mutex<Vec<Heard>>>);

/// A λ, coded bytes, and a time.
type Heard = (Option<Lambda>, u64, Duration);

impl Policy for Listener {
    fn name(&self) -> String {
        "mine".to_owned()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        Plan::Use(Decision::bypass(facts, Reason::NotSampled))
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, Reason::SampledLate)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}

    fn decoded(&mut self, facts: &CheapFacts, _: &Decision, coded_bytes: u64, took: Duration) {
        self.0.lock().unwrap().push((facts.lambda, coded_bytes, took));
    }
}

#[test]
fn a_policy_hears_of_decoders_unless_it_is_switched_off() {
    let listener = Listener::default();
    let heard = listener.0.clone();
    let (mut policy, _meter, attachment) = steered_policy(Box::new(listener));
    let (facts, took) = (facts(1, 4096), Duration::from_nanos(700));
    let decision = decide(policy.as_mut(), &facts);
    policy.decoded(&facts, &decision, 1024, took);
    assert_eq!(*heard.lock().unwrap(), [(None, 1024, took)]);
    attachment.page().set(None, &Settings { compress: Some(false), ..Settings::default() });
    decide(policy.as_mut(), &facts);
    policy.decoded(&facts, &decision, 1024, took);
    assert_eq!(heard.lock().unwrap().len(), 1, "nobody decides");
}

#[test]
fn an_operators_adaptive_starts_from_the_speeds_of_what_codes() {
    let attachment = Arc::new(Attachment::start(Vec::new()).unwrap());
    let own = "fixed:bdi".parse::<PolicySpec>().unwrap().build(&Steering::default());
    let speeds = Speeds::expected_of_device(132);
    let (mut steered, _meter) = steer_by(attachment.clone(), own, Some(speeds.clone()), POSITION);
    // A link on which codecs of a processor are far too slow for 64 MiB, and those of a device are not.
    let link = LinkFacts::try_new(400.0, 500, Overlap::None).ok();
    let long = CheapFacts { link, ..facts(1, 64 << 20) };
    assert_eq!(decide(steered.as_mut(), &long).algorithm, Algorithm::Bdi);
    assert!(!steered.goes_by_time());
    attachment.page().set(None, &settings("adaptive"));
    let mut of_device = PolicySpec::Adaptive.build(&Steering { lambda: None, speeds });
    let mut of_host = PolicySpec::Adaptive.build(&Steering { lambda: None, speeds: Speeds::typical() });
    let plan = steered.plan(&long);
    assert_eq!(plan, of_device.plan(&long));
    assert_ne!(plan, of_host.plan(&long));
    assert!(steered.goes_by_time());
}

#[test]
fn whoever_asked_for_a_sample_gets_it() {
    let (mut policy, _meter, attachment) = steered_policy(Box::new(Sampler));
    let facts = facts(1, 4096);
    assert!(matches!(policy.plan(&facts), Plan::Sample { .. }));
    attachment.page().set(None, &settings("fixed:rle"));
    assert_eq!(decide(policy.as_mut(), &facts).algorithm, Algorithm::Rle);
    assert_eq!(policy.choose(&facts, &[]).reason, Reason::SampledLate);
    assert_eq!(policy.choose(&facts, &[]).algorithm, Algorithm::Rle, "nobody has asked");
}

#[test]
fn a_program_s_own_policy_that_nobody_knows_keeps_deciding_under_a_lambda() {
    let (mut policy, _meter, attachment) = steered_policy(Box::new(Sampler));
    let lambda = Lambda::try_new(3.0).ok();
    attachment.page().set(None, &Settings { lambda, ..Settings::default() });
    assert!(matches!(policy.plan(&facts(1, 4096)), Plan::Sample { .. }));
    assert_eq!(attachment.page().view(0).unwrap().not_followed, 1);
}

#[test]
fn what_is_sent_and_received_is_counted() {
    let (mut policy, mut meter, attachment) = steered_bdi();
    let facts = facts(9, 4096);
    let decision = Decision {
        predicted_bits: Some(16_384),
        predicted_ns: Some(1000),
        ..decide(policy.as_mut(), &facts)
    };
    policy.observe(&facts, &decision, &outcome(Algorithm::Bdi, 1024, Some(300)));
    policy.observe(&facts, &decision, &outcome(Algorithm::None, 4096, Some(500)));
    meter.acknowledged(&facts, decision.predicted_ns, Duration::from_nanos(2000));
    meter.decoded(5, 100, 60, Duration::from_nanos(40));
    meter.failed(5);
    meter.decoded(5, 0, 0, Duration::from_nanos(40));

    let page = attachment.page();
    let sent = page.view(0).unwrap();
    let count = |transfers, raw_bytes, coded_bytes| Count { transfers, raw_bytes, coded_bytes };
    assert_eq!(sent.algorithms[1], count(1, 4096, 1024));
    assert_eq!((sent.algorithms[0], sent.sent()), (count(1, 4096, 4096), count(2, 8192, 5120)));
    assert_eq!((sent.encode_ns, sent.link_gbps, sent.link_latency_ns), (800, Some(10.0), 500));
    assert_eq!((sent.predicted_bits, sent.achieved_bits), (32_768, 8192 + 32_768));
    assert_eq!((sent.acknowledged, sent.acknowledged_ns, sent.errors), (1, 2000, 0));
    let last = sent.decision.unwrap();
    assert_eq!((last.decided, last.sent, last.encode_ns), (Algorithm::Bdi, Algorithm::None, Some(500)));

    let received = page.view(1).unwrap();
    assert_eq!((received.kind, received.peer, received.errors), (SlotKind::Received, 5, 1));
    assert_eq!((received.decoded, received.decode_ns), (count(1, 100, 60), 40));

    let histogram = |slot, measure| {
        let mut histogram = Histogram::default();
        page.add_histogram(slot, measure, &mut histogram);
        histogram.counted().collect::<Vec<_>>()
    };
    assert_eq!(histogram(0, Measure::RawBytes), [(4352, 2)]);
    // A half and the double of what was predicted: 500 is in 480 .. 512, 2000 in 1920 .. 2048.
    assert_eq!(histogram(0, Measure::SizePermille), [(496, 1), (1984, 1)]);
    assert_eq!(histogram(0, Measure::TimePermille), [(1984, 1)]);
    assert_eq!(histogram(1, Measure::CodecNs), [(42, 1)]);
    assert_eq!(page.identity().unwrap().rank, Some(2));
}

#[test]
fn streams_beyond_the_last_slot_are_steered_and_counted_together() {
    let (mut policy, _meter, attachment) = steered_bdi();
    for stream in 0..1100 {
        let facts = facts(stream, 4096);
        let decision = decide(policy.as_mut(), &facts);
        policy.observe(&facts, &decision, &outcome(Algorithm::Bdi, 1000, Some(1)));
    }
    let page = attachment.page();
    assert_eq!(page.used(), 1024);
    let other = page.view(Page::other()).unwrap();
    assert_eq!((other.kind, other.sent().transfers), (SlotKind::Other, 1100 - 1024));
    page.set(Some(Page::other()), &settings("fixed:zvc"));
    assert_eq!(decide(policy.as_mut(), &facts(1050, 4096)).algorithm, Algorithm::Zvc);
    assert_eq!(decide(policy.as_mut(), &facts(3, 4096)).algorithm, Algorithm::Bdi);
}

#[test]
fn what_is_received_beyond_the_last_slot_is_not_taken_for_sent() {
    let (mut policy, mut meter, attachment) = steered_bdi();
    for stream in 0..1025 {
        let facts = facts(stream, 4096);
        let decision = decide(policy.as_mut(), &facts);
        policy.observe(&facts, &decision, &outcome(Algorithm::Bdi, 1000, Some(300)));
    }
    meter.decoded(6, 100, 60, Duration::from_nanos(40));
    let page = attachment.page();
    let other = page.view(Page::other()).unwrap();
    let count = |transfers, raw_bytes, coded_bytes| Count { transfers, raw_bytes, coded_bytes };
    assert_eq!((page.used(), other.sent(), other.decoded), (1024, count(1, 4096, 1000), count(1, 100, 60)));
    let of_other = |measure| {
        let mut histogram = Histogram::default();
        page.add_histogram(Page::other(), measure, &mut histogram);
        histogram.counted().collect::<Vec<_>>()
    };
    // 4096 is the first of 4096 .. 4608, and 300 is in 288 .. 320.
    assert_eq!(of_other(Measure::RawBytes), [(4352, 1)]);
    assert_eq!(of_other(Measure::CodecNs), [(304, 1)]);
}

fn page_with_file() -> (Page, OwnedFd) {
    Page::create(&Identity::of_this_process()).unwrap()
}

#[test]
fn a_page_says_who_it_is_and_foreign_ones_are_refused() {
    let (page, file) = page_with_file();
    let identity = Identity::of_this_process();
    let adopted = Page::adopt(file.as_fd()).unwrap().identity().unwrap();
    assert_eq!((adopted.pid, adopted.job), (identity.pid, identity.job));

    let refused = |word: usize, value: u64| {
        let before = page.load_raw(word);
        page.store_raw(word, value);
        let error = Page::adopt(file.as_fd()).unwrap_err();
        page.store_raw(word, before);
        error
    };
    assert!(matches!(refused(0, 7), PageError::Foreign { got: 7 }));
    assert_eq!(refused(1, 2).to_string(), "control page: version 2, but this program knows version 1");
    assert!(matches!(refused(2, 4096), PageError::Header { word: 2, got: 4096 }));
    assert!(matches!(refused(3, 5000), PageError::Header { word: 3, got: 5000 }));
    assert!(matches!(refused(layout::JOB.first, u64::MAX), PageError::Header { word: 8, .. }));
    assert!(matches!(refused(layout::JOB.first, 0), PageError::Name { word: 8 }));
    assert!(matches!(refused(layout::PROGRAM.first + 1, 0x0a), PageError::Name { word: 17 }));
    assert!(Page::adopt(file.as_fd()).is_ok());
}

#[test]
fn whatever_a_process_writes_can_be_read() {
    let (page, _file) = page_with_file();
    let mut state = 0x1234_5678_9abc_def1_u64;
    for round in 0..4 {
        for word in (0..WORDS).filter(|word| *word < 40_000 || word % 97 == round) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            page.store_raw(word, state);
        }
        // Kinds that exist, so that the rest is looked at.
        (0..200).for_each(|slot| page.identify(slot, (1, 2), 3, SlotKind::Sent));
        assert!(page.used() <= 1024);
        let _ = page.identity();
        let mut histogram = Histogram::default();
        for slot in 0..=Page::other() + 3 {
            let view = page.view(slot);
            assert!(slot >= 200 || view.is_some(), "{slot}");
            let _ = view.map(|view| (view.sent(), view.decision.map(|last| last.reason)));
            Measure::ALL.iter().for_each(|&measure| page.add_histogram(slot, measure, &mut histogram));
        }
        page.set(Some(usize::MAX), &Settings::default());
        let _ = (histogram.total(), histogram.counted().count());
    }
}
