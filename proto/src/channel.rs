//! One HTTP/2 connection as a gRPC channel.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tower_service::Service;

/// Sends requests over one connection.
#[derive(Clone, Debug)]
pub struct Channel {
    sender: SendRequest<Body>,
    /// What each request shows.
    authorization: Option<HeaderValue>,
}

impl Channel {
    /// Speaks HTTP/2 on a stream. Each request shows `authorization`, if there is any. The connection lives until all
    /// clones of the channel are dropped, inside the runtime that this is called in.
    ///
    /// # Errors
    /// What HTTP/2 says if the other side does not speak it.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authorization: Option<HeaderValue>,
    ) -> Result<Self, hyper::Error> {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // What goes wrong with it is told to the calls that are under way.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, authorization })
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
        Box::pin(self.sender.send_request(request))
    }
}
