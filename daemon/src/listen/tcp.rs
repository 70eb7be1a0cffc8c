//! TCP, with TLS where that is configured.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{PATIENCE, Peer, Routes, take_all};
use crate::node::Node;

/// What whoever speaks plainly to a TLS port is told.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nThis port speaks TLS: use https.\n";
/// What is read of what it says.
const MOST_UNREAD_BYTES: u64 = 64 << 10;
/// The first byte of TLS.
const HANDSHAKE: u8 = 0x16;

/// Takes connections, for ever.
pub(crate) async fn serve_tcp(node: Arc<Node>, routes: Routes, listener: &TcpListener) {
    let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
    take_all(&node.closed[0], accept, |stream, permit| {
        let (node, routes) = (node.clone(), routes.clone());
        async move {
            if let Err(error) = serve(&node, &routes, stream).await {
                tracing::debug!(%error, "a connection failed");
            }
            drop(permit);
        }
    })
    .await;
}

async fn serve(node: &Node, routes: &Routes, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let first = tokio::time::timeout(PATIENCE, first_byte(&stream)).await??;
    match node.config().tls.clone() {
        None => routes.serve(stream, Peer::TokenHolder).await,
        Some(_) if first != HANDSHAKE => {
            stream.write_all(PLAIN).await?;
            stream.shutdown().await?;
            // Closed with something unread, the connection would be reset and the answer lost.
            let mut unread = stream.take(MOST_UNREAD_BYTES);
            tokio::time::timeout(PATIENCE, tokio::io::copy(&mut unread, &mut tokio::io::sink())).await??;
        }
        Some(tls) => {
            let stream = tokio::time::timeout(PATIENCE, TlsAcceptor::from(tls).accept(stream)).await??;
            routes.serve(stream, Peer::TokenHolder).await;
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
