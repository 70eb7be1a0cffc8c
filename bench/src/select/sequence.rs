//! Which transfers there are, and in which order.

use mgcomp_codecs::Element;

use super::args::{ArgError, Args};
use super::source::{Kind, Source};
use crate::data::Random;
use crate::error::BenchError;

/// The longest transfers of the sequence `short`.
const SHORT_BYTES: usize = 64 << 10;
/// Where transfers may begin.
const ALIGNMENT: usize = 64;
/// Sequences that go through all sources: no file's is called so.
const PHASES: &str = "phases";
const BYTES: &str = "bytes";
const SHORT: &str = "short";

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
    pub(super) fn of(args: &Args) -> Self {
        Self {
            shortest: args.shortest,
            longest: args.longest(),
            transfers: args.transfers(),
            per_octave: if args.quick { 1 } else { 2 },
            seed: args.seed,
            only: args.sequence.clone(),
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

/// Transfers of one stream, by their places among the cuts.
pub(super) struct Sequence {
    pub(super) name: String,
    /// How many times the data changes, and one more.
    pub(super) phases: usize,
    pub(super) transfers: Vec<usize>,
}

/// Everything that is replayed.
pub(super) struct Plan {
    pub(super) cuts: Vec<Cut>,
    pub(super) sequences: Vec<Sequence>,
}

impl Plan {
    /// A sequence for each source, and such that go from one to the next.
    pub(super) fn new(sources: &[Source], shape: &Shape) -> Result<Self, BenchError> {
        let Shape { shortest, longest, .. } = *shape;
        if shortest > longest {
            return Err(ArgError::Lengths { shortest, longest }.into());
        }
        let outlines = outlines(sources, shape);
        if let Some(name) =
            shape.only.iter().find(|name| outlines.iter().all(|outline| outline.name != **name))
        {
            let known: Vec<&str> = outlines.iter().map(|outline| outline.name.as_str()).collect();
            return Err(ArgError::Sequence { name: name.clone(), known: known.join(" ") }.into());
        }
        let mut plan = Self { cuts: Vec::new(), sequences: Vec::new() };
        let mut pools = Vec::new();
        for outline in outlines.into_iter().filter(|o| shape.only.is_empty() || shape.only.contains(&o.name))
        {
            for phase in outline.pools() {
                if pools.iter().all(|(known, _)| *known != phase) {
                    pools.push((phase, plan.cut(phase, sources[phase.source].raw().len(), shape)));
                }
            }
            plan.sequences.push(draw(outline, &pools, shape));
        }
        Ok(plan)
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

/// Draws a sequence: every phase is of as many transfers, each any of its pool.
fn draw(outline: Outline, pools: &[(Pool, Vec<usize>)], shape: &Shape) -> Sequence {
    let seed = outline.name.bytes().fold(shape.seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
    let mut random = Random::new(seed);
    let mut transfers = Vec::with_capacity(shape.transfers);
    for (number, phase) in outline.pools().enumerate() {
        let until = shape.transfers * (number + 1) / outline.phases.len();
        let (_, pool) = pools.iter().find(|(known, _)| *known == phase).expect("all pools are cut before");
        while transfers.len() < until {
            transfers.push(random.pick(pool));
        }
    }
    Sequence { name: outline.name, phases: outline.phases.len(), transfers }
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
    let mut outlines: Vec<Outline> = names(sources)
        .into_iter()
        .zip(&each)
        .map(|(name, phase)| Outline { name, phases: vec![*phase], longest })
        .collect();
    if sources.len() < 2 {
        return outlines;
    }
    // Files that flags name come in the order of the flags, once.
    let in_order = sources.iter().all(|source| source.kind.is_none());
    let phases = if in_order { each } else { twice(&each) };
    let bytes = phases.iter().map(|&(source, _)| (source, Element::U8)).collect();
    outlines.push(Outline { name: PHASES.into(), phases: phases.clone(), longest });
    outlines.push(Outline { name: BYTES.into(), phases: bytes, longest });
    if shape.shortest < SHORT_BYTES && SHORT_BYTES < longest {
        outlines.push(Outline { name: SHORT.into(), phases, longest: SHORT_BYTES });
    }
    outlines
}

/// A name for each source that no other sequence has: its kind or its file; where files of one name meet, or meet a
/// sequence of ours, with their elements.
fn names(sources: &[Source]) -> Vec<String> {
    let ours: Vec<&str> = Kind::ALL.map(Kind::name).into_iter().chain([PHASES, BYTES, SHORT]).collect();
    let files = || sources.iter().filter(|source| source.kind.is_none()).map(|source| &*source.item.label);
    let is_shared =
        |label: &str| ours.contains(&label) || files().filter(|other| *other == label).count() > 1;
    let alone = files().filter(|label| !is_shared(label));
    let mut taken: Vec<String> = ours.iter().copied().chain(alone).map(str::to_owned).collect();
    let name = |source: &Source| match source.kind {
        Some(kind) => kind.name().to_owned(),
        None if is_shared(&source.item.label) => {
            let name = free(format!("{}:{}", source.item.label, source.item.element), &taken);
            taken.push(name.clone());
            name
        }
        None => source.item.label.clone(),
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
        assert_eq!(names(&sources), expected);
        let plan = Plan::new(&sources, &shape(256, 1 << 17)).unwrap();
        let names: Vec<&str> = plan.sequences.iter().map(|sequence| &*sequence.name).collect();
        assert_eq!(names, [&expected[..], &["phases", "bytes", "short"]].concat());
    }

    #[test]
    fn short_transfers_are_there_wherever_they_can_be() {
        let sources = files(&[("a", Element::Bf16), ("b", Element::U64)]);
        let short = |shortest, longest| {
            let plan = Plan::new(&sources, &shape(shortest, longest)).unwrap();
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
    fn what_two_pools_cut_alike_is_measured_once() {
        let sources = files(&[("a", Element::Bf16), ("b", Element::Bf16)]);
        let plan = Plan::new(&sources, &shape(256, 1 << 17)).unwrap();
        // Nine octaves of two lengths, of two sources, as floats and as bytes; short ones are the first of them.
        assert_eq!(plan.cuts.len(), 9 * 2 * 2 * 2);
    }
}
