//! HTTP: which request goes to whom.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use mgcomp_proto::DESCRIPTOR_SET;
use mgcomp_proto::v1::control_server::ControlServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, watch};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;

use super::turns::OfUsers;
use super::{Caller, PATIENCE, Peer};
use crate::config::Config;
use crate::error::DaemonError;
use crate::node::Node;
use crate::service::Service;
use crate::{dashboard, metrics};

/// The longest request.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// The longest head of one.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// How long a client may take to read an answer over HTTP/1, which has one on each connection.
const READING: Duration = Duration::from_secs(60);
/// Calls at the same time on one connection.
const MAX_CALLS: u32 = 1024;
/// Calls of one user who may only look, on all connections together: answers that nobody reads are kept in memory, and a watcher
/// has a snapshot kept.
const MAX_LOOKS: u32 = 16;
/// Calls of all together who have shown no token where one is needed: they may ask for the daemon's health, and may never end
/// what they ask.
const MAX_UNKNOWN: usize = 64;
/// Connections of such a user that have not said yet what they want. Every process begins with one, so there are more of them.
pub(super) const MAX_STRANGERS: usize = 512;
/// Connections of such a user, and what of an answer is kept for each of its calls once it is on its way.
const MAX_LOOKERS: usize = 64;
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// How often a silent connection is asked whether it is still there, and how long it may take to say so.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// What those who may only look have under way.
#[derive(Debug)]
pub(crate) struct Looks {
    /// Connections that have not said yet what they want, and those whose pages are not taken yet.
    pub(super) strangers: OfUsers,
    connections: OfUsers,
    calls: OfUsers,
    /// Calls of those whom nobody knows.
    unknown: Arc<Semaphore>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            strangers: OfUsers::new(MAX_STRANGERS),
            connections: OfUsers::new(MAX_LOOKERS),
            calls: OfUsers::new(MAX_LOOKS as usize),
            unknown: Arc::new(Semaphore::new(MAX_UNKNOWN)),
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Route = Arc<dyn Fn(Request<Incoming>) -> Answer + Send + Sync>;

/// Who answers which path.
#[derive(Clone)]
pub(crate) struct Routes {
    node: Arc<Node>,
    /// gRPC services by name.
    services: Arc<[(&'static str, Route)]>,
    health: tonic_health::server::HealthReporter,
    /// Connections that are to end when the daemon stops; `None` = it does.
    connections: Arc<Mutex<Option<GracefulShutdown>>>,
}

impl Routes {
    pub(crate) async fn new(node: Arc<Node>) -> Result<Self, DaemonError> {
        let (health, health_server) = tonic_health::server::health_reporter();
        health.set_serving::<ControlServer<Service>>().await;
        let control =
            ControlServer::new(Service::new(node.clone())).max_decoding_message_size(MAX_REQUEST_BYTES);
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let services = [
            route(control),
            route(health_server.max_decoding_message_size(MAX_REQUEST_BYTES)),
            route(reflection().build_v1()?.max_decoding_message_size(MAX_REQUEST_BYTES)),
            route(reflection().build_v1alpha()?.max_decoding_message_size(MAX_REQUEST_BYTES)),
        ];
        let connections = Arc::new(Mutex::new(Some(GracefulShutdown::new())));
        Ok(Self { node, services: services.into(), health, connections })
    }

    /// Answers requests on a connection until it ends.
    pub(crate) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) {
        let routes = self.clone();
        // Nobody stays who asks for nothing, or has no token where one is needed.
        let deadline = watch::Sender::new(Some(Instant::now() + PATIENCE));
        let over = over(deadline.subscribe());
        let deadline = Arc::new(deadline);
        let service = service_fn(move |request| {
            let (routes, deadline) = (routes.clone(), deadline.clone());
            async move { Ok::<_, Infallible>(routes.answer(request, peer, &deadline).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
        builder.http1().max_buf_size(MAX_HEAD_BYTES);
        let (interval, timeout) = KEEP_ALIVE;
        let http2 = &mut builder.http2();
        http2.timer(TokioTimer::new()).keep_alive_interval(interval).keep_alive_timeout(timeout);
        let Some(caller) = peer.caller(&self.node.config()) else { return };
        let Ok(_place) = place(&self.node.looks.connections, peer, caller) else {
            let Peer::User(uid) = peer else { return }; // nobody else needs a place
            return self.node.closed[2]
                .closed(format_args!("user {uid} may only look, and has {MAX_LOOKERS}, which is the most"));
        };
        let calls = if caller.operator { MAX_CALLS } else { MAX_LOOKS };
        if !caller.operator {
            http2.max_send_buf_size(MAX_UNSENT_BYTES);
        }
        http2.max_concurrent_streams(calls).max_header_list_size(MAX_HEAD_BYTES as u32);
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let mut configs = self.node.configs();
        let is_shut_out = |config: &Arc<Config>| peer.caller(config).is_none();
        let shut_out = async {
            drop(configs.wait_for(is_shut_out).await);
            // Until then it is told so.
            tokio::time::sleep(PATIENCE).await;
        };
        let watched = {
            let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connections) = &*connections else { return };
            connections.watch(connection)
        };
        tokio::select! {
            ended = watched => if let Err(error) = ended {
                tracing::debug!(error, "a connection failed");
            },
            () = over => tracing::debug!("a connection was held for too long"),
            () = shut_out => tracing::debug!("a user may not be connected any more"),
        }
    }

    /// Lets calls that are under way finish; no new ones are taken.
    pub(crate) async fn drain(&self) {
        self.health.set_not_serving::<ControlServer<Service>>().await;
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connections) = connections {
            connections.shutdown().await;
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: Peer,
        deadline: &watch::Sender<Option<Instant>>,
    ) -> Response<Body> {
        let is_http2 = request.version() == Version::HTTP_2;
        if !is_http2 {
            deadline.send_replace(Some(Instant::now() + READING));
        }
        let path = request.uri().path().to_owned();
        let service = path.split('/').nth(1).unwrap_or_default();
        let is_health = service == "grpc.health.v1.Health";
        let is_grpc = request.headers().get(header::CONTENT_TYPE).is_some_and(is_grpc);
        let Some(caller) = peer.caller(&self.node.config()) else {
            // It came when it might; calls that it has under way end with the connection.
            return match is_grpc {
                true => Status::permission_denied(SHUT_OUT).into_http(),
                false => plain(StatusCode::FORBIDDEN, TEXT, SHUT_OUT),
            };
        };
        let only_asks = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some((kind, text)) = dashboard::file(&path).filter(|_| only_asks) {
            return plain(StatusCode::OK, kind, text);
        }
        let is_known = !caller.by_token || self.shows_token(request.headers());
        if !is_known && !is_health {
            return match is_grpc {
                true => Status::unauthenticated(NO_TOKEN).into_http(),
                false => plain(StatusCode::UNAUTHORIZED, TEXT, NO_TOKEN),
            };
        }
        if is_known && is_http2 {
            deadline.send_replace(None);
        }
        let place = match is_known {
            true => place(&self.node.looks.calls, peer, caller),
            false => self.node.looks.unknown.clone().try_acquire_owned().map(Some),
        };
        let Ok(place) = place else {
            let busy = if is_known { busy() } else { BUSY_WITH_UNKNOWN.to_owned() };
            return match is_grpc {
                true => Status::resource_exhausted(busy).into_http(),
                false => plain(StatusCode::TOO_MANY_REQUESTS, TEXT, busy),
            };
        };
        request.extensions_mut().insert(caller);
        let answer = match self.services.iter().find(|(name, _)| *name == service) {
            // Browsers speak HTTP/1 where there is no TLS, and may do so for a web site that nobody trusts.
            Some(_) if !is_http2 => {
                plain(StatusCode::HTTP_VERSION_NOT_SUPPORTED, TEXT, "gRPC takes HTTP/2\n")
            }
            Some((_, route)) => with_text(route(request).await, &path),
            None if is_grpc => Status::unimplemented(format!("there is no service {service:?}")).into_http(),
            None if only_asks => {
                let is_local = caller.by_token || dashboard::is_local(request.uri(), request.headers());
                self.tell(request.uri().clone(), is_local).await
            }
            None => plain(StatusCode::NOT_FOUND, TEXT, WHAT_IS_HERE),
        };
        match place {
            Some(place) => answer.map(|body| Body::new(Kept { body, piece: Bytes::new(), _place: place })),
            None => answer,
        }
    }

    /// What is no call. What browsers show is for those who name this machine as its user sees it.
    async fn tell(&self, uri: Uri, is_local: bool) -> Response<Body> {
        match uri.path() {
            "/metrics" if is_local => plain(StatusCode::OK, METRICS, metrics::page(&self.node).await),
            dashboard::DATA if is_local => {
                plain(StatusCode::OK, JSON, dashboard::data(&self.node, uri.query()).await)
            }
            "/metrics" | dashboard::DATA => plain(StatusCode::MISDIRECTED_REQUEST, TEXT, NOT_LOCAL),
            _ => plain(StatusCode::NOT_FOUND, TEXT, WHAT_IS_HERE),
        }
    }

    fn shows_token(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
        self.node.config().token.as_ref().zip(shown).is_some_and(|(token, shown)| token.is(shown))
    }
}

/// A place for one who may only look; others need none.
pub(super) fn place(
    places: &OfUsers,
    peer: Peer,
    caller: Caller,
) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
    match peer {
        Peer::User(uid) if !caller.operator => places.of(uid).try_acquire_owned().map(Some),
        _ => Ok(None),
    }
}

/// An answer that has a place among its user's until it is read, or given up. It goes out in pieces: a whole one would be taken at
/// once, whether anybody reads it or not, and its place be free.
struct Kept {
    body: Body,
    /// What is taken of it next.
    piece: Bytes,
    _place: OwnedSemaphorePermit,
}

impl hyper::body::Body for Kept {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.piece.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.piece = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let bytes = self.piece.len().min(MAX_UNSENT_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.piece.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, piece) = (self.body.size_hint(), self.piece.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + piece);
        }
        hint.set_lower(rest.lower() + piece);
        hint
    }
}

fn busy() -> String {
    format!(
        "this user has {MAX_LOOKS} calls under way, and who is no operator may have no more: end a watcher"
    )
}

const BUSY_WITH_UNKNOWN: &str = "too many who show no token ask for the daemon's health";
const SHUT_OUT: &str = "the daemon is not open to this user any more";
const NO_TOKEN: &str =
    "wrong or no token: send `authorization: Bearer` and the text of the daemon's token_file";

fn is_grpc(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/grpc")
}

const WHAT_IS_HERE: &str = "There is / for people, /metrics for Prometheus, and gRPC.\n";
const NOT_LOCAL: &str = "Name this machine by a number or as localhost.\n";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer that is no call's.
fn plain(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::new(text.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.extend(dashboard::RULES);
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Until the deadline that holds by then is over.
async fn over(mut deadline: watch::Receiver<Option<Instant>>) {
    loop {
        let until = *deadline.borrow_and_update();
        let passed = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = passed => return,
            changed = deadline.changed() => if changed.is_err() {
                return std::future::pending().await; // the connection ends by itself
            },
        }
    }
}

/// What a service does not know it answers with a status alone, which would tell nobody what to do.
fn with_text(answer: Response<Body>, path: &str) -> Response<Body> {
    let unimplemented = HeaderValue::from(tonic::Code::Unimplemented as i32);
    let is_bare = answer.headers().get(Status::GRPC_STATUS) == Some(&unimplemented)
        && !answer.headers().contains_key(Status::GRPC_MESSAGE);
    match is_bare {
        true => {
            let version = env!("CARGO_PKG_VERSION");
            Status::unimplemented(format!("this daemon, of version {version}, knows no call {path:?}"))
                .into_http()
        }
        false => answer,
    }
}

/// A gRPC service under its name.
fn route<S>(server: S) -> (&'static str, Route)
where
    S: tower_service::Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let answer = move |request| -> Answer {
        let answer = server.clone().call(request);
        Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
    };
    (S::NAME, Arc::new(answer))
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_has_its_place_until_its_last_piece_is_taken() {
        let places = OfUsers::new(1);
        let place = places.of(7).try_acquire_owned().unwrap();
        let text = vec![7; 3 * MAX_UNSENT_BYTES + 1];
        let body = Body::new(Full::new(Bytes::from(text.clone())));
        let mut kept = Body::new(Kept { body, piece: Bytes::new(), _place: place });
        assert_eq!(kept.size_hint().exact(), Some(text.len() as u64));
        let mut taken = Vec::new();
        while taken.len() < text.len() {
            assert!(!kept.is_end_stream() && places.of(7).try_acquire_owned().is_err());
            let piece = kept.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= MAX_UNSENT_BYTES);
            taken.extend_from_slice(&piece);
            assert_eq!(kept.size_hint().exact(), Some((text.len() - taken.len()) as u64));
        }
        assert!(taken == text && kept.is_end_stream());
        drop(kept);
        assert!(places.of(7).try_acquire_owned().is_ok());
    }
}
