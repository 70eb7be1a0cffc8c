//! Jobs, their peers and their streams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgcomp_proto::v1::{Job, ListJobsResponse, ListPeersResponse, ListStreamsResponse, Peer, Stream};
use mgcomp_transport::control::SlotKind;
use tonic::Status;

use super::{absent, convert};
use crate::node::Node;
use crate::settings::Scope;
use crate::snapshot::{ProcessView, Totals};

/// How old an answer may be: what is asked at the same moment is looked up once.
const AGE: Duration = Duration::from_millis(5);

pub(super) async fn jobs(node: &Node, with_processes: bool) -> ListJobsResponse {
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    let scopes = node.store.scopes();
    let job = |(id, processes): (&str, Vec<&ProcessView>)| {
        let mut totals = Totals::default();
        let (mut peers, mut streams) = (BTreeSet::new(), 0);
        for (slot, _) in processes.iter().flat_map(|process| process.slots(None)) {
            totals.add(slot, None);
            streams += u32::from(slot.kind == SlotKind::Sent);
            if slot.kind.has_peer() {
                peers.insert(slot.peer);
            }
        }
        let list = if with_processes { &processes[..] } else { &[] };
        let scope = Scope { job: Some(id.to_owned()), ..Scope::default() };
        Job {
            id: id.to_owned(),
            processes: processes.len() as u32,
            peers: peers.len() as u32,
            streams,
            traffic: Some(convert::traffic(&totals)),
            effective: Some(convert::settings(&scopes.effective(&scope))),
            process_list: list.iter().map(|process| convert::process(&process.who)).collect(),
        }
    };
    ListJobsResponse { jobs: snapshot.jobs().into_iter().map(job).collect() }
}

pub(super) async fn peers(node: &Node, job: &str) -> Result<ListPeersResponse, Status> {
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    let processes = snapshot.jobs().remove(job).ok_or_else(|| no_job(job))?;
    let mut peers = BTreeMap::<u32, (u32, Totals)>::new();
    for (slot, _) in processes.iter().flat_map(|process| process.slots(None)) {
        if slot.kind.has_peer() {
            let (streams, totals) = peers.entry(slot.peer).or_default();
            *streams += u32::from(slot.kind == SlotKind::Sent);
            totals.add(slot, None);
        }
    }
    let settings = node.store.scopes().of_job(job);
    let peer = |(peer, (streams, totals)): (u32, (u32, Totals))| Peer {
        job: job.to_owned(),
        peer,
        link_gbps: totals.link_gbps(),
        streams,
        traffic: Some(convert::traffic(&totals)),
        effective: Some(convert::settings(&settings.peer(peer))),
    };
    Ok(ListPeersResponse { peers: peers.into_iter().map(peer).collect() })
}

pub(super) async fn streams(
    node: &Node,
    job: &str,
    peer: Option<u32>,
) -> Result<ListStreamsResponse, Status> {
    let snapshot = node.snapshots.get(&node.processes, AGE).await;
    let processes = snapshot.jobs().remove(job).ok_or_else(|| no_job(job))?;
    let asked = Scope { job: Some(job.to_owned()), peer, ..Scope::default() };
    if peer.is_some() && !node.processes.has(&asked) {
        return Err(absent(&asked));
    }
    let settings = node.store.scopes().of_job(job);
    let mut streams = Vec::new();
    for process in processes {
        let sent = process.slots(None).filter(|(slot, _)| slot.kind != SlotKind::Received);
        let wanted = |slot: &mgcomp_transport::control::SlotView| {
            peer.is_none_or(|peer| slot.kind == SlotKind::Sent && slot.peer == peer)
        };
        for (slot, _) in sent.filter(|(slot, _)| wanted(slot)) {
            let mut totals = Totals::default();
            totals.add(slot, None);
            let own = slot.kind == SlotKind::Sent;
            let effective = if own { settings.stream(slot.peer, slot.stream) } else { settings.job };
            let other = slot.kind == SlotKind::Other;
            streams.push(Stream {
                job: job.to_owned(),
                pid: process.who.pid,
                rank: convert::rank(slot).or(process.who.identity.rank).unwrap_or_default(),
                peer: if own { slot.peer } else { 0 },
                stream: if own { slot.stream } else { 0 },
                other,
                link_gbps: slot.link_gbps,
                link_latency_ns: slot.link_latency_ns,
                traffic: Some(convert::traffic(&totals)),
                effective: Some(convert::settings(&effective)),
                in_effect: Some(convert::settings(&slot.in_effect)),
                not_followed: slot.not_followed,
                last_decision: slot.decision.as_ref().map(convert::decision),
                from_device: slot.devices().map(|[from, _]| from),
                to_device: slot.devices().map(|[_, to]| to),
            });
        }
    }
    streams.sort_by_key(|stream| {
        let devices = (stream.from_device, stream.to_device);
        (stream.other, devices, stream.rank, stream.peer, stream.stream, stream.pid)
    });
    Ok(ListStreamsResponse { streams })
}

fn no_job(job: &str) -> Status {
    absent(&Scope { job: Some(job.to_owned()), ..Scope::default() })
}
