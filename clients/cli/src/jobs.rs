//! `mgcomp jobs`: what runs on the node.

use mgcomp_proto::v1::{
    Job, ListJobsRequest, ListPeersRequest, ListPeersResponse, ListStreamsRequest, ListStreamsResponse, Peer,
    Scope, Settings, Stream, Traffic,
};
use serde_json::{Value, json};

use crate::args;
use crate::client::{Target, with_daemon};
use crate::error::{CliError, note};
use crate::output::print;
use crate::show;

/// List the jobs of the node that use mgcomp, or the streams of one, or its peers.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// List the streams of this job
    #[arg(long, value_name = "ID", value_parser = args::job())]
    job: Option<String>,
    /// Only those to this rank, and no copies between devices
    #[arg(long, value_name = "RANK", requires = "job")]
    peer: Option<u32>,
    /// List the ranks that the job exchanges data with, and not each stream to them
    #[arg(long, requires = "job", conflicts_with = "peer")]
    peers: bool,
    /// Print one JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let text = with_daemon(&args.target, async |mut daemon| match &args.job {
        None => {
            let request = ListJobsRequest { with_processes: args.json };
            let jobs = daemon.list_jobs(request).await?.into_inner().jobs;
            Ok(if args.json { lines(jobs.iter().map(job_json)) } else { job_table(&jobs) })
        }
        Some(job) if args.peers => {
            let request = ListPeersRequest { job: job.clone() };
            let ListPeersResponse { peers, left_out } = daemon.list_peers(request).await?.into_inner();
            note_left_out(left_out, "they are not told");
            Ok(if args.json { lines(peers.iter().map(peer_json)) } else { peer_table(&peers) })
        }
        Some(job) => {
            let request = ListStreamsRequest { job: job.clone(), peer: args.peer };
            let ListStreamsResponse { streams, left_out } = daemon.list_streams(request).await?.into_inner();
            let advice = if args.peer.is_none() { "name a rank with --peer" } else { "they are not told" };
            note_left_out(left_out, advice);
            Ok(if args.json { lines(streams.iter().map(stream_json)) } else { stream_table(&streams) })
        }
    });
    let scope = Scope { job: args.job.clone().unwrap_or_default(), peer: args.peer, ..Scope::default() };
    print(&text.map_err(|error| error.about(&scope, false))?)
}

/// Says on standard error that the list is not all there is.
fn note_left_out(count: u32, what: &str) {
    if let Some(text) = show::left_out(count, what) {
        note(&text);
    }
}

fn lines(objects: impl Iterator<Item = Value>) -> String {
    objects.map(|object| format!("{object}\n")).collect()
}

fn job_json(job: &Job) -> Value {
    let process = |process: &mgcomp_proto::v1::Process| {
        json!({
            "pid": process.pid, "uid": process.uid, "rank": process.rank, "ranks": process.ranks,
            "program": process.program, "version": process.version, "started_unix_ns": process.started_unix_ns,
        })
    };
    json!({
        "job": job.id,
        "processes": job.process_list.iter().map(process).collect::<Vec<_>>(),
        "peers": job.peers,
        "streams": job.streams,
        "traffic": job.traffic.as_ref().map(show::traffic),
        "effective": job.effective.as_ref().map(show::settings),
    })
}

fn peer_json(peer: &Peer) -> Value {
    json!({
        "job": peer.job, "peer": peer.peer,
        "link_gbps": peer.link_gbps,
        "streams": peer.streams,
        "traffic": peer.traffic.as_ref().map(show::traffic),
        "effective": peer.effective.as_ref().map(show::settings),
    })
}

fn stream_json(stream: &Stream) -> Value {
    let is_of_peer = !stream.other && stream.to_device.is_none();
    json!({
        "job": stream.job, "pid": stream.pid, "rank": stream.rank,
        "peer": is_of_peer.then_some(stream.peer),
        "stream": is_of_peer.then_some(stream.stream),
        "from_device": stream.from_device,
        "to_device": stream.to_device,
        "link_gbps": stream.link_gbps,
        "link_latency_ns": stream.link_latency_ns,
        "traffic": stream.traffic.as_ref().map(show::traffic),
        "effective": stream.effective.as_ref().map(show::settings),
        "in_effect": stream.in_effect.as_ref().map(show::settings),
        "not_followed": stream.not_followed,
        "last_decision": stream.last_decision.as_ref().map(show::decision),
    })
}

fn job_table(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "no program that uses mgcomp runs here\n".to_owned();
    }
    let head = [&["job", "processes", "peers", "streams"][..], &TOTALS].concat();
    let row = |job: &Job| {
        let traffic = job.traffic.clone().unwrap_or_default();
        let counts = [job.processes, job.peers, job.streams].map(|count| count.to_string());
        [vec![job.id.clone()], counts.into(), totals(&traffic, job.effective.as_ref())].concat()
    };
    show::table(&head, 1, &jobs.iter().map(row).collect::<Vec<_>>())
}

fn peer_table(peers: &[Peer]) -> String {
    let head = [&["peer", "streams", "link Gb/s"][..], &TOTALS].concat();
    let row = |peer: &Peer| {
        let traffic = peer.traffic.clone().unwrap_or_default();
        let who = vec![peer.peer.to_string(), peer.streams.to_string(), link(peer.link_gbps)];
        [who, totals(&traffic, peer.effective.as_ref())].concat()
    };
    show::table(&head, 0, &peers.iter().map(row).collect::<Vec<_>>())
}

fn stream_table(streams: &[Stream]) -> String {
    let head = [&["rank", "peer", "stream", "link Gb/s"][..], &TOTALS, &["last decision"]].concat();
    let row = |stream: &Stream| {
        let traffic = stream.traffic.clone().unwrap_or_default();
        let own = (!stream.other).then_some((stream.peer, stream.stream)).unzip();
        let [peer, number] = show::ends(own, (stream.from_device, stream.to_device));
        let why = stream.last_decision.as_ref().map(|last| format!("{}: {}", last.sent, last.reason));
        let who = vec![stream.rank.to_string(), peer, number, link(stream.link_gbps)];
        let last = vec![why.unwrap_or_default()];
        [who, totals(&traffic, stream.in_effect.as_ref()), last].concat()
    };
    show::table(&head, 0, &streams.iter().map(row).collect::<Vec<_>>())
}

fn link(gbps: Option<f64>) -> String {
    gbps.map_or_else(|| "–".to_owned(), |gbps| format!("{gbps:.1}"))
}

/// The columns that all tables have.
const TOTALS: [&str; 7] = ["raw", "on links", "ratio", "saved", "lambda", "policy", "carried by"];

/// What is in them.
fn totals(traffic: &Traffic, settings: Option<&Settings>) -> Vec<String> {
    vec![
        show::bytes(traffic.raw_bytes),
        show::bytes(traffic.coded_bytes),
        show::ratio_text(traffic),
        show::time(traffic.saved_ns),
        show::lambda(settings),
        show::policy(settings),
        show::mix(traffic),
    ]
}
