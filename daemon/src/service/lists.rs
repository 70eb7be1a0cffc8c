//! Jobs, their peers and their streams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgcomp_proto::v1::{Job, ListJobsResponse, ListPeersResponse, ListStreamsResponse, Peer, Stream};
use mgcomp_transport::control::{SlotKind, SlotView};
use tonic::Status;

use super::{absent, convert};
use crate::node::Node;
use crate::processes::Who;
use crate::rows::{MOST_ROWS, Room};
use crate::settings::{JobSettings, Scope};
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
    // Whose slots they are, how many streams there are, and what all count.
    let mut peers = BTreeMap::<u32, (BTreeSet<u32>, u32, Totals)>::new();
    for process in &processes {
        for (slot, _) in process.slots(None).filter(|(slot, _)| slot.kind.has_peer()) {
            let (owners, streams, totals) = peers.entry(slot.peer).or_default();
            owners.insert(process.who.uid);
            *streams += u32::from(slot.kind == SlotKind::Sent);
            totals.add(slot, None);
        }
    }
    let all = peers.len();
    let mut room = Room::among(peers.values().map(|(owners, ..)| owners.iter().copied()), MOST_ROWS);
    peers.retain(|_, (owners, ..)| room.take(owners.iter().copied()));
    let left_out = (all - peers.len()) as u32;
    let settings = node.store.scopes().of_job(job);
    let peer = |(peer, (_, streams, totals)): (u32, (BTreeSet<u32>, u32, Totals))| Peer {
        job: job.to_owned(),
        peer,
        link_gbps: totals.link_gbps(),
        streams,
        traffic: Some(convert::traffic(&totals)),
        effective: Some(convert::settings(&settings.peer(peer))),
    };
    Ok(ListPeersResponse { peers: peers.into_iter().map(peer).collect(), left_out })
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
    let wanted = |slot: &&SlotView| {
        slot.kind != SlotKind::Received
            && peer.is_none_or(|peer| slot.kind == SlotKind::Sent && slot.peer == peer)
    };
    let mut found = Vec::new();
    for process in processes {
        let slots = process.slots(None).map(|(slot, _)| slot).filter(wanted);
        found.extend(slots.map(|slot| Found { who: &process.who, slot }));
    }
    found.sort_by_key(Found::place);
    let all = found.len();
    let mut room = Room::among(found.iter().map(|found| [found.who.uid]), MOST_ROWS);
    found.retain(|found| room.take([found.who.uid]));
    let left_out = (all - found.len()) as u32;
    let settings = node.store.scopes().of_job(job);
    let streams = found.iter().map(|found| found.stream(job, &settings)).collect();
    Ok(ListStreamsResponse { streams, left_out })
}

/// A slot that stands for a stream, and whose it is.
struct Found<'a> {
    who: &'a Who,
    slot: &'a SlotView,
}

impl Found<'_> {
    /// Rank on this side; 0 where it is not known.
    fn rank(&self) -> u32 {
        convert::rank(self.slot).or(self.who.identity.rank).unwrap_or_default()
    }

    /// The peer and the number of the stream; 0 where there are none.
    fn ends(&self) -> (u32, u32) {
        if self.slot.kind == SlotKind::Sent { (self.slot.peer, self.slot.stream) } else { (0, 0) }
    }

    /// What streams are sorted by.
    fn place(&self) -> impl Ord + use<> {
        let other = self.slot.kind == SlotKind::Other;
        (other, self.slot.devices(), self.rank(), self.ends(), self.who.pid)
    }

    fn stream(&self, job: &str, settings: &JobSettings) -> Stream {
        let Self { who, slot } = self;
        let mut totals = Totals::default();
        totals.add(slot, None);
        let own = slot.kind == SlotKind::Sent;
        let effective = if own { settings.stream(slot.peer, slot.stream) } else { settings.job };
        let (peer, stream) = self.ends();
        Stream {
            job: job.to_owned(),
            pid: who.pid,
            rank: self.rank(),
            peer,
            stream,
            other: slot.kind == SlotKind::Other,
            link_gbps: slot.link_gbps,
            link_latency_ns: slot.link_latency_ns,
            traffic: Some(convert::traffic(&totals)),
            effective: Some(convert::settings(&effective)),
            in_effect: Some(convert::settings(&slot.in_effect)),
            not_followed: slot.not_followed,
            last_decision: slot.decision.as_ref().map(convert::decision),
            from_device: slot.devices().map(|[from, _]| from),
            to_device: slot.devices().map(|[_, to]| to),
        }
    }
}

fn no_job(job: &str) -> Status {
    absent(&Scope { job: Some(job.to_owned()), ..Scope::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::{Played, config};
    use crate::processes::Owner;
    use crate::settings::Scopes;

    #[tokio::test]
    async fn lists_are_not_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::open(config(&folder)).unwrap();
        let owner = Owner { uid: 7, pid: 0, is_operator: true };
        for first in [4000, 3000, 2000, 1000, 0] {
            let mut played = Played::new("a", 0);
            for peer in first..first + 1000 {
                played.sends(peer, 1);
            }
            node.processes.adopt(played.page(), owner, &config(&folder), &Scopes::default()).unwrap();
        }
        let told = streams(&node, "a", None).await.unwrap();
        assert_eq!((told.streams.len(), told.left_out), (MOST_ROWS, 904));
        // Those that come first, whichever process has them.
        assert!(told.streams.iter().map(|stream| stream.peer).eq(0..MOST_ROWS as u32));
        let last = streams(&node, "a", Some(4999)).await.unwrap();
        assert_eq!((last.streams.len(), last.left_out), (1, 0));
        let told = peers(&node, "a").await.unwrap();
        assert_eq!((told.peers.len(), told.left_out), (MOST_ROWS, 904));
        // Nor does one user keep the rows of another from being told, who comes later and last.
        let mut played = Played::new("a", 0);
        (6000..6003).for_each(|peer| _ = played.sends(peer, 1));
        let owner = Owner { uid: 8, pid: 0, is_operator: false };
        node.processes.adopt(played.page(), owner, &config(&folder), &Scopes::default()).unwrap();
        tokio::time::sleep(2 * AGE).await;
        let told = streams(&node, "a", None).await.unwrap();
        assert!(told.streams.iter().rev().take(3).map(|stream| stream.peer).eq([6002, 6001, 6000]));
        assert_eq!((told.streams.len(), told.left_out), (MOST_ROWS, 907));
        let told = peers(&node, "a").await.unwrap();
        assert_eq!(
            (told.peers.last().unwrap().peer, told.peers.len(), told.left_out),
            (6002, MOST_ROWS, 907)
        );
    }
}
