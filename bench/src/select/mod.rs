//! `mgcomp-bench select`: how far each policy is from the best choice known in hindsight.

mod args;
mod clock;
mod completion;
mod goals;
mod picture;
mod print;
mod replay;
mod sampler;
mod sequence;
mod source;
mod table;

use std::sync::Arc;

use mgcomp_codecs::{Algorithm, Element, ElementSet, codecs};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{PaperConfig, PolicySpec, Steering};
use mgcomp_transport::calibrate::calibrate;

use crate::error::{BenchError, note};
use crate::machine::{self, Machine};
pub(crate) use args::Args;
use completion::Link;
use goals::Goals;
use print::{Printer, Row};
use replay::{Replay, Replayed};
use sampler::Sampler;
use sequence::{Cut, Plan, Sequence, Shape};
use source::{Choice, Chosen, Offer, Source};
use table::Table;

pub(crate) use args::ArgError;

/// Memory that a run takes beside the sources, in buffers of the longest transfer: one frame for each codec, the raw
/// bytes that come back, and room to breathe.
const BUFFERS: u64 = 14;

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    args.check()?;
    let shape = Shape::of(args)?;
    let offer = Offer::of(&args.data)?;
    shape.check_names(&offer.called())?;
    if let Some(path) = &args.plot {
        mgcomp_plot::check_place(path)?;
    }
    let Choice { chosen, notes } = offer.choose(args.seed)?;
    // Folders may lack a kind of data, which only their files tell.
    shape.check_names(&chosen.iter().map(Chosen::called).collect::<Vec<_>>())?;
    notes.iter().for_each(|text| note(text));
    machine::check_memory(shape.longest, (chosen.len() as u64 + BUFFERS) * shape.longest as u64)?;
    let sources = chosen.into_iter().map(|item| item.load(shape.longest)).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan::new(&sources, &shape);
    let mut printer = Printer::new(args, &Machine::detect())?;
    let table = Table::measure(&plan.cuts, &sources, usize::from(args.threads), args.rounds())?;
    let speeds = speeds_for(&plan.cuts)?;
    let mut bench =
        Select { sources: &sources, plan: &plan, table: &table, sampler: Sampler::default(), speeds };
    let mut rows = Vec::new();
    for sequence in &plan.sequences {
        for &overlap in args.overlaps() {
            for &rate_gbps in &args.link_gbps {
                let link = Link {
                    rate_gbps,
                    latency_ns: args.latency_ns(),
                    segment: overlap.then(|| args.segment()),
                };
                let row = bench.row(sequence, link)?;
                printer.row(&row)?;
                rows.push(row);
            }
        }
    }
    printer.goals(&Goals::of(&rows))?;
    if let Some(path) = &args.plot {
        let svg = picture::draw(&rows, &Machine::detect());
        mgcomp_plot::write_file(path, svg.as_bytes())?;
    }
    Ok(())
}

/// Speeds that are measured on other data than what is replayed, as programs have them.
fn speeds_for(cuts: &[Cut]) -> Result<Arc<Speeds>, BenchError> {
    let elements: Vec<Element> = cuts.iter().map(|cut| cut.element).collect();
    Ok(Arc::new(calibrate(ElementSet::from_iter(elements), &|_| {})?))
}

/// What all replays share.
struct Select<'a> {
    sources: &'a [Source],
    plan: &'a Plan,
    table: &'a Table,
    sampler: Sampler,
    speeds: Arc<Speeds>,
}

impl Select<'_> {
    /// Every policy on one sequence over one link.
    fn row(&mut self, sequence: &Sequence, link: Link) -> Result<Row, BenchError> {
        let steering = Steering { speeds: self.speeds.clone(), ..Steering::default() };
        let mut policies = Vec::new();
        for spec in specs() {
            let replay = Replay {
                sources: self.sources,
                cuts: &self.plan.cuts,
                table: self.table,
                transfers: &sequence.transfers,
                link,
            };
            let replayed: Replayed = replay.run(&|| spec.build(&steering), &mut self.sampler)?;
            policies.push((spec, replayed));
        }
        let oracle_ns = sequence.transfers.iter().map(|&cut| self.best_ns(cut, link)).sum();
        let is_noise = sequence.transfers.iter().all(|&cut| self.table.is_noise(cut));
        Ok(Row {
            sequence: sequence.name.clone(),
            course: sequence.course,
            is_noise,
            link,
            oracle_ns,
            policies,
        })
    }

    /// What the best algorithm for a transfer takes, the raw form included.
    fn best_ns(&self, cut: usize, link: Link) -> f64 {
        let raw_bytes = self.plan.cuts[cut].len as u64;
        let times =
            Algorithm::ALL.into_iter().filter_map(|algorithm| self.table.sent(cut, raw_bytes, algorithm));
        times.map(|sent| link.completion_ns(raw_bytes, &sent)).fold(f64::INFINITY, f64::min)
    }
}

/// What is compared: never to compress, every codec, the paper's scheme, and ours.
fn specs() -> Vec<PolicySpec> {
    let fixed = std::iter::once(Algorithm::None).chain(codecs().map(mgcomp_codecs::Codec::algorithm));
    let fixed = fixed.filter_map(|algorithm| format!("fixed:{algorithm}").parse().ok());
    fixed.chain([PolicySpec::Paper(PaperConfig::default()), PolicySpec::Adaptive]).collect()
}
