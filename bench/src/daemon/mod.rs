//! `mgcomp-bench daemon`: a daemon under load: many processes, changes of settings, watchers.

mod child;
mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Steering, StreamId,
};
use mgcomp_transport::control::{Attachment, steered};
use mgcomp_transport::link::Position;
use mgcomp_transport::message::Rank;

use crate::codec::parse_seconds;
use crate::error::BenchError;
use crate::machine::Machine;
use child::Child;
use load::Load;

/// How long everything may take to come up.
const PATIENCE: Duration = Duration::from_secs(100);

/// A daemon under load: how long calls take, what memory and time it needs.
///
/// The daemon runs as a process of its own; processes are played here, each with a control page and a connection.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Processes with a control page
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=4000))]
    processes: u32,
    /// Peers of each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    peers: u32,
    /// Watchers at the same time
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=1000))]
    watchers: u32,
    /// Length of each measurement
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    seconds: Duration,
    /// Print one JSON object a row
    #[arg(long)]
    json: bool,
    /// Be the daemon, in this folder. Not for use by hand
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

/// A figure, and what it should be at most (or, of rates, at least).
struct Figure {
    name: &'static str,
    unit: &'static str,
    value: f64,
    goal: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), BenchError> {
    if let Some(folder) = &args.serve {
        return child::serve(folder);
    }
    raise_file_limit();
    let folder = tempfile::tempdir().map_err(BenchError::Daemon)?;
    let child = Child::start(folder.path()).map_err(BenchError::Daemon)?;
    let mut processes = (0..args.processes)
        .map(|rank| Process::start(&child, rank, args.processes))
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(BenchError::Daemon)?;
    processes.iter_mut().for_each(|process| process.exchange(args.peers));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BenchError::Daemon)?;
    let figures = runtime.block_on(measure(args, &child, &mut processes))?;
    if !args.json {
        println!("{}", Machine::detect().describe());
        println!("{} processes with {} peers each, {} watchers\n", args.processes, args.peers, args.watchers);
        println!("{:<44} {:>12} {:>8}  {:>10}", "", "", "", "goal");
    }
    for Figure { name, unit, value, goal } in figures {
        match args.json {
            true => println!(
                r#"{{"bench":"daemon","figure":"{name}","value":{value},"unit":"{unit}","goal":{goal}}}"#
            ),
            false => println!("{name:<44} {value:>12.2} {unit:>8}  {goal:>10}"),
        }
    }
    Ok(())
}

async fn measure(args: &Args, child: &Child, processes: &mut [Process]) -> Result<Vec<Figure>, BenchError> {
    let time = args.seconds;
    let load = Load::connect(&child.socket()).await?;
    load.until_seen(args.processes, u64::from(args.peers), PATIENCE).await?;
    let mut figures = Vec::new();
    let mut figure = |name, unit, value, goal| figures.push(Figure { name, unit, value, goal });

    let cpu = child.cpu_time();
    let started = Instant::now();
    tokio::time::sleep(time).await;
    let idle = (child.cpu_time() - cpu).as_secs_f64() / started.elapsed().as_secs_f64();
    figure("idle, of a core", "%", idle * 100.0, 1.0);

    let (median, slowest) = load.list_jobs(50).await?;
    figure("ListJobs, median", "ms", median.as_secs_f64() * 1e3, 50.0);
    figure("ListJobs, slowest of 50", "ms", slowest.as_secs_f64() * 1e3, 50.0);
    figure("ListStreams of everything", "ms", load.list_streams().await?.as_secs_f64() * 1e3, 500.0);
    load.histogram().await?;
    figure("memory with all histograms read", "MB", child.rss_bytes() as f64 / 1e6, 150.0);

    let (changes, last) = load.changes(time).await?;
    figure("setting changes", "1/s", changes / time.as_secs_f64(), 10_000.0);
    let kept = load.until_kept(&child.settings_file(), last, PATIENCE).await?;
    figure("until the last change is on disk", "ms", kept.as_secs_f64() * 1e3, 100.0);
    let applied = load
        .until_applied(7.0, || processes.iter_mut().all(|process| process.goes_by(args.peers, 7.0)))
        .await?;
    figure("until every process goes by a change", "ms", applied.as_secs_f64() * 1e3, 100.0);

    if args.watchers > 0 {
        let (updates, median) = load.watchers(args.watchers, time).await?;
        figure("updates to watchers, of those expected", "%", updates * 100.0, 90.0);
        figure("ListJobs meanwhile, median", "ms", median.as_secs_f64() * 1e3, 50.0);
    }
    figure("memory at the end", "MB", child.rss_bytes() as f64 / 1e6, 150.0);
    Ok(figures)
}

/// A process that is played: a control page and a policy that counts there.
struct Process {
    attachment: Arc<Attachment>,
    policy: Box<dyn Policy>,
}

impl Process {
    fn start(child: &Child, rank: u32, ranks: u32) -> std::io::Result<Self> {
        let attachment = Arc::new(Attachment::start(vec![child.socket()])?);
        let spec: PolicySpec = "fixed:bdi".parse().unwrap_or_default();
        let position = Position { rank: Rank(rank), ranks };
        let policy = steered(attachment.clone(), spec.build(&Steering::default()), position);
        Ok(Self { attachment, policy })
    }

    /// A transfer to each of so many peers.
    fn exchange(&mut self, peers: u32) {
        let outcome = Outcome {
            sent: Algorithm::Bdi,
            coded_bytes: 3000,
            sampling: None,
            encode: Some(Duration::from_nanos(700)),
            decode: None,
            acknowledged: None,
        };
        for peer in 0..peers {
            let facts = CheapFacts {
                peer,
                stream: StreamId(0),
                raw_bytes: 4096,
                element: Element::F32,
                allowed: AlgorithmSet::supported(),
                link: LinkFacts::try_new(100.0, 1000, Overlap::None).ok(),
                lambda: None,
                is_observed: true,
            };
            if let Plan::Use(decision) = self.policy.plan(&facts) {
                self.policy.observe(&facts, &decision, &outcome);
            }
        }
    }

    /// Whether all its streams go by this λ.
    fn goes_by(&mut self, peers: u32, lambda_gbps: f64) -> bool {
        self.exchange(peers);
        let page = self.attachment.page();
        (0..page.used()).filter_map(|slot| page.view(slot)).all(|view| {
            view.in_effect
                .lambda
                .is_some_and(|lambda| (lambda.gbps() - lambda_gbps).abs() < 1e-3 * lambda_gbps.max(1.0))
        })
    }
}

/// Each process takes files here as well.
fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // If that is not to be had, the first process that finds no room says so.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}
