//! TCP, with TLS where that is configured.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{BREATH, Caller, MAX_CONNECTIONS, PATIENCE, Routes};
use crate::node::Node;

/// What whoever speaks plainly to a TLS port is told.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nThis port speaks TLS: use https.\n";
/// The first byte of TLS.
const HANDSHAKE: u8 = 0x16;

/// Takes connections, for ever.
pub(crate) async fn serve_tcp(node: Arc<Node>, routes: Routes, listener: &TcpListener) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no more connections for now");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let (node, routes) = (node.clone(), routes.clone());
        tokio::spawn(async move {
            if let Err(error) = serve(&node, &routes, stream).await {
                tracing::debug!(%error, "a connection failed");
            }
            drop(permit);
        });
    }
}

async fn serve(node: &Node, routes: &Routes, mut stream: TcpStream) -> io::Result<()> {
    let caller = Caller { operator: true, by_token: true };
    stream.set_nodelay(true)?;
    let first = tokio::time::timeout(PATIENCE, first_byte(&stream)).await??;
    match node.config().tls.clone() {
        None => routes.serve(stream, caller).await,
        Some(_) if first != HANDSHAKE => stream.write_all(PLAIN).await?,
        Some(tls) => {
            let stream = tokio::time::timeout(PATIENCE, TlsAcceptor::from(tls).accept(stream)).await??;
            routes.serve(stream, caller).await;
        }
    }
    Ok(())
}

/// Looked at and left where it is.
async fn first_byte(stream: &TcpStream) -> io::Result<u8> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0]),
    }
}
