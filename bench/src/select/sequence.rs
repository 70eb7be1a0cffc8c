//! Which transfers there are, and in which order.

use mgcomp_codecs::Element;

use super::args::{ArgError, Args};
use super::source::{Called, Kind, Source};
use crate::data::Random;

/// The longest transfers of the sequence `short`.
const SHORT_BYTES: usize = 64 << 10;
/// Where transfers may begin.
const ALIGNMENT: usize = 64;
/// Sequences that go through all sources: no file's is called so.
const PHASES: &str = "phases";
const BYTES: &str = "bytes";
const SHORT: &str = "short";
/// All sources as well, any of them each time.
const MIXED: &str = "mixed";

/// What the flags say about sequences.
pub(super) struct Shape {
    pub(super) shortest: usize,
    pub(super) longest: usize,
    transfers: usize,
    /// Different transfers an octave of lengths.
    per_octave: usize,
    seed: u64,
    only: Vec<String>,
}

impl Shape {
    pub(super) fn of(args: &Args) -> Result<Self, ArgError> {
        let (shortest, longest) = (args.shortest, args.longest());
        if shortest > longest {
            return Err(ArgError::Lengths { shortest, longest });
        }
        Ok(Self {
            shortest,
            longest,
            transfers: args.transfers(),
            per_octave: if args.quick { 1 } else { 2 },
            seed: args.seed,
            only: args.sequence.clone(),
        })
    }

    /// Refuses a name that no sequence of such sources has.
    pub(super) fn check_names(&self, sources: &[Called<'_>]) -> Result<(), ArgError> {
        let mut known = names(sources);
        known.extend(self.through_all(sources.len()).iter().map(|&name| name.to_owned()));
        match self.only.iter().find(|name| !known.contains(name)) {
            Some(name) => Err(ArgError::Sequence { name: name.clone(), known: known.join(" ") }),
            None => Ok(()),
        }
    }

    /// The sequences that go through all of so many sources.
    fn through_all(&self, sources: usize) -> &'static [&'static str] {
        match sources {
            0 | 1 => &[],
            _ if self.shortest < SHORT_BYTES && SHORT_BYTES < self.longest => &[PHASES, BYTES, SHORT, MIXED],
            _ => &[PHASES, BYTES, MIXED],
        }
    }
}

/// A piece of a source: a transfer, as often as sequences have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) source: usize,
    pub(super) element: Element,
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// How data follows data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It changes so many times, less one.
    Phases(usize),
    /// Each transfer is of any data, whatever the one before was of.
    Mixed,
}

/// Transfers of one stream, by their places among the cuts.
pub(super) struct Sequence {
    pub(super) name: String,
    pub(super) course: Course,
    pub(super) transfers: Vec<usize>,
}

/// Everything that is replayed.
pub(super) struct Plan {
    pub(super) cuts: Vec<Cut>,
    pub(super) sequences: Vec<Sequence>,
}

impl Plan {
    /// A sequence for each source, and such that go from one to the next.
    pub(super) fn new(sources: &[Source], shape: &Shape) -> Self {
        let mut plan = Self { cuts: Vec::new(), sequences: Vec::new() };
        let mut pools = Vec::new();
        let is_wanted = |outline: &Outline| shape.only.is_empty() || shape.only.contains(&outline.name);
        for outline in outlines(sources, shape).into_iter().filter(is_wanted) {
            for phase in outline.pools() {
                if pools.iter().all(|(known, _)| *known != phase) {
                    pools.push((phase, plan.cut(phase, sources[phase.source].raw().len(), shape)));
                }
            }
            plan.sequences.push(draw(outline, &pools, shape));
        }
        plan
    }

    /// Cuts pieces of every octave of lengths from a source; what two pools cut alike is one.
    fn cut(&mut self, pool: Pool, source_len: usize, shape: &Shape) -> Vec<usize> {
        let Pool { source, element, longest } = pool;
        let mut random = Random::new(shape.seed ^ (source as u64) << 32);
        let width = element.width_bytes();
        let mut places = Vec::new();
        let mut low = shape.shortest;
        loop {
            for _ in 0..shape.per_octave {
                let high = low.saturating_mul(2).min(longest);
                let len = low + random.below(high - low + 1);
                let len = (len - len % width).max(len.min(width));
                let offset = random.below((source_len - len) / ALIGNMENT + 1) * ALIGNMENT;
                places.push(self.place(Cut { source, element, offset, len }));
            }
            low = low.saturating_mul(2);
            if low >= longest {
                break places;
            }
        }
    }

    fn place(&mut self, cut: Cut) -> usize {
        self.cuts.iter().position(|known| *known == cut).unwrap_or_else(|| {
            self.cuts.push(cut);
            self.cuts.len() - 1
        })
    }
}

/// Draws a sequence: every phase is of as many transfers, each any of its pool; or each is of any pool.
fn draw(outline: Outline, pools: &[(Pool, Vec<usize>)], shape: &Shape) -> Sequence {
    let seed = outline.name.bytes().fold(shape.seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
    let mut random = Random::new(seed);
    let mut transfers = Vec::with_capacity(shape.transfers);
    let cuts = |phase: Pool| {
        let (_, cuts) = pools.iter().find(|(known, _)| *known == phase).expect("all pools are cut before");
        cuts
    };
    let phases: Vec<&Vec<usize>> = outline.pools().map(cuts).collect();
    for (number, phase) in phases.iter().enumerate() {
        let until = shape.transfers * (number + 1) / phases.len();
        while transfers.len() < until {
            let of = if outline.is_mixed { random.pick(&phases) } else { *phase };
            transfers.push(random.pick(of));
        }
    }
    let course = if outline.is_mixed { Course::Mixed } else { Course::Phases(phases.len()) };
    Sequence { name: outline.name, course, transfers }
}

/// What cuts are drawn from in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pool {
    source: usize,
    element: Element,
    longest: usize,
}

/// A sequence before its transfers are drawn: which sources, declared as what.
struct Outline {
    name: String,
    phases: Vec<(usize, Element)>,
    longest: usize,
    /// The phases come by chance, each of one transfer.
    is_mixed: bool,
}

impl Outline {
    /// One for each phase.
    fn pools(&self) -> impl Iterator<Item = Pool> {
        self.phases.iter().map(|&(source, element)| Pool { source, element, longest: self.longest })
    }
}

fn outlines(sources: &[Source], shape: &Shape) -> Vec<Outline> {
    let each: Vec<(usize, Element)> =
        sources.iter().enumerate().map(|(at, source)| (at, source.item.element)).collect();
    let longest = shape.longest;
    let names = names(&sources.iter().map(Source::called).collect::<Vec<_>>()).into_iter();
    let alone = names.zip(&each).map(|(name, phase)| Outline {
        name,
        phases: vec![*phase],
        longest,
        is_mixed: false,
    });
    // Files that flags name come in the order of the flags, once.
    let in_order = sources.iter().all(|source| source.kind.is_none());
    let phases = if in_order { each.clone() } else { twice(&each) };
    let through_all = shape.through_all(sources.len()).iter().map(|&name| Outline {
        name: name.into(),
        phases: match name {
            BYTES | MIXED => phases.iter().map(|&(source, _)| (source, Element::U8)).collect(),
            _ => phases.clone(),
        },
        longest: if name == SHORT { SHORT_BYTES } else { longest },
        is_mixed: name == MIXED,
    });
    alone.chain(through_all).collect()
}

/// A name for each source that no other sequence has: its kind or its file; where files of one name meet, or meet a
/// sequence of ours, with their elements.
fn names(sources: &[Called<'_>]) -> Vec<String> {
    let ours: Vec<&str> =
        Kind::ALL.map(Kind::name).into_iter().chain([PHASES, BYTES, SHORT, MIXED]).collect();
    let files = || {
        sources.iter().filter_map(|source| match *source {
            Called::File(label, _) => Some(label),
            Called::Kind(_) => None,
        })
    };
    let is_shared =
        |label: &str| ours.contains(&label) || files().filter(|other| *other == label).count() > 1;
    let alone = files().filter(|label| !is_shared(label));
    let mut taken: Vec<String> = ours.iter().copied().chain(alone).map(str::to_owned).collect();
    let name = |source: &Called<'_>| match *source {
        Called::Kind(kind) => kind.name().to_owned(),
        Called::File(label, element) if is_shared(label) => {
            let name = free(format!("{label}:{element}"), &taken);
            taken.push(name.clone());
            name
        }
        Called::File(label, _) => label.to_owned(),
    };
    sources.iter().map(name).collect()
}

/// `name`, or the same with the first number that makes it another one than all of these.
fn free(name: String, taken: &[String]) -> String {
    let mut free = name.clone();
    let mut number = 1;
    while taken.contains(&free) {
        number += 1;
        free = format!("{name}#{number}");
    }
    free
}

/// All in order, and then in another one.
fn twice(each: &[(usize, Element)]) -> Vec<(usize, Element)> {
    let second = each.iter().step_by(2).chain(each.iter().skip(1).step_by(2));
    each.iter().chain(second).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(shortest: usize, longest: usize) -> Shape {
        Shape { shortest, longest, transfers: 100, per_octave: 2, seed: 1, only: Vec::new() }
    }

    fn files(labels: &[(&str, Element)]) -> Vec<Source> {
        labels.iter().map(|&(label, element)| Source::of_zeros(None, label, element, 1 << 18)).collect()
    }

    #[test]
    fn sequences_of_files_have_names_of_their_own() {
        use Element::{Bf16, U8};
        let labels =
            [("f", Bf16), ("f", U8), ("g", U8), ("phases", U8), ("relu", Bf16), ("f", U8), ("f:bf16", U8)];
        let mut sources = files(&labels);
        sources.insert(0, Source::of_zeros(Some(Kind::Relu), "x", Bf16, 1 << 18));
        // The last one stands as it is, so the first one has a number.
        let expected = ["relu", "f:bf16#2", "f:u8", "g", "phases:u8", "relu:bf16", "f:u8#2", "f:bf16"];
        let called: Vec<Called<'_>> = sources.iter().map(Source::called).collect();
        assert_eq!(names(&called), expected);
        let plan = Plan::new(&sources, &shape(256, 1 << 17));
        let names: Vec<&str> = plan.sequences.iter().map(|sequence| &*sequence.name).collect();
        assert_eq!(names, [&expected[..], &["phases", "bytes", "short", "mixed"]].concat());
    }

    #[test]
    fn short_transfers_are_there_wherever_they_can_be() {
        let sources = files(&[("a", Element::Bf16), ("b", Element::U64)]);
        let short = |shortest, longest| {
            let plan = Plan::new(&sources, &shape(shortest, longest));
            assert!(plan.sequences.iter().all(|sequence| sequence.transfers.len() == 100));
            let sequence = plan.sequences.into_iter().find(|sequence| sequence.name == "short")?;
            let cuts: Vec<Cut> = sequence.transfers.iter().map(|&cut| plan.cuts[cut]).collect();
            // Both phases have their half.
            assert!((0..50).all(|at| cuts[at].source == 0) && (50..100).all(|at| cuts[at].source == 1));
            Some(cuts)
        };
        for (shortest, longest) in [(60 << 10, 128 << 10), ((64 << 10) - 1, (64 << 10) + 1), (1, 1 << 18)] {
            let cuts = short(shortest, longest).unwrap();
            assert!(cuts.iter().all(|cut| cut.len <= SHORT_BYTES), "{shortest} {longest}");
        }
        for (shortest, longest) in [(64 << 10, 128 << 10), (256, 64 << 10)] {
            assert_eq!(short(shortest, longest), None);
        }
    }

    #[test]
    fn mixed_transfers_are_of_any_source_each_time() {
        let plan = Plan::new(&files(&[("a", Element::Bf16), ("b", Element::U64)]), &shape(256, 1 << 17));
        let mixed = plan.sequences.iter().find(|sequence| sequence.name == "mixed").unwrap();
        let of: Vec<usize> = mixed.transfers.iter().map(|&cut| plan.cuts[cut].source).collect();
        assert!(mixed.transfers.iter().all(|&cut| plan.cuts[cut].element == Element::U8));
        // Half of a hundred transfers, and half of the ninety-nine steps from one to the next, within four standard deviations.
        let of_second = of.iter().sum::<usize>();
        let changes = of.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((30..=70).contains(&of_second) && (30..=70).contains(&changes), "{of:?}");
        assert_eq!(mixed.course, Course::Mixed);
    }

    #[test]
    fn names_are_checked_against_those_that_plans_have() {
        let all = files(&[("f", Element::Bf16), ("f", Element::U8), ("g", Element::U64)]);
        for (sources, longest) in [(&all[..], 1 << 17), (&all[..], 1 << 16), (&all[..1], 1 << 17)] {
            let called: Vec<Called<'_>> = sources.iter().map(Source::called).collect();
            let names = Plan::new(sources, &shape(256, longest)).sequences.into_iter().map(|s| s.name);
            let names: Vec<String> = names.collect();
            let only = |only| Shape { only, ..shape(256, longest) };
            assert_eq!(only(names.clone()).check_names(&called), Ok(()));
            let error = ArgError::Sequence { name: "h".into(), known: names.join(" ") };
            assert_eq!(only(vec!["h".into()]).check_names(&called), Err(error));
        }
        // What folders may hold takes no name from what they do hold.
        let named = Called::File("relu", Element::Bf16);
        let [few, most] = [vec![Called::Kind(Kind::Dense), named], {
            Kind::ALL.map(Called::Kind).into_iter().chain([named]).collect()
        }];
        assert!(names(&few).iter().all(|name| names(&most).contains(name)));
    }

    #[test]
    fn what_two_pools_cut_alike_is_measured_once() {
        let sources = files(&[("a", Element::Bf16), ("b", Element::Bf16)]);
        let plan = Plan::new(&sources, &shape(256, 1 << 17));
        // Nine octaves of two lengths, of two sources, as floats and as bytes; short ones are the first of them.
        assert_eq!(plan.cuts.len(), 9 * 2 * 2 * 2);
    }
}
