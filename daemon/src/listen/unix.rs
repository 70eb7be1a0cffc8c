//! The Unix socket: hand-overs and HTTP.

use std::io;
use std::sync::Arc;

use mgcomp_transport::control::handover::GREETING;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;

use super::{BREATH, Caller, MAX_CONNECTIONS, PATIENCE, Routes, handover, take_all};
use crate::node::Node;
use crate::processes::Owner;

/// Takes connections, for ever.
pub(crate) async fn serve_unix(node: Arc<Node>, routes: Routes, listener: &UnixListener) {
    let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
    take_all(&node.closed[0], accept, |stream, permit| serve(node.clone(), routes.clone(), stream, permit))
        .await;
}

async fn serve(node: Arc<Node>, routes: Routes, stream: UnixStream, permit: OwnedSemaphorePermit) {
    let Some(credentials) = stream.peer_cred().ok() else { return };
    let (uid, pid) = (credentials.uid(), credentials.pid().unwrap_or(0));
    let Some(caller) = caller(&node, uid) else {
        tracing::debug!(uid, "a user who may not connect");
        return;
    };
    // Whatever others hold open, operators can still come in.
    if !caller.operator && permit.semaphore().available_permits() < MAX_CONNECTIONS / 2 {
        node.closed[1].closed("what is left is for operators");
        return;
    }
    match tokio::time::timeout(PATIENCE, is_handover(&stream)).await {
        Ok(Ok(true)) => {
            let pid = u32::try_from(pid).unwrap_or(0);
            handover::serve(&node, stream, Owner { uid, pid, is_operator: caller.operator }, permit).await;
        }
        Ok(Ok(false)) => routes.serve(stream, caller).await,
        Ok(Err(_)) | Err(_) => {} // gone, or nothing to say
    }
}

/// What a user may do; `None` = not even connect.
fn caller(node: &Node, uid: u32) -> Option<Caller> {
    let config = node.config();
    let own = rustix::process::getuid().as_raw();
    let operator = uid == 0 || uid == own || config.operators.contains(&uid);
    (operator || config.open_to_users).then_some(Caller { operator, by_token: false })
}

/// Whether the first bytes are those of a hand-over; they are left where they are, since a file comes with them.
async fn is_handover(stream: &UnixStream) -> io::Result<bool> {
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
