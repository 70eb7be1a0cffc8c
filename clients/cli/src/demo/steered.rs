//! `mgcomp demo --daemon`: a daemon of the demo's own changes λ while ranks exchange, and what carries the bytes follows.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use mgcomp_daemon::{Config, Listener};
use mgcomp_proto::v1::{Settings, Traffic, UpdateSettingsRequest, WatchRequest};
use serde_json::json;
use tokio::sync::oneshot;

use super::dataset::Dataset;
use super::measure::{Ranks, rounds};
use super::processes::Processes;
use super::{Args, DemoError, Setup};
use crate::client::{ClientError, Daemon, Target, with_patience};
use crate::error::CliError;
use crate::output::print;
use crate::show;

/// What λ is set to, one after the other, in Gb/s, and what that means.
const STEPS: [(Option<f64>, &str); 3] = [
    (None, "nothing is set yet: each program chooses"),
    (Some(0.0), "only size counts"),
    (Some(1e6), "only codec time counts, so nothing is compressed"),
];
/// Moments that are shown of each, and how long one is.
const MOMENTS: usize = 3;
const MOMENT_MS: u32 = 250;

pub(super) fn run(args: &Args, setup: &Setup, datasets: &[Dataset]) -> Result<(), CliError> {
    let Some(dataset) = datasets.first() else { return Ok(()) };
    let folder = tempfile::tempdir().map_err(DemoError::System)?;
    let daemon = Embedded::start(folder.path())?;
    let mut ranks = Processes::start(setup, &datasets[..1], Some(daemon.socket.as_path()))?;
    let rounds = rounds(dataset, setup.shaping()?);
    if !args.json {
        print(&head(args, dataset))?;
    }
    let over = AtomicBool::new(false);
    let (told, exchanged) = thread::scope(|scope| {
        let exchange = scope.spawn(|| {
            let exchanged = exchange(&mut ranks, (args, &dataset.name), rounds, &over);
            over.store(true, Ordering::Relaxed);
            exchanged
        });
        let told = with_patience(&Target::at(daemon.socket.clone()), async |mut daemon, _| {
            Ok(steer(&mut daemon, args, &over).await)
        });
        over.store(true, Ordering::Relaxed);
        (told, exchange.join().unwrap_or(Err(DemoError::Panicked(mgcomp_transport::message::Rank(0)))))
    });
    exchanged?; // what ends this ends the rest
    told?
}

/// Lets the ranks exchange the first data set again and again.
fn exchange(
    ranks: &mut Processes,
    (args, name): (&Args, &str),
    rounds: u32,
    over: &AtomicBool,
) -> Result<(), DemoError> {
    while !over.load(Ordering::Relaxed) {
        let reports = ranks.exchange(0, Some(args.policy), rounds)?;
        if !reports.iter().all(|report| report.equal) {
            return Err(DemoError::NotEqual { dataset: name.to_owned() });
        }
    }
    Ok(())
}

/// Goes through the steps, and shows some moments of each in which anything was sent.
async fn steer(daemon: &mut Daemon, args: &Args, over: &AtomicBool) -> Result<(), CliError> {
    for (lambda_gbps, meaning) in STEPS {
        if lambda_gbps.is_some() {
            let set = Settings { lambda_gbps, ..Settings::default() };
            let request = UpdateSettingsRequest { set: Some(set), ..UpdateSettingsRequest::default() };
            daemon.update_settings(request).await.map_err(ClientError::from)?;
        }
        if !args.json {
            let set = lambda_gbps.map_or_else(String::new, |gbps| format!("mgcomp lambda set {gbps}: "));
            print(&format!("{set}{meaning}\n"))?;
        }
        let request = WatchRequest { interval_ms: MOMENT_MS, ..WatchRequest::default() };
        let mut updates = daemon.watch(request).await.map_err(ClientError::from)?.into_inner();
        let mut shown = 0;
        // The first is no interval, and in the second there may still be what was decided before.
        let mut skip = 2;
        while shown < MOMENTS && !over.load(Ordering::Relaxed) {
            let update = updates.message().await.map_err(ClientError::from)?.ok_or(ClientError::Ended)?;
            let sent = update.rows.iter().filter_map(|row| row.interval.as_ref());
            let sent = sent.filter(|sent| sent.raw_bytes > 0).take(1);
            for sent in sent.skip(usize::from(skip > 0)) {
                print(&moment(args, lambda_gbps, sent))?;
                shown += 1;
            }
            skip -= i32::from(skip > 0);
        }
    }
    Ok(())
}

fn head(args: &Args, dataset: &Dataset) -> String {
    format!(
        "{} ranks (processes over TCP) send {} to each other at {} Gb/s each; policy {}. A daemon of their own \
         steers them.\n\n{:>10}  {:>8}  carried by (share of raw bytes)\n",
        args.ranks, dataset.name, args.link_gbps, args.policy, "lambda", "traffic"
    )
}

/// What was sent in a moment.
fn moment(args: &Args, lambda_gbps: Option<f64>, sent: &Traffic) -> String {
    let traffic = sent.coded_bytes as f64 / sent.raw_bytes.max(1) as f64;
    if args.json {
        let algorithms = show::algorithms(&sent.algorithms);
        return format!(
            "{}\n",
            json!({ "lambda_gbps": lambda_gbps, "traffic": traffic, "algorithms": algorithms })
        );
    }
    let lambda = lambda_gbps.map_or_else(|| "–".to_owned(), |gbps| gbps.to_string());
    format!("{lambda:>10}  {traffic:>8.3}  {}\n", show::mix(sent))
}

/// A daemon inside this process; ends when dropped.
struct Embedded {
    socket: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    fn start(folder: &Path) -> Result<Self, DemoError> {
        let socket = folder.join("socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(DemoError::System)?;
        let listener = {
            let _inside = runtime.enter();
            Listener::open(Config::private(socket.clone(), folder.join("state")))?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("daemon".into()).spawn(move || {
            let done = runtime.block_on(mgcomp_daemon::run(listener, async { drop(stopped.await) }));
            if let Err(error) = done {
                tracing::error!(%error, "the daemon of the demo");
            }
        });
        Ok(Self { socket, stop: Some(stop), thread: Some(thread.map_err(DemoError::System)?) })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
