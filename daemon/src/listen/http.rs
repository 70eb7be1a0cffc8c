//! HTTP: which request goes to whom.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use mgcomp_proto::DESCRIPTOR_SET;
use mgcomp_proto::v1::control_server::ControlServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;

use super::{Caller, PATIENCE};
use crate::error::DaemonError;
use crate::metrics;
use crate::node::Node;
use crate::service::Service;

/// The longest request.
const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Calls at the same time on one connection.
const MAX_CALLS: u32 = 1024;
/// How often a silent connection is asked whether it is still there, and how long it may take to say so.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

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
            route(health_server),
            route(reflection().build_v1()?),
            route(reflection().build_v1alpha()?),
        ];
        let connections = Arc::new(Mutex::new(Some(GracefulShutdown::new())));
        Ok(Self { node, services: services.into(), health, connections })
    }

    /// Answers requests on a connection until it ends.
    pub(crate) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        caller: Caller,
    ) {
        let routes = self.clone();
        let service = service_fn(move |request| {
            let routes = routes.clone();
            async move { Ok::<_, Infallible>(routes.answer(request, caller).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
        let (interval, timeout) = KEEP_ALIVE;
        let http2 = &mut builder.http2();
        http2.timer(TokioTimer::new()).keep_alive_interval(interval).keep_alive_timeout(timeout);
        http2.max_concurrent_streams(MAX_CALLS);
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let watched = {
            let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connections) = &*connections else { return };
            connections.watch(connection)
        };
        if let Err(error) = watched.await {
            tracing::debug!(error, "a connection failed");
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

    async fn answer(&self, mut request: Request<Incoming>, caller: Caller) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let service = path.split('/').nth(1).unwrap_or_default();
        let is_health = service == "grpc.health.v1.Health";
        let is_grpc = request.headers().get(header::CONTENT_TYPE).is_some_and(is_grpc);
        if caller.by_token && !is_health && !self.shows_token(request.headers()) {
            return match is_grpc {
                true => Status::unauthenticated(NO_TOKEN).into_http(),
                false => text(StatusCode::UNAUTHORIZED, NO_TOKEN.to_owned()),
            };
        }
        request.extensions_mut().insert(caller);
        match self.services.iter().find(|(name, _)| *name == service) {
            Some((_, route)) => route(request).await,
            None if is_grpc => Status::unimplemented(format!("there is no service {service:?}")).into_http(),
            None if path == "/metrics" && request.method() == Method::GET => {
                text(StatusCode::OK, metrics::page(&self.node).await)
            }
            None => text(StatusCode::NOT_FOUND, "There is /metrics here, and gRPC.\n".to_owned()),
        }
    }

    fn shows_token(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
        self.node.config().token.as_ref().zip(shown).is_some_and(|(token, shown)| token.is(shown))
    }
}

const NO_TOKEN: &str =
    "wrong or no token: send `authorization: Bearer` and the text of the daemon's token_file";

fn is_grpc(value: &HeaderValue) -> bool {
    value.as_bytes().starts_with(b"application/grpc")
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::from(text)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
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
