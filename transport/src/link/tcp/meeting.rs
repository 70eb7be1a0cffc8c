//! Meeting a lower rank: what was said to nobody is said again.
//!
//! That somebody takes a connection does not mean that it is the peer, or that it will stay: a process of an earlier job may still have
//! the port, and end; the peer may be so crowded by strangers that it drops a member's connection unheard. So a connection that ends
//! before a word has come is made again, until that has taken too long. The first byte from the other side decides: whatever it is, an answer, a
//! refusal or nonsense, asking again would not change it.

use std::future::{pending, poll_fn};
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::ReadBuf;
use tokio::sync::watch;

use super::connecting::{Peer, Search};
use super::connections::Connections;
use super::join::Join;
use super::lane::Connection;
use super::outbox::Queue;
use super::record::Record;
use crate::link::flow::Flow;
use crate::link::{LinkError, Position};
use crate::message::Secret;

/// The connections with a peer, all of which are up.
pub(super) struct Met {
    pub(super) connections: Vec<Connection>,
    /// What is to go over them.
    pub(super) queue: Queue,
    /// Length of the message that has gone over the first one, if one has.
    pub(super) said: Option<u64>,
}

/// Which connections are to be made.
pub(super) struct Plan {
    pub(super) secret: Secret,
    pub(super) own: Position,
    pub(super) connections: Connections,
}

/// What is heard of connections on which nothing was.
enum News {
    /// One of them has brought something.
    Word,
    /// This one has ended before it did.
    End(usize, String),
}

impl Peer {
    /// Makes all connections with it, each of which says which it is where there are several, and sends the first message of the
    /// `queue`, which is the hello. Over once the peer has said something; or this side has more to say, or has `closed`: then what happens to the
    /// connections is no longer for this to mend.
    pub(super) async fn meet(
        &self,
        plan: Plan,
        mut queue: Queue,
        mut closed: watch::Receiver<bool>,
        flow: &Flow,
    ) -> Result<Met, LinkError> {
        // If there is none, this side has closed, and whoever runs this knows.
        let Some(hello) = queue.recv().await else { return pending().await };
        let openings = plan.openings(&hello.record);
        let (mut search, mut connections) = (Search::of(self), Vec::with_capacity(openings.len()));
        for opening in &openings {
            connections.push(search.open(opening).await?);
        }
        loop {
            let news = tokio::select! {
                biased;
                () = is_left(&mut queue, &mut closed) => break,
                news = first_news(&connections) => news,
            };
            let News::End(place, text) = news else { break };
            search.ask_last(&connections[place].stream);
            let again = async {
                search.pause(text).await?;
                search.open(&openings[place]).await
            };
            connections[place] = tokio::select! {
                biased;
                // Of several connections this one ended first, but the peer has said why on another one.
                () = first_word(&connections) => break,
                again = again => again?,
            };
        }
        flow.queued.remove(hello.held_bytes());
        Ok(Met { connections, queue, said: Some(hello.len) })
    }
}

impl Plan {
    /// What each connection begins with.
    fn openings(&self, hello: &Record) -> Vec<Vec<Record>> {
        let joins = Join::new_set(self.secret, self.own, self.connections);
        let record = |join: Join| Record::of(&join.encode(), Bytes::new());
        let mut openings: Vec<Vec<_>> =
            joins.into_iter().map(|join| join.map(record).into_iter().collect()).collect();
        openings[0].push(hello.clone());
        openings
    }
}

/// Resolves when this side says more, or no more, without waiting for an answer.
async fn is_left(queue: &mut Queue, closed: &mut watch::Receiver<bool>) {
    let next = tokio::select! {
        biased;
        next = queue.recv() => next,
        _ = closed.wait_for(|&closed| closed) => None,
    };
    if let Some(next) = next {
        queue.put_back(next);
    }
}

async fn first_news(connections: &[Connection]) -> News {
    poll_fn(|context| {
        let mut end = None;
        for (place, connection) in connections.iter().enumerate() {
            let text = match look(connection, context) {
                Poll::Ready(Ok(true)) => return Poll::Ready(News::Word),
                Poll::Ready(Ok(false)) => "it closed the connection unheard".to_owned(),
                Poll::Ready(Err(error)) => error.to_string(),
                Poll::Pending => continue,
            };
            end.get_or_insert(News::End(place, text));
        }
        end.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

async fn first_word(connections: &[Connection]) {
    poll_fn(|context| {
        let is_word = |connection| matches!(look(connection, context), Poll::Ready(Ok(true)));
        // Each is asked, so that each can wake this.
        let words = connections.iter().map(is_word).filter(|&is_word| is_word).count();
        if words > 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Whether something has come, if not the end.
fn look(connection: &Connection, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
    let mut byte = [0];
    let peeked = connection.stream.poll_peek(context, &mut ReadBuf::new(&mut byte));
    peeked.map_ok(|len| len > 0)
}
