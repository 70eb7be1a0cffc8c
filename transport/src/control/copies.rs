//! Copies from one device to another, as an operator sees and steers them.
//!
//! What a coded copy becomes, the host knows only of those that are watched. The others are counted as if they had become as much
//! smaller, and had taken as long for each byte, as the last watched one of the same algorithm; those that go before anything of
//! that is known are counted once it is. What nobody has ever seen counts as if it had not shrunk.

use std::sync::Arc;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, Outcome};

use super::claims::NodeSlots;
use super::settings::Settings;
use super::slot::Slot;
use super::view::{Count, SlotKind};

/// A decision, and what it was made for.
pub(crate) type Made = (CheapFacts, Decision);

/// The slot of a copier.
#[derive(Debug)]
pub(crate) struct Copies {
    slot: Slot,
    /// Nobody else may count there while this does.
    _slots: Arc<NodeSlots>,
    /// What was last read there, and what it says.
    word: u64,
    settings: Settings,
    /// What is known of each algorithm, by its number.
    known: [Known; Algorithm::ALL.len()],
}

/// What is known of an algorithm.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Of the last copy that was watched.
    last: Option<Became>,
    /// Copies that have not been counted, because there was none: how many, and their raw bytes.
    owed: (u64, u64),
}

/// What raw bytes became, and how long encoders took by themselves.
#[derive(Clone, Copy, Debug)]
struct Became {
    raw_bytes: u64,
    coded_bytes: u64,
    encode_ns: u64,
}

impl Copies {
    pub(super) fn new(slots: Arc<NodeSlots>, [from, to]: [u32; 2]) -> Self {
        let slot = slots.claim(to, from, SlotKind::Copied);
        Self { slot, _slots: slots, word: 0, settings: Settings::default(), known: Default::default() }
    }

    /// Looks for new settings, and says whether there are any. Those that make no sense change nothing; the policy counts them.
    pub(crate) fn look(&mut self) -> bool {
        let word = self.slot.settings_word();
        if word == self.word {
            return false;
        }
        self.word = word;
        let settings = Settings::unpack(word).unwrap_or(self.settings);
        std::mem::replace(&mut self.settings, settings) != settings
    }

    /// What holds now.
    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A copy that nobody watches is on its way as `sent`.
    pub(crate) fn went(&mut self, (facts, decision): &Made, sent: Algorithm) {
        let raw_bytes = facts.raw_bytes;
        let known = &mut self.known[usize::from(sent.number())];
        let (coded_bytes, encode_ns) = match known.last {
            _ if sent == Algorithm::None => (raw_bytes, 0),
            Some(last) => last.share(raw_bytes),
            None => {
                known.owed = (known.owed.0 + 1, known.owed.1.saturating_add(raw_bytes));
                return self.slot.of_length(raw_bytes);
            }
        };
        let (sampling, encode, decode, acknowledged) = (None, None, None, None);
        let outcome = Outcome { sent, coded_bytes, sampling, encode, decode, acknowledged };
        self.slot.sent(facts, decision, &outcome);
        self.slot.encoded(encode_ns);
    }

    /// A copy that was watched has become this.
    pub(crate) fn showed(&mut self, (facts, decision): &Made, outcome: &Outcome) {
        self.slot.sent(facts, decision, outcome);
        let encode_ns = outcome.encode.map_or(0, |took| took.as_nanos() as u64);
        let became = Became { raw_bytes: facts.raw_bytes, coded_bytes: outcome.coded_bytes, encode_ns };
        self.settle(outcome.sent, became);
        self.known[usize::from(outcome.sent.number())].last = Some(became);
    }

    /// A copy, or one of its kernels, failed.
    pub(crate) fn failed(&self) {
        self.slot.failed();
    }

    /// Counts what is owed of an algorithm as if it had become that.
    fn settle(&mut self, algorithm: Algorithm, became: Became) {
        let (transfers, raw_bytes) = std::mem::take(&mut self.known[usize::from(algorithm.number())].owed);
        if transfers > 0 {
            let (coded_bytes, encode_ns) = became.share(raw_bytes);
            self.slot.carried(algorithm, Count { transfers, raw_bytes, coded_bytes });
            self.slot.encoded(encode_ns);
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let no_smaller = Became { raw_bytes: 1, coded_bytes: 1, encode_ns: 0 };
        Algorithm::ALL.into_iter().for_each(|algorithm| self.settle(algorithm, no_smaller));
    }
}

impl Became {
    /// What so many other raw bytes become in the same way, and how long that takes.
    fn share(self, raw_bytes: u64) -> (u64, u64) {
        let of = u128::from(self.raw_bytes.max(1));
        let share = |whole: u64| (u128::from(whole) * u128::from(raw_bytes) + of / 2) / of;
        let [coded_bytes, encode_ns] =
            [self.coded_bytes, self.encode_ns].map(|whole| share(whole).try_into().unwrap_or(u64::MAX));
        (coded_bytes, encode_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgcomp_codecs::{AlgorithmSet, Element};
    use mgcomp_selector::speeds::Speeds;
    use mgcomp_selector::{LinkFacts, Overlap, Plan, Policy, PolicySpec, Reason, Steering, StreamId};

    use super::*;
    use crate::control::histogram::{Histogram, Measure};
    use crate::control::{Attachment, Page, steer_by, steer_copies_by};
    use crate::link::Position;
    use crate::message::Rank;

    /// From device 6 to device 7.
    const DEVICES: [u32; 2] = [6, 7];

    fn facts(raw_bytes: u64) -> CheapFacts {
        CheapFacts {
            peer: DEVICES[1],
            stream: StreamId(DEVICES[0]),
            raw_bytes,
            element: Element::F32,
            allowed: AlgorithmSet::from_iter([Algorithm::Bdi, Algorithm::Zvc]),
            link: LinkFacts::try_new(200.0, 500, Overlap::Fused(1 << 20)).ok(),
            lambda: None,
            is_observed: true,
        }
    }

    fn page() -> Arc<Attachment> {
        Arc::new(Attachment::start(Vec::new()).unwrap())
    }

    fn steered(attachment: &Arc<Attachment>, policy: &str) -> (Box<dyn Policy>, Copies) {
        let policy = policy.parse::<PolicySpec>().unwrap().build(&Steering::default());
        steer_copies_by(attachment.clone(), policy, DEVICES, Speeds::expected_of_device(132))
    }

    fn decide(policy: &mut dyn Policy, raw_bytes: u64) -> Decision {
        match policy.plan(&facts(raw_bytes)) {
            Plan::Use(decision) => decision,
            sample @ Plan::Sample { .. } => panic!("{sample:?}"),
        }
    }

    fn set(page: &Page, policy: &str) {
        page.set(None, &Settings { policy: Some(policy.parse().unwrap()), ..Settings::default() });
    }

    #[test]
    fn a_slot_is_there_before_the_first_copy_and_its_settings_are_followed() {
        let attachment = page();
        let (mut policy, mut copies) = steered(&attachment, "fixed:bdi");
        let page = attachment.page();
        let view = page.view(0).unwrap();
        assert_eq!((page.used(), view.kind, view.devices()), (1, SlotKind::Copied, Some(DEVICES)));
        assert!(!copies.look());
        assert_eq!(decide(policy.as_mut(), 4096).algorithm, Algorithm::Bdi);

        set(page, "fixed:zvc");
        assert!(copies.look() && !copies.look());
        assert_eq!(copies.settings().policy.unwrap().to_string(), "fixed:zvc");
        assert_eq!(decide(policy.as_mut(), 4096).algorithm, Algorithm::Zvc);
        // There are no kernels of that.
        set(page, "fixed:xp");
        let decision = decide(policy.as_mut(), 4096);
        assert_eq!(
            (decision.algorithm, decision.reason),
            (Algorithm::None, Reason::NotDecodable(Algorithm::Xp))
        );
        assert_eq!(page.view(0).unwrap().not_followed, 1);
        page.set(None, &Settings { compress: Some(false), ..Settings::default() });
        assert_eq!(decide(policy.as_mut(), 4096).reason, Reason::SwitchedOff);
        assert!(copies.look());

        // A second copier of the same devices has a slot of its own; a later one has that of the first.
        let second = steered(&attachment, "fixed:bdi");
        assert_eq!(page.used(), 2);
        drop((policy, copies));
        let third = steered(&attachment, "fixed:bdi");
        assert_eq!(page.used(), 2);
        drop((second, third));
    }

    #[test]
    fn what_an_operator_sets_reckons_with_the_device() {
        let attachment = page();
        let (mut policy, _copies) = steered(&attachment, "fixed:none");
        set(attachment.page(), "adaptive");
        // 200 Gb/s are 25 GB/s: more than any codec of a host does, less than kernels do.
        let plan = policy.plan(&facts(64 << 20));
        assert!(matches!(plan, Plan::Sample { .. }), "{plan:?}");
    }

    #[test]
    fn the_rank_of_a_node_stays() {
        let position = Position { rank: Rank(2), ranks: 8 };
        let node = |attachment: &Arc<Attachment>| {
            let policy = PolicySpec::default().build(&Steering::default());
            steer_by(attachment.clone(), policy, None, position)
        };
        let rank = |attachment: &Attachment| attachment.page().identity().unwrap().rank;
        let attachment = page();
        let before = rank(&attachment);
        let _first = steered(&attachment, "adaptive");
        assert_eq!(rank(&attachment), before, "a copier says nothing of ranks");
        assert_eq!(attachment.page().view(0).unwrap().rank, before.unwrap_or(u32::MAX));
        let _node = node(&attachment);
        let _second = steered(&attachment, "adaptive");
        assert_eq!((rank(&attachment), attachment.page().view(1).unwrap().rank), (Some(2), 2));
    }

    #[test]
    fn what_nobody_watches_counts_as_the_last_that_somebody_did() {
        let attachment = page();
        let (_policy, mut copies) = steered(&attachment, "fixed:zvc");
        let made = |raw_bytes| (facts(raw_bytes), Decision::bypass(&facts(raw_bytes), Reason::Fixed));
        let showed = |copies: &mut Copies, raw_bytes, coded_bytes, encode_ns: Option<u64>| {
            let (sampling, decode, acknowledged) = (None, None, None);
            let (sent, encode) = (Algorithm::Zvc, encode_ns.map(Duration::from_nanos));
            let outcome = Outcome { sent, coded_bytes, sampling, encode, decode, acknowledged };
            copies.showed(&made(raw_bytes), &outcome);
        };
        let page = attachment.page();
        let count = |algorithm: Algorithm| {
            let Count { transfers, raw_bytes, coded_bytes } =
                page.view(0).unwrap().algorithms[usize::from(algorithm.number())];
            (transfers, raw_bytes, coded_bytes, page.view(0).unwrap().encode_ns)
        };
        // Nothing is known of these yet.
        for raw_bytes in [1000, 2000] {
            copies.went(&made(raw_bytes), Algorithm::Zvc);
        }
        assert_eq!(count(Algorithm::Zvc), (0, 0, 0, 0));
        // A quarter; the 3000 before become 750 in 300 ns.
        showed(&mut copies, 1000, 250, Some(100));
        assert_eq!(count(Algorithm::Zvc), (3, 4000, 1000, 400));
        // 250.5, to the nearest, in 100.2 ns.
        copies.went(&made(1002), Algorithm::Zvc);
        assert_eq!(count(Algorithm::Zvc), (4, 5002, 1251, 500));
        // It does not shrink any more, and nobody knows how long that takes.
        showed(&mut copies, 100, 120, None);
        copies.went(&made(50), Algorithm::Zvc);
        assert_eq!(count(Algorithm::Zvc), (6, 5152, 1431, 500));
        copies.went(&made(700), Algorithm::None);
        assert_eq!(count(Algorithm::None), (1, 700, 700, 500));
        copies.failed();
        // Nobody ever sees one of these.
        copies.went(&made(500), Algorithm::Bdi);
        assert_eq!(count(Algorithm::Bdi).0, 0);
        drop(copies);
        assert_eq!(count(Algorithm::Bdi), (1, 500, 500, 500));
        assert_eq!((count(Algorithm::Zvc).0, page.view(0).unwrap().errors), (6, 1));
        let mut lengths = Histogram::default();
        page.add_histogram(0, Measure::RawBytes, &mut lengths);
        assert_eq!(lengths.total(), 8);
    }
}
