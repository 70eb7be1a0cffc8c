//! One HTTP/2 connection as a gRPC channel.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether any of them was answered.
    answered: Arc<AtomicBool>,
}

impl Channel {
    /// Speaks HTTP/2 on a stream. Each request shows `authorization`, if there is any. The connection lives until all
    /// clones of the channel are dropped, inside the runtime that this is called in.
    ///
    /// The other side is not waited for: one that does not speak HTTP/2 shows in the first request, and
    /// [`has_answered`](Self::has_answered) says so.
    ///
    /// # Errors
    /// What HTTP/2 says if nothing can be sent.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authorization: Option<HeaderValue>,
    ) -> Result<Self, hyper::Error> {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // What goes wrong with it is told to the calls that are under way.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, authorization, answered: Arc::default() })
    }

    /// Whether the other side has answered any request yet.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
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
        let (answer, answered) = (self.sender.send_request(request), self.answered.clone());
        Box::pin(async move {
            let answer = answer.await?;
            answered.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }
}
