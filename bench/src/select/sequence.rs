//! Which transfers there are, and in which order.

use mgcomp_codecs::Element;

use super::args::{ArgError, Args};
use super::source::Source;
use crate::data::Random;
use crate::error::BenchError;

/// The longest transfers of the sequence `short`.
const SHORT_BYTES: usize = 64 << 10;
/// Where transfers may begin.
const ALIGNMENT: usize = 64;

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
        let mut pools: Vec<((usize, Element), Vec<usize>)> = Vec::new();
        for outline in outlines.into_iter().filter(|o| shape.only.is_empty() || shape.only.contains(&o.name))
        {
            for &phase in &outline.phases {
                if pools.iter().all(|(known, _)| *known != phase) {
                    pools.push((phase, plan.cut(phase, sources[phase.0].raw().len(), shape)));
                }
            }
            let sequence = plan.draw(outline, &pools, shape);
            plan.sequences.push(sequence);
        }
        Ok(plan)
    }

    /// Cuts pieces of every octave of lengths from a source.
    fn cut(&mut self, (source, element): (usize, Element), source_len: usize, shape: &Shape) -> Vec<usize> {
        let mut random = Random::new(shape.seed ^ (source as u64) << 32);
        let width = element.width_bytes();
        let first = self.cuts.len();
        let mut low = shape.shortest;
        loop {
            for _ in 0..shape.per_octave {
                let high = low.saturating_mul(2).min(shape.longest);
                let len = low + random.below(high - low + 1);
                let len = (len - len % width).max(len.min(width));
                let offset = random.below((source_len - len) / ALIGNMENT + 1) * ALIGNMENT;
                self.cuts.push(Cut { source, element, offset, len });
            }
            low = low.saturating_mul(2);
            if low >= shape.longest {
                break (first..self.cuts.len()).collect();
            }
        }
    }

    /// Draws a sequence: every phase is of as many transfers, each any of its pool.
    fn draw(&self, outline: Outline, pools: &[((usize, Element), Vec<usize>)], shape: &Shape) -> Sequence {
        let Outline { name, phases, longest } = outline;
        let mut random =
            Random::new(name.bytes().fold(shape.seed, |seed, byte| seed.rotate_left(8) ^ u64::from(byte)));
        let mut transfers = Vec::with_capacity(shape.transfers);
        for (number, phase) in phases.iter().enumerate() {
            let until = shape.transfers * (number + 1) / phases.len();
            let pool = pools.iter().find(|(known, _)| known == phase).map(|(_, pool)| pool.iter().copied());
            let short = |&cut: &usize| self.cuts[cut].len <= longest;
            let pool: Vec<usize> = pool.into_iter().flatten().filter(short).collect();
            while transfers.len() < until && !pool.is_empty() {
                transfers.push(random.pick(&pool));
            }
        }
        Sequence { name, phases: phases.len(), transfers }
    }
}

/// A sequence before its transfers are drawn: which sources, declared as what.
struct Outline {
    name: String,
    phases: Vec<(usize, Element)>,
    longest: usize,
}

fn outlines(sources: &[Source], shape: &Shape) -> Vec<Outline> {
    let named = |source: &Source| {
        source.kind.map_or_else(|| source.item.label.clone(), |kind| kind.name().to_owned())
    };
    let each: Vec<(usize, Element)> =
        sources.iter().enumerate().map(|(at, source)| (at, source.item.element)).collect();
    let longest = shape.longest;
    let mut outlines: Vec<Outline> = sources
        .iter()
        .zip(&each)
        .map(|(source, phase)| Outline { name: named(source), phases: vec![*phase], longest })
        .collect();
    if sources.len() < 2 {
        return outlines;
    }
    // Files that flags name come in the order of the flags, once.
    let in_order = sources.iter().all(|source| source.kind.is_none());
    let phases = if in_order { each } else { twice(&each) };
    let bytes = phases.iter().map(|&(source, _)| (source, Element::U8)).collect();
    outlines.push(Outline { name: "phases".into(), phases: phases.clone(), longest });
    outlines.push(Outline { name: "bytes".into(), phases: bytes, longest });
    if shape.shortest < SHORT_BYTES && SHORT_BYTES < longest {
        outlines.push(Outline { name: "short".into(), phases, longest: SHORT_BYTES });
    }
    outlines
}

/// All in order, and then in another one.
fn twice(each: &[(usize, Element)]) -> Vec<(usize, Element)> {
    let second = each.iter().step_by(2).chain(each.iter().skip(1).step_by(2));
    each.iter().chain(second).copied().collect()
}
