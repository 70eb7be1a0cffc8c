//! `mgcomp-bench control`: what it costs a transfer that an operator can see and steer it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, Decision, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Steering, StreamId,
};
use mgcomp_transport::control::{Attachment, attach, steered};
use mgcomp_transport::link::Position;
use mgcomp_transport::message::Rank;

use crate::error::BenchError;
use crate::machine::Machine;

/// Transfers of one turn.
const TRANSFERS: u32 = 20_000;
/// What must stay free of the transfer's time.
const GOAL_NS: f64 = 30.0;

/// What it costs a transfer that an operator can see and steer it: the same policy with and without its control page.
///
/// A transfer is a plan and the observation of its outcome, without codec, link and clock. Both sides take turns; the
/// best of all turns counts. What the page counts is compared with what was done.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Turns of each side
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Streams that transfers go round
    #[arg(long, num_args = 1.., default_values_t = [1, 8, 64, 1024], value_parser = clap::value_parser!(u32).range(1..=4096))]
    streams: Vec<u32>,
    /// Print one JSON object a row
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    let Some(attachment) = attach() else { return Err(BenchError::NoPage) };
    if !args.json {
        println!("{}", Machine::detect().describe());
        println!("plan and observation of one transfer, policy fixed:bdi, goal: at most {GOAL_NS} ns more\n");
        println!("{:>8} {:>12} {:>12} {:>12}", "streams", "alone/ns", "steered/ns", "page/ns");
    }
    for &streams in &args.streams {
        let row = Row::measure(&attachment, streams, args.turns)?;
        if args.json {
            println!(
                r#"{{"bench":"control","streams":{streams},"alone_ns":{:.2},"steered_ns":{:.2},"page_ns":{:.2},"goal_ns":{GOAL_NS}}}"#,
                row.alone_ns,
                row.steered_ns,
                row.steered_ns - row.alone_ns
            );
        } else {
            let Row { alone_ns, steered_ns } = row;
            println!("{streams:>8} {alone_ns:>12.1} {steered_ns:>12.1} {:>12.1}", steered_ns - alone_ns);
        }
    }
    Ok(())
}

struct Row {
    alone_ns: f64,
    steered_ns: f64,
}

impl Row {
    fn measure(attachment: &Arc<Attachment>, streams: u32, turns: u32) -> Result<Self, BenchError> {
        let policy = || {
            let spec: PolicySpec = "fixed:bdi".parse().unwrap_or_default();
            spec.build(&Steering::default())
        };
        // A rank of its own for each row: slots of its own.
        let position = Position { rank: Rank(streams), ranks: u32::MAX };
        let mut alone = policy();
        let mut with_page = steered(attachment.clone(), policy(), position);
        let before = counted(attachment);
        let (mut alone_best, mut steered_best) = (Duration::MAX, Duration::MAX);
        for _ in 0..turns {
            alone_best = alone_best.min(transfers(alone.as_mut(), streams));
            steered_best = steered_best.min(transfers(with_page.as_mut(), streams));
        }
        let (expected, got) = (u64::from(TRANSFERS) * u64::from(turns), counted(attachment) - before);
        if got != expected {
            return Err(BenchError::Miscounted { expected, got });
        }
        let ns = |time: Duration| time.as_nanos() as f64 / f64::from(TRANSFERS);
        Ok(Self { alone_ns: ns(alone_best), steered_ns: ns(steered_best) })
    }
}

/// Transfers in all slots of the page.
fn counted(attachment: &Attachment) -> u64 {
    let page = attachment.page();
    let slots = (0..page.used()).chain([mgcomp_transport::control::Page::other()]);
    slots.filter_map(|slot| page.view(slot)).map(|view| view.sent().transfers).sum()
}

/// Time of [`TRANSFERS`] that go round `streams`.
fn transfers(policy: &mut dyn Policy, streams: u32) -> Duration {
    let link = LinkFacts::try_new(100.0, 1000, Overlap::None).ok();
    let encode = Some(Duration::from_nanos(700));
    let outcome = Outcome {
        sent: Algorithm::Bdi,
        coded_bytes: 3000,
        sampling: None,
        encode,
        decode: None,
        acknowledged: None,
    };
    let mut facts = CheapFacts {
        peer: 1,
        stream: StreamId(0),
        raw_bytes: 4096,
        element: Element::F32,
        allowed: AlgorithmSet::supported(),
        link,
        lambda: None,
        is_observed: true,
    };
    let started = Instant::now();
    for transfer in 0..TRANSFERS {
        facts.stream = StreamId(transfer % streams);
        if let Plan::Use(decision) = black_box(&mut *policy).plan(black_box(&facts)) {
            // As a policy that predicts would have it, so that this is counted too.
            let decision = Decision { predicted_bits: Some(25_000), predicted_ns: Some(9_000), ..decision };
            policy.observe(&facts, black_box(&decision), black_box(&outcome));
        }
    }
    started.elapsed()
}
