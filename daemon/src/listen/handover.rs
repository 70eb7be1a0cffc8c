//! A process that hands over its page, for as long as it lives.

use std::io;
use std::sync::Arc;

use mgcomp_transport::control::handover::{OfferError, answer, take};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use crate::node::Node;
use crate::processes::Process;

/// Takes in the page and keeps its settings right until the process is gone.
pub(super) async fn serve(node: &Arc<Node>, mut stream: UnixStream, who: (u32, u32)) {
    let process = match adopt(node, &stream, who).await {
        Ok(process) => process,
        Err(reason) => {
            node.processes.count_refused();
            tracing::warn!(uid = who.0, pid = who.1, reason, "a control page is refused");
            let _ = stream.write_all(&answer(Some(&reason))).await;
            return;
        }
    };
    let who = process.who.clone();
    tracing::info!(job = who.identity.job, pid = who.pid, program = who.identity.program, "a process came");
    if stream.write_all(&answer(None)).await.is_ok() {
        let mut stopping = node.stopping();
        tokio::select! {
            () = hear(node, &process, &mut stream) => {}
            () = process.gone.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }
    node.processes.remove(who.id);
    tracing::info!(job = who.identity.job, pid = who.pid, "a process is gone");
}

async fn adopt(node: &Node, stream: &UnixStream, who: (u32, u32)) -> Result<Arc<Process>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let file = stream
        .async_io(Interest::READABLE, || match take(stream) {
            Err(OfferError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            other => Ok(other),
        })
        .await
        .map_err(|error| text(&error))?
        .map_err(|error| text(&error))?;
    let most = node.config().max_processes;
    let adopted = node.processes.adopt(file, who, most, &node.store.scopes());
    let process = adopted.map_err(|error| text(&error))?;
    // Settings may have changed before the process was in the list.
    process.apply(&node.store.scopes());
    Ok(process)
}

/// Until the process closes the connection: every byte tells of new slots.
async fn hear(node: &Node, process: &Process, stream: &mut UnixStream) {
    let mut bytes = [0; 256];
    while matches!(stream.read(&mut bytes).await, Ok(1..)) {
        process.apply(&node.store.scopes());
    }
}
