//! A process that hands over its page, for as long as it lives.
//!
//! What is handed over may be any file. To close one may take for ever, if its file system is somebody's program or if it is a
//! socket that waits for its other end. So offers are looked at on threads that may be held up, a few for each user.

use std::sync::Arc;
use std::{fmt, io};

use mgcomp_transport::control::Page;
use mgcomp_transport::control::handover::{answer, take};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;

use super::PATIENCE;
use super::stream::Stream;
use crate::node::{GATHER, Node};
use crate::processes::{Owner, Process};

/// Takes in the page and keeps its settings right until the process is gone. It is one of the connections that `places`
/// stand for until its page is taken: processes are counted by themselves.
pub(super) async fn serve(
    node: &Arc<Node>,
    stream: Stream,
    owner: Owner,
    places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
) {
    let (mut stream, adopted) = match look(node, stream, owner).await {
        Ok(looked_at) => looked_at,
        Err(error) => return tracing::warn!(%error, "a connection is lost"),
    };
    drop(places);
    let process = match adopted {
        Ok(process) => process,
        Err(reason) => {
            node.processes.count_refused();
            match owner.is_operator {
                true => tracing::warn!(uid = owner.uid, pid = owner.pid, reason, "a control page is refused"),
                // Nobody fills the log who may offer pages without end.
                false => node.refused.said(|refused| {
                    tracing::warn!(
                        refused,
                        uid = owner.uid,
                        pid = owner.pid,
                        reason,
                        "control pages are refused"
                    );
                }),
            }
            let _ = stream.write_all(&answer(Some(&reason))).await;
            return;
        }
    };
    let who = process.who.clone();
    let (job, pid, program) = (&who.identity.job, who.pid, &who.identity.program);
    match who.is_operator {
        true => tracing::info!(job, pid, program, "a process came"),
        false => tracing::debug!(job, pid, uid = who.uid, program, "a process came"),
    }
    if stream.write_all(&answer(None)).await.is_ok() {
        let mut stopping = node.stopping();
        tokio::select! {
            () = hear(node, &process, &mut stream) => {}
            () = process.gone.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
    node.processes.remove(&process);
    match who.is_operator {
        true => tracing::info!(job, pid, "a process is gone"),
        false => tracing::debug!(job, pid, uid = who.uid, "a process is gone"),
    }
}

type Adopted = Result<Arc<Process>, String>;

/// Takes the offer, and the page that comes with it or nothing.
async fn look(node: &Arc<Node>, stream: Stream, owner: Owner) -> io::Result<(Stream, Adopted)> {
    let Ok(Ok(turn)) = tokio::time::timeout(PATIENCE, node.turns.take(owner.uid, owner.is_operator)).await
    else {
        return Ok((
            stream,
            Err("earlier offers of this user, or of many others, are looked at still".to_owned()),
        ));
    };
    let node = node.clone();
    let work = tokio::task::spawn_blocking(move || {
        let adopted = adopt(&node, &stream, owner);
        drop(turn);
        (stream, adopted)
    });
    Ok(work.await?)
}

/// May take for ever.
fn adopt(node: &Node, stream: &Stream, owner: Owner) -> Adopted {
    let text = |error: &dyn fmt::Display| error.to_string();
    let file = take(stream).map_err(|error| text(&error))?;
    // Nobody waits for anything here meanwhile: what is no page is closed.
    let page = Page::adopt(file).map_err(|error| text(&error))?;
    let adopted = node.processes.adopt(page, owner, &node.config(), &node.store.scopes());
    let process = adopted.map_err(|error| text(&error))?;
    // Settings may have changed before the process was in the list.
    process.apply(&node.store.scopes());
    Ok(process)
}

/// Until the process closes the connection: every byte tells of new slots. The first is gone by at once; those that come soon
/// after it are gathered, so that nobody keeps the daemon at this by sending more of them.
async fn hear(node: &Node, process: &Process, stream: &mut Stream) {
    let mut bytes = [0; 256];
    while matches!(stream.read(&mut bytes).await, Ok(1..)) {
        node.processes.look_again(process);
        process.apply(&node.store.scopes());
        tokio::time::sleep(GATHER).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mgcomp_transport::control::handover::NEW_SLOTS;
    use tokio::net::UnixStream;

    use super::*;
    use crate::played::Played;

    #[tokio::test]
    async fn new_slots_are_gathered() {
        const ROUNDS: u32 = 11;
        let folder = tempfile::tempdir().unwrap();
        let node = Arc::new(Node::open(crate::played::config(&folder)).unwrap());
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(node.clone(), there).unwrap();
        let mut played = Played::new("a", 0);
        let owner = Owner { uid: 7, pid: 0, is_operator: false };
        let adopted = node.processes.adopt(played.page(), owner, &node.config(), &node.store.scopes());
        let process = adopted.unwrap();
        let tell = async {
            let began = Instant::now();
            for round in 1..=ROUNDS {
                played.sends(round, 1);
                here.write_all(&[NEW_SLOTS]).await.unwrap();
                while process.used() < round as usize {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            began.elapsed()
        };
        tokio::select! {
            () = hear(&node, &process, &mut stream) => panic!("the process is there still"),
            took = tell => assert!(took >= (ROUNDS - 1) * GATHER, "{took:?}"),
        }
    }
}
