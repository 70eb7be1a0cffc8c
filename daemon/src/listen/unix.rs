//! The Unix socket: hand-overs and HTTP.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgcomp_transport::control::handover::GREETING;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::UnixListener;
use tokio::sync::OwnedSemaphorePermit;

use super::http::{MAX_STRANGERS, place};
use super::stream::Stream;
use super::{BREATH, MAX_CONNECTIONS, PATIENCE, Peer, Routes, handover, open_to, shut, take_all};
use crate::node::Node;
use crate::processes::Owner;

/// Connections that cannot be closed for now, at which nobody but root and the daemon's own user may add further ones.
const MAX_PARKED: usize = 1024;

/// Takes connections, for ever.
pub(crate) async fn serve_unix(node: Arc<Node>, routes: Routes, listener: &UnixListener) {
    let is_shut = AtomicBool::new(false);
    let accept = || accept(&node, listener, &is_shut);
    take_all(&node.closed[0], accept, |stream, permit| serve(node.clone(), routes.clone(), stream, permit))
        .await;
}

/// The next connection. Whose it is shows only then, so it is the socket's mode that holds back those who leave too much
/// behind that cannot be closed.
async fn accept(node: &Arc<Node>, listener: &UnixListener, is_shut: &AtomicBool) -> io::Result<Stream> {
    let mut parked = node.turns.parked.subscribe();
    loop {
        let is_full = *parked.borrow_and_update() >= MAX_PARKED;
        let was_full = is_shut.swap(is_full, Ordering::Relaxed);
        let moded = match (was_full, is_full) {
            (false, false) => Ok(()),
            (true, false) => open_to(&node.config()),
            // Each time, since a reload opens it.
            (_, true) => shut(&node.config()),
        };
        match moded {
            Err(error) => tracing::warn!(%error, "the socket stays open to those to whom it was"),
            Ok(()) if !was_full && is_full => {
                tracing::warn!("the socket is shut: too many connections cannot be closed");
            }
            Ok(()) => {}
        }
        tokio::select! {
            accepted = listener.accept() => return Stream::new(node.clone(), accepted?.0),
            _ = parked.wait_for(|parked| (*parked >= MAX_PARKED) != is_full) => {}
        }
    }
}

async fn serve(node: Arc<Node>, routes: Routes, stream: Stream, permit: OwnedSemaphorePermit) {
    let (uid, pid) = (stream.uid, stream.pid);
    let peer = Peer::User(uid);
    let Some(caller) = peer.caller(&node.config()) else {
        tracing::debug!(uid, "a user who may not connect");
        return;
    };
    // Whatever others hold open, operators can still come in; but see `MAX_PARKED`.
    if !caller.operator && permit.semaphore().available_permits() < MAX_CONNECTIONS / 2 {
        node.closed[1].closed("what is left is for operators");
        return;
    }
    // And whatever a user holds open without a word, others can.
    let Ok(place) = place(&node.looks.strangers, peer, caller) else {
        let why = format_args!(
            "user {uid} has {MAX_STRANGERS} that have not said what they want, or that nobody has looked at yet, which is the most"
        );
        return node.closed[2].closed(why);
    };
    match tokio::time::timeout(PATIENCE, is_handover(&stream)).await {
        Ok(Ok(true)) => {
            let owner = Owner { uid, pid, is_operator: caller.operator };
            handover::serve(&node, stream, owner, (permit, place)).await;
        }
        Ok(Ok(false)) => {
            drop(place);
            routes.serve(stream, peer).await;
        }
        Ok(Err(_)) | Err(_) => {} // gone, or nothing to say
    }
}

/// Whether the first bytes are those of a hand-over; they are left where they are, since a file comes with them.
async fn is_handover(stream: &Stream) -> io::Result<bool> {
    let stream = stream.inner();
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let mut first = [0; GREETING.len()];
        let peeked = stream.try_io(Interest::READABLE, || {
            Ok(rustix::net::recv(stream, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT)?.0)
        });
        match peeked {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) if first[..len] != GREETING[..len] => return Ok(false),
            Ok(len) if len == GREETING.len() => return Ok(true),
            Ok(_) if ready.is_read_closed() => return Err(io::ErrorKind::UnexpectedEof.into()),
            // Half a greeting: the rest cannot be waited for while this much is there to be read.
            Ok(_) => tokio::time::sleep(BREATH).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn a_user_who_says_nothing_shuts_out_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { open_to_users: true, ..crate::played::config(&folder) };
        let node = Arc::new(Node::open(config).unwrap());
        let routes = Routes::new(node.clone()).await.unwrap();
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connect = |uid| {
            let (here, there) = UnixStream::pair().unwrap();
            let mut stream = Stream::new(node.clone(), there).unwrap();
            stream.uid = uid;
            let permit = room.clone().try_acquire_owned().unwrap();
            tokio::spawn(serve(node.clone(), routes.clone(), stream, permit));
            here
        };
        let is_answered = async |mut stream: UnixStream| {
            let mut answer = Vec::new();
            // Where it is closed at once, neither of these need succeed.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
            let _ = stream.read_to_end(&mut answer).await;
            answer.starts_with(b"HTTP/1.1 200 ")
        };
        // All places of the user but one.
        let places = node.looks.strangers.of(7).try_acquire_many_owned(MAX_STRANGERS as u32 - 1);
        assert!(is_answered(connect(7)).await && places.is_ok());
        assert!(is_answered(connect(7)).await, "whoever has said what it wants leaves its place");
        let _silent = connect(7);
        assert!(!is_answered(connect(7)).await);
        assert!(is_answered(connect(8)).await);
        // Operators need no places.
        assert!(is_answered(connect(0)).await);
    }
}
