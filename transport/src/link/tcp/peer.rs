//! What goes on with one peer, over one connection or several.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::inbox::Inbox;
use super::lane::{LaneTask, Room};
use super::meeting::Met;
use super::outbox::{Outbox, lock};
use super::turn::Place;
use crate::link::flow::Flow;
use crate::link::{LinkError, LinkEvent, LinkSink};
use crate::message::Rank;
use crate::pool::Pool;

/// Serves one peer from the first attempt to connect to the end.
pub(super) struct PeerTask {
    pub(super) peer: Rank,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    pub(super) inbox: Arc<Inbox>,
    /// Turns true when this side closes.
    pub(super) closed: watch::Receiver<bool>,
    pub(super) flow: Arc<Flow>,
    /// For what comes, from any peer.
    pub(super) pool: Pool,
    pub(super) record_limit: u64,
    pub(super) sink: LinkSink,
}

impl PeerTask {
    /// Waits for the connections that `connecting` makes and serves them until either end closes them.
    pub(super) async fn run(self, connecting: impl Future<Output = Result<Met, LinkError>>) {
        let (peer, sink, mut closed) = (self.peer, self.sink.clone(), self.closed.clone());
        let (outbox, flow) = (self.outbox.clone(), self.flow.clone());
        let met = tokio::select! {
            biased; // to a peer that there are connections with, what this side says last is still sent
            met = connecting => Some(met),
            _ = closed.wait_for(|&closed| closed) => None,
        };
        let end = match met {
            Some(Ok(met)) => self.serve(met).await,
            Some(Err(error)) => Some(LinkEvent::Closed { peer, error }),
            None => None,
        };
        lock(&outbox).abandon(&flow);
        if let Some(event) = end {
            sink(event);
        }
    }

    /// Serves all connections until the end; returns what is to be reported of it.
    async fn serve(self, Met { connections, queue, said }: Met) -> Option<LinkEvent> {
        let queues = lock(&self.outbox).spread(queue, said, connections.len(), &self.flow);
        let room = Room::new();
        let mut lanes = JoinSet::new();
        for ((place, connection), queue) in Place::all(connections.len()).zip(connections).zip(queues) {
            let lane = LaneTask {
                peer: self.peer,
                place,
                queue,
                outbox: self.outbox.clone(),
                inbox: self.inbox.clone(),
                closed: self.closed.clone(),
                flow: self.flow.clone(),
                room: room.clone(),
                pool: self.pool.clone(),
                record_limit: self.record_limit,
                sink: self.sink.clone(),
            };
            lanes.spawn(lane.run(connection));
        }
        while let Some(ended) = lanes.join_next().await {
            // None of them is of use without the others.
            if let Ok(Some(event)) = ended {
                lanes.shutdown().await;
                return Some(event);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Sent;
    use crate::link::tcp::outbox::Push;
    use crate::link::tcp::outbox::tests::message;

    #[test]
    fn nothing_is_left_to_write_to_a_peer_that_is_given_up_before_it_has_come() {
        let (outbox, queue) = Outbox::new();
        let (outbox, flow) = (Arc::new(Mutex::new(outbox)), Arc::new(Flow::new()));
        assert_eq!(lock(&outbox).send(message(0), Push::Now, 0, &flow), Some(Sent::Queued));
        assert!(flow.queued.any());
        let (close, closed) = watch::channel(false);
        let task = PeerTask {
            peer: Rank(1),
            outbox: outbox.clone(),
            inbox: Arc::default(),
            closed,
            flow: flow.clone(),
            pool: Pool::default(),
            record_limit: 1000,
            sink: Arc::new(|_| panic!("nothing is to be said of it")),
        };
        close.send_replace(true);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let connecting = async move {
            let _queue = queue;
            std::future::pending().await
        };
        runtime.block_on(task.run(connecting));
        assert!(!flow.queued.any() && !lock(&outbox).is_open());
    }
}
