//! What is best for a transfer of a certain length, worked out once for all transfers of about that length.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::framing::Framing;
use super::knowledge::{Knowledge, Moved};
use super::model::Goal;
use crate::speeds::{CodecTimes, Speeds};

/// Lengths from 2^first on are told apart, two classes an octave.
const FIRST_OCTAVE: u32 = 6;
const CLASSES: usize = 64;
/// What costs at most so many times the best is worth comparing with it again.
const CONTENDER: f64 = 1.25;
/// What a codec may turn out to take that was never timed on this data, as a part of what was measured on other.
const HOPED: f64 = 0.5;
/// The same of one that was timed on this data, but on other lengths.
const HOPED_ELSEWHERE: f64 = 0.8;
/// What data may shrink to.
const FRACTIONS: [f64; 2] = [0.0, 0.6];
/// Transfers that a choice may serve after something was learned.
const STALE_USES: u32 = 8;
/// A transfer that takes longer deserves a choice by all that is known, unless one was worked out a moment ago.
const WORTHY_NS: f64 = 500_000.0;
/// Choices that are looked up at least between two that are worked out for the sake of long transfers.
const BETWEEN: u32 = 8;
/// The same where what choices rest on has moved far.
const BETWEEN_DOUBTED: u32 = 2;

/// The best way for transfers of one stream and about one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) best: Way,
    /// What might be better, though it is not predicted to be.
    pub(super) trial: Option<Trial>,
    raw_ns_per_byte: f64,
    latency_ns: f64,
    /// Algorithms that would win if the data suited them, but for their own time.
    pub(super) promising: AlgorithmSet,
    /// Those of them that are near the best as far as is known, the best included.
    pub(super) contenders: AlgorithmSet,
    /// Those of the promising of whose size nothing is known.
    pub(super) unknown: AlgorithmSet,
    /// What it rests on, and how many transfers it has served.
    edition: u32,
    uses: u32,
}

/// An algorithm, and what it is predicted to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) algorithm: Algorithm,
    /// Coded bytes per raw byte, without framing; 1 for the raw form.
    fraction: f64,
    /// Time until it is there beyond the latency.
    ns_per_byte: f64,
}

/// A way that is only taken to see what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) way: Way,
    /// How much longer than the best it is predicted to take.
    loss_ns_per_byte: f64,
}

impl Choice {
    /// What a transfer is predicted to take.
    pub(super) fn ns(&self, way: &Way, raw_bytes: u64) -> f64 {
        self.latency_ns + way.ns_per_byte * raw_bytes as f64
    }

    /// What it would take raw.
    pub(super) fn raw_ns(&self, raw_bytes: u64) -> f64 {
        self.latency_ns + self.raw_ns_per_byte * raw_bytes as f64
    }

    /// Whether any algorithm might be better than the raw form, whatever the data.
    pub(super) fn is_open(&self) -> bool {
        self.promising.bits() != 0
    }

    /// Whether the size of any of the promising is known.
    pub(super) fn is_informed(&self) -> bool {
        self.unknown != self.promising
    }
}

impl Way {
    /// What a transfer is predicted to become.
    pub(super) fn coded_bytes(&self, framing: &Framing, raw_bytes: u64) -> f64 {
        match self.algorithm {
            Algorithm::None => raw_bytes as f64,
            algorithm => self.fraction * raw_bytes as f64 + framing.bytes(algorithm, raw_bytes),
        }
    }
}

impl Trial {
    /// What trying is predicted to cost.
    pub(super) fn loss_ns(&self, raw_bytes: u64) -> f64 {
        self.loss_ns_per_byte * raw_bytes as f64
    }
}

/// Choices by length.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    by_class: [Option<Choice>; CLASSES],
    edition: u32,
    /// Choices of earlier editions than this are no good.
    oldest_good: u32,
    /// Choices of earlier editions than this may be no good.
    doubted: u32,
    looked_up: u32,
}

impl Default for Choices {
    fn default() -> Self {
        Self { by_class: [None; CLASSES], edition: 0, oldest_good: 0, doubted: 0, looked_up: 0 }
    }
}

impl Choices {
    /// The choice for transfers of about this length, worked out by `choose` if there is none that will do.
    pub(super) fn of(&mut self, raw_bytes: u64, choose: impl FnOnce() -> Choice) -> Choice {
        let Self { by_class, edition, oldest_good, doubted, looked_up } = self;
        let place = &mut by_class[class(raw_bytes)];
        if let Some(known) = place {
            let worthy = known.raw_ns(raw_bytes) >= WORTHY_NS;
            let good = match () {
                () if known.edition == *edition => true,
                () if known.edition < *oldest_good || known.uses >= STALE_USES => false,
                () if worthy && known.edition < *doubted => *looked_up < BETWEEN_DOUBTED,
                () if worthy => *looked_up < BETWEEN,
                () => true,
            };
            if good {
                known.uses += 1;
                *looked_up += 1;
                return *known;
            }
        }
        *looked_up = 0;
        *place.insert(Choice { edition: *edition, ..choose() })
    }

    /// The choice for this length is to be worked out again, whatever it rests on.
    pub(super) fn forget(&mut self, raw_bytes: u64) {
        self.by_class[class(raw_bytes)] = None;
    }

    /// What choices rest on has moved.
    pub(super) fn renew(&mut self, moved: Moved) {
        match moved {
            Moved::No => {}
            Moved::Little => {
                if self.edition == u32::MAX {
                    *self = Self::default();
                }
                self.edition += 1;
            }
            Moved::Far => {
                self.renew(Moved::Little);
                self.doubted = self.edition;
            }
        }
    }

    /// The data is other data: no choice is good any more.
    pub(super) fn start_again(&mut self) {
        self.renew(Moved::Far);
        self.oldest_good = self.edition;
    }
}

fn class(raw_bytes: u64) -> usize {
    let raw_bytes = raw_bytes.max(1);
    let octave = raw_bytes.ilog2();
    let upper_half = if octave == 0 { 0 } else { raw_bytes >> (octave - 1) & 1 };
    let class = 2 * octave.saturating_sub(FIRST_OCTAVE) as usize + upper_half as usize;
    class.min(CLASSES - 1)
}

/// What a choice is made from.
pub(super) struct Scene<'a> {
    pub(super) goal: Goal,
    pub(super) speeds: &'a Speeds,
    pub(super) element: Element,
    pub(super) allowed: AlgorithmSet,
    pub(super) knowledge: &'a Knowledge,
    pub(super) framing: &'a Framing,
    /// What a codec must save of the raw cost, as a part of it.
    pub(super) least_gain: f64,
}

/// What an algorithm is known to do with a transfer.
#[derive(Clone, Copy)]
struct Known {
    algorithm: Algorithm,
    fraction: f64,
    coded_bits: f64,
    times: CodecTimes,
    cost: f64,
}

impl Scene<'_> {
    /// The cheapest way for `raw_bytes`. Of equals the lower number goes first, and the raw form before all.
    pub(super) fn choose(&self, raw_bytes: u64) -> Choice {
        let raw = self.raw(raw_bytes);
        let limit = raw.cost * (1.0 - self.least_gain);
        let (mut best, mut hopes) = (raw, Vec::<(f64, Known)>::new());
        let (mut promising, mut unknown) = (0u16, 0u16);
        let mut costs = [f64::INFINITY; 16];
        for algorithm in self.allowed.iter() {
            if !self.is_promising(algorithm, raw_bytes, limit) {
                continue;
            }
            promising |= 1 << algorithm.number();
            let Some(known) = self.known(algorithm, raw_bytes) else {
                unknown |= 1 << algorithm.number();
                continue;
            };
            costs[usize::from(algorithm.number())] = known.cost;
            if known.cost < best.cost && known.cost < limit {
                best = known;
            }
            if let Some(cost) = self.hoped(&known, raw_bytes)
                && cost < limit
            {
                hopes.push((cost, known));
            }
        }
        // Of what may be better, what is predicted to lose least is tried first.
        hopes.retain(|(cost, known)| *cost < best.cost && known.algorithm != best.algorithm);
        let trial = hopes.into_iter().min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
        let near = |number: &u16| costs[usize::from(*number)] <= best.cost * CONTENDER;
        let contenders = (0..16u16).filter(near).fold(0, |set, number| set | 1 << number);
        let way = |known: &Known| self.way(known, raw_bytes);
        Choice {
            best: way(&best),
            trial: trial.map(|(_, known)| Trial {
                way: way(&known),
                loss_ns_per_byte: (way(&known).ns_per_byte - way(&best).ns_per_byte).max(0.0),
            }),
            raw_ns_per_byte: way(&raw).ns_per_byte,
            latency_ns: self.goal.latency_ns(),
            promising: AlgorithmSet::from_bits(promising),
            contenders: AlgorithmSet::from_bits(contenders),
            unknown: AlgorithmSet::from_bits(unknown),
            edition: 0,
            uses: 0,
        }
    }

    /// Whether an algorithm would keep below a cost if the data suited it. Data that shrinks more may take longer.
    fn is_promising(&self, algorithm: Algorithm, raw_bytes: u64, limit: f64) -> bool {
        FRACTIONS.into_iter().any(|fraction| {
            let times = self.times(algorithm, raw_bytes, fraction).map(|times| hoped(times, HOPED));
            times.is_some_and(|times| {
                self.goal.cost(raw_bytes, raw_bytes as f64 * 8.0 * fraction, times) < limit
            })
        })
    }

    fn raw(&self, raw_bytes: u64) -> Known {
        let (coded_bits, times) = (raw_bytes as f64 * 8.0, CodecTimes::default());
        let cost = self.goal.cost(raw_bytes, coded_bits, times);
        Known { algorithm: Algorithm::None, fraction: 1.0, coded_bits, times, cost }
    }

    /// `None` where nothing is known of the size.
    fn known(&self, algorithm: Algorithm, raw_bytes: u64) -> Option<Known> {
        let fraction = self.knowledge.fraction(algorithm)?;
        let raw = raw_bytes as f64;
        let coded_bytes = fraction * raw + self.framing.bytes(algorithm, raw_bytes);
        let times = self.times(algorithm, raw_bytes, coded_bytes / raw)?;
        let coded_bits = 8.0 * coded_bytes;
        let cost = self.goal.cost(raw_bytes, coded_bits, times);
        Some(Known { algorithm, fraction, coded_bits, times, cost })
    }

    fn times(&self, algorithm: Algorithm, raw_bytes: u64, fraction: f64) -> Option<CodecTimes> {
        let times = self.speeds.times(algorithm, self.element, raw_bytes, fraction)?;
        Some(self.knowledge.corrected(algorithm, raw_bytes, times))
    }

    /// What a codec may cost that was never timed on data like this; who does not try will never know. Nothing is
    /// tried where the operator's λ decides.
    fn hoped(&self, known: &Known, raw_bytes: u64) -> Option<f64> {
        if self.goal.lambda.is_some() || self.knowledge.timed(known.algorithm, raw_bytes) > 0 {
            return None;
        }
        let part = if self.knowledge.is_timed(known.algorithm) { HOPED_ELSEWHERE } else { HOPED };
        Some(self.goal.cost(raw_bytes, known.coded_bits, hoped(known.times, part)))
    }

    fn way(&self, known: &Known, raw_bytes: u64) -> Way {
        let Known { algorithm, fraction, coded_bits, times, .. } = *known;
        let ns = self.goal.completion_ns(raw_bytes, coded_bits, times) - self.goal.latency_ns();
        Way { algorithm, fraction, ns_per_byte: ns / raw_bytes as f64 }
    }
}

/// What a codec may take at best.
fn hoped(CodecTimes { encode_ns, decode_ns }: CodecTimes, part: f64) -> CodecTimes {
    CodecTimes { encode_ns: encode_ns * part, decode_ns: decode_ns * part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_octaves() {
        assert_eq!([1, 2, 3, 64, 95, 96, 127, 128].map(class), [0, 0, 1, 0, 0, 1, 1, 2]);
        assert_eq!(class(3 << 20), class((4 << 20) - 1));
        assert_ne!(class(3 << 20), class((3 << 20) - 1));
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert_eq!(class(0), 0);
    }

    #[test]
    fn choices_are_worked_out_again_in_time() {
        let choice = Choice {
            best: Way { algorithm: Algorithm::None, fraction: 1.0, ns_per_byte: 1.0 },
            trial: None,
            raw_ns_per_byte: 1.0,
            latency_ns: 0.0,
            promising: AlgorithmSet::from_bits(0),
            contenders: AlgorithmSet::from_bits(0),
            unknown: AlgorithmSet::from_bits(0),
            edition: 0,
            uses: 0,
        };
        let mut choices = Choices::default();
        let worked_out = |choices: &mut Choices| {
            let mut again = false;
            choices.of(1000, || {
                again = true;
                choice
            });
            again
        };
        assert!(worked_out(&mut choices));
        assert!((0..100).all(|_| !worked_out(&mut choices)));
        choices.renew(Moved::No);
        assert!(!worked_out(&mut choices));
        choices.start_again();
        assert!(worked_out(&mut choices));
        choices.renew(Moved::Far);
        assert!(!worked_out(&mut choices), "short transfers can wait");
        choices.start_again();
        assert!(worked_out(&mut choices));
        choices.renew(Moved::Little);
        let served = (0..100).position(|_| worked_out(&mut choices));
        assert_eq!(served, Some(STALE_USES as usize));
        // Long ones get a new choice soon, the sooner the further things have moved.
        let long = |choices: &mut Choices| {
            let mut again = false;
            choices.of(1 << 20, || {
                again = true;
                choice
            });
            again
        };
        assert!(long(&mut choices));
        choices.renew(Moved::Far);
        assert_eq!((0..100).position(|_| long(&mut choices)), Some(BETWEEN_DOUBTED as usize));
        choices.renew(Moved::Little);
        assert_eq!((0..100).position(|_| long(&mut choices)), Some(BETWEEN as usize));
    }
}
