//! The service: one file for each kind of call. What goes wrong becomes a status here and nowhere else.

mod calibrate;
pub(crate) mod convert;
mod histogram;
mod lists;
mod steer;

use std::pin::Pin;
use std::sync::Arc;

use mgcomp_proto::v1::control_server::Control;
use mgcomp_proto::v1::{
    CalibrateRequest, CalibrateResponse, DaemonInfo, GetDaemonInfoRequest, GetHistogramRequest,
    GetHistogramResponse, GetSettingsRequest, ListJobsRequest, ListJobsResponse, ListPeersRequest,
    ListPeersResponse, ListSettingsRequest, ListSettingsResponse, ListStreamsRequest, ListStreamsResponse,
    ScopedSettings, UpdateSettingsRequest, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::listen::Caller;
use crate::node::Node;
use crate::settings::{ChangeError, Scope};
use crate::watch::Subject;

/// Answers calls.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    node: Arc<Node>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node }
    }
}

#[tonic::async_trait]
impl Control for Service {
    async fn get_daemon_info(&self, _: Request<GetDaemonInfoRequest>) -> Answer<DaemonInfo> {
        Ok(Response::new(self.node.info()))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Answer<ListJobsResponse> {
        Ok(Response::new(lists::jobs(&self.node, request.get_ref().with_processes).await))
    }

    async fn list_peers(&self, request: Request<ListPeersRequest>) -> Answer<ListPeersResponse> {
        lists::peers(&self.node, &request.get_ref().job).await.map(Response::new)
    }

    async fn list_streams(&self, request: Request<ListStreamsRequest>) -> Answer<ListStreamsResponse> {
        let ListStreamsRequest { job, peer } = request.get_ref();
        lists::streams(&self.node, job, *peer).await.map(Response::new)
    }

    async fn get_settings(&self, request: Request<GetSettingsRequest>) -> Answer<ScopedSettings> {
        let scope = steer::scope(request.into_inner().scope)?;
        let known = self.node.store.scopes().own(&scope).version > 0;
        if !known && !self.node.processes.has(&scope) {
            return Err(absent(&scope));
        }
        Ok(Response::new(self.node.scoped(&scope)))
    }

    async fn list_settings(&self, _: Request<ListSettingsRequest>) -> Answer<ListSettingsResponse> {
        let scopes = self.node.store.scopes();
        let settings = scopes
            .iter()
            .map(|(scope, own)| convert::scoped(scope, *own, &scopes.effective(scope)))
            .collect();
        Ok(Response::new(ListSettingsResponse { settings }))
    }

    async fn update_settings(&self, request: Request<UpdateSettingsRequest>) -> Answer<ScopedSettings> {
        may_steer(&request)?;
        steer::update(&self.node, request.into_inner()).await.map(Response::new)
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let is_operator = is_operator(&request);
        let subject = Subject::of(request.into_inner()).map_err(Status::invalid_argument)?;
        // Where no job is named, the peer is one of any job's, and may come later.
        let peer = subject.peer.filter(|_| subject.job.is_some());
        let scope = Scope { job: subject.job.clone(), peer, ..Scope::default() };
        if !self.node.processes.has(&scope) {
            return Err(absent(&scope));
        }
        let watching = self.node.watching(is_operator).ok_or_else(|| {
            Status::resource_exhausted(match is_operator {
                true => "as many watchers as the daemon allows: end one, or raise max_watchers",
                false => "as many watchers as the daemon allows to others than operators, which is half of max_watchers",
            })
        })?;
        let (sender, receiver) = mpsc::channel(1);
        let node = self.node.clone();
        tokio::spawn(async move {
            let mut stopping = node.stopping();
            let stopped = async { drop(stopping.wait_for(|stopping| *stopping).await) };
            tokio::select! {
                () = tell(&node, subject, &sender) => {}
                // One that does not read is waited for as long as other calls are; whoever is gone needs no word.
                () = stopped => drop(sender.send(Err(Status::unavailable(STOPS))).await),
            }
            drop(watching);
        });
        // All who watch the same share a response until each is about to send it.
        let told = ReceiverStream::new(receiver).map(|told: Told| {
            let (missed, response) = told?;
            Ok(WatchResponse { missed, ..(*response).clone() })
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn get_histogram(&self, request: Request<GetHistogramRequest>) -> Answer<GetHistogramResponse> {
        histogram::get(&self.node, request.into_inner()).map(Response::new)
    }

    async fn calibrate(&self, request: Request<CalibrateRequest>) -> Answer<CalibrateResponse> {
        may_steer(&request)?;
        calibrate::run(&self.node, request.get_ref().dry_run).await.map(Response::new)
    }
}

/// What a watcher is told: how much it has missed, and what there is now.
type Told = Result<(u32, Arc<WatchResponse>), Status>;

/// The last that watchers are told.
const STOPS: &str = "the daemon stops; try again later";

/// Sends updates until the client is gone. While it does not read, updates are missed.
async fn tell(node: &Arc<Node>, subject: Subject, client: &mpsc::Sender<Told>) {
    let mut last = 0;
    loop {
        let mut updates = node.watches.subscribe(node, subject.clone());
        updates.mark_changed();
        loop {
            let changed = tokio::select! {
                changed = updates.changed() => changed,
                () = client.closed() => return,
            };
            if changed.is_err() {
                break; // the sampler had just ended when we came
            }
            // Only now is it looked at, so that nobody keeps what is not the latest.
            let Ok(room) = client.reserve().await else { return };
            let (number, response) = updates.borrow_and_update().clone();
            if number == 0 {
                continue; // nothing was seen yet
            }
            let missed = if last == 0 { 0 } else { number.saturating_sub(last + 1) as u32 };
            last = number;
            room.send(Ok((missed, response)));
        }
        last = 0;
    }
}

fn is_operator<T>(request: &Request<T>) -> bool {
    request.extensions().get::<Caller>().is_some_and(|caller| caller.operator)
}

/// Only operators change anything.
fn may_steer<T>(request: &Request<T>) -> Result<(), Status> {
    match is_operator(request) {
        true => Ok(()),
        false => Err(Status::permission_denied(
            "only operators may change settings: the daemon's own user, root, and those that its `operators` name",
        )),
    }
}

/// The status of what is not there.
fn absent(scope: &Scope) -> Status {
    Status::not_found(format!(
        "nothing here is {scope}: `ListJobs`, `ListPeers` and `ListStreams` say what is"
    ))
}

impl From<ChangeError> for Status {
    fn from(error: ChangeError) -> Self {
        let text = error.to_string();
        match error {
            ChangeError::Stale { .. } => Self::aborted(text),
            ChangeError::TooMany | ChangeError::Disk { .. } => Self::resource_exhausted(text),
            ChangeError::Failed(_) => Self::internal(text),
        }
    }
}
