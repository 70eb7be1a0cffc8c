//! A daemon as it runs.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mgcomp_proto::v1::{DaemonInfo, ScopedSettings};
use mgcomp_transport::control::PolicyName;
use rustix::process::Resource;
use tokio::sync::{Mutex, mpsc, watch};

use crate::config::Config;
use crate::crowd::Crowd;
use crate::error::DaemonError;
use crate::listen::{self, Listener, Looks, Routes, Turns, serve_tcp, serve_unix};
use crate::notify::notify;
use crate::processes::Processes;
use crate::service::convert;
use crate::settings::{Scope, Store};
use crate::snapshot::{Snapshots, unix_ns};
use crate::told::Told;
use crate::watch::Watches;

/// How long changes are gathered before they are written into pages.
pub(crate) const GATHER: Duration = Duration::from_millis(10);
/// How often processes are looked for that are gone without a word.
const REAP: Duration = Duration::from_secs(2);
/// How long calls may take to finish when the daemon stops.
const DRAIN: Duration = Duration::from_secs(5);

/// What all parts of a daemon share.
#[derive(Debug)]
pub(crate) struct Node {
    config: watch::Sender<Arc<Config>>,
    pub(crate) store: Arc<Store>,
    pub(crate) processes: Processes,
    /// Whoever looks at what a process hands over has one.
    pub(crate) turns: Turns,
    /// What users have under way who may only look.
    pub(crate) looks: Looks,
    /// Connections that were closed: because there are as many as can be, because what is left is for operators, and because
    /// their user has enough.
    pub(crate) closed: [Crowd; 3],
    /// Control pages of users who are no operators that were refused.
    pub(crate) refused: Crowd,
    pub(crate) snapshots: Snapshots,
    /// Whoever makes a page for Prometheus holds it.
    pub(crate) told: Mutex<Told>,
    pub(crate) watches: Watches,
    /// Whoever times codecs holds it.
    pub(crate) calibrating: Arc<Mutex<()>>,
    stopping: watch::Sender<bool>,
    watchers: Arc<AtomicUsize>,
    started_unix_ns: u64,
    /// The same by a clock that nobody sets.
    pub(crate) started: Instant,
}

/// A watch call under way.
#[derive(Debug)]
pub(crate) struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a daemon until `shutdown` is over; then calls under way finish, and settings are kept.
///
/// # Errors
/// [`DaemonError`] if it cannot start. Once it runs, it runs; but settings that cannot be kept at its end are an error.
pub async fn run(listener: Listener, shutdown: impl Future<Output = ()>) -> Result<(), DaemonError> {
    let (_never, reloads) = mpsc::channel(1);
    run_reloading(listener, shutdown, reloads).await
}

/// As [`run`], and goes by each configuration that comes and is right for its sockets and folders, which stay
/// ([`Config::in_place_of`]).
///
/// # Errors
/// As [`run`].
pub async fn run_reloading(
    listener: Listener,
    shutdown: impl Future<Output = ()>,
    mut reloads: mpsc::Receiver<Config>,
) -> Result<(), DaemonError> {
    raise_file_limit();
    let node = Arc::new(Node::open(listener.config.clone())?);
    let routes = Routes::new(node.clone()).await?;
    let tcp = async {
        match &listener.tcp {
            Some(tcp) => serve_tcp(node.clone(), routes.clone(), tcp).await,
            None => pending().await,
        }
    };
    let reload = async {
        while let Some(config) = reloads.recv().await {
            node.reload(config);
        }
        pending::<()>().await;
    };
    tracing::info!(socket = %listener.config.socket.display(), tcp = ?listener.tcp_address(), "ready");
    notify("READY=1");
    {
        let (keep, apply, reap) = (pin!(node.store.keep()), pin!(node.apply()), pin!(node.reap()));
        tokio::select! {
            () = shutdown => {}
            () = serve_unix(node.clone(), routes.clone(), &listener.unix) => {}
            () = tcp => {}
            () = reload => {}
            () = keep => {}
            () = apply => {}
            () = reap => {}
        }
    }
    notify("STOPPING=1");
    tracing::info!("stopping");
    node.stopping.send_replace(true);
    if tokio::time::timeout(DRAIN, routes.drain()).await.is_err() {
        tracing::warn!("some calls did not finish in time");
    }
    let path = listener.config.state_dir.clone();
    node.store.flush_unkept().await.map_err(|source| DaemonError::Lost { path, source })
}

impl Node {
    pub(crate) fn open(config: Config) -> Result<Self, DaemonError> {
        Ok(Self {
            store: Store::open(&config.state_dir)?,
            config: watch::Sender::new(Arc::new(config)),
            processes: Processes::default(),
            turns: Turns::default(),
            looks: Looks::default(),
            closed: Default::default(),
            refused: Crowd::default(),
            snapshots: Snapshots::default(),
            told: Mutex::default(),
            watches: Watches::default(),
            calibrating: Arc::default(),
            stopping: watch::Sender::new(false),
            watchers: Arc::default(),
            started_unix_ns: unix_ns(),
            started: Instant::now(),
        })
    }

    /// What the daemon goes by now.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    /// The same, and each that comes after it.
    pub(crate) fn configs(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// Turns true when the daemon stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Room for one more watcher, if there is. Others than operators leave half of it to these.
    pub(crate) fn watching(&self, is_operator: bool) -> Option<Watching> {
        let watching = Watching(self.watchers.clone());
        let before = self.watchers.fetch_add(1, Ordering::Relaxed);
        (before < self.config().most_watchers(is_operator)).then_some(watching)
    }

    /// What is set at a scope and what holds there.
    pub(crate) fn scoped(&self, scope: &Scope) -> ScopedSettings {
        let scopes = self.store.scopes();
        convert::scoped(scope, scopes.own(scope), &scopes.effective(scope))
    }

    pub(crate) fn info(&self) -> DaemonInfo {
        DaemonInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            page_version: 1,
            pid: std::process::id(),
            started_unix_ns: self.started_unix_ns,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            processes: self.processes.count() as u32,
            watchers: self.watchers.load(Ordering::Relaxed) as u32,
            refused_pages: self.processes.refused(),
            setting_changes: self.store.changes(),
            persist_error: self.store.problem().unwrap_or_default(),
            state_dir: self.config().state_dir.display().to_string(),
            policies: PolicyName::all().map(|policy| policy.to_string()).collect(),
        }
    }

    /// Writes changed settings into all pages, and what holds into slots that are looked at by now, for ever.
    async fn apply(&self) {
        loop {
            tokio::select! {
                () = self.store.changed() => self.processes.apply(&self.store.scopes()),
                () = self.processes.granted() => self.processes.apply_to_granted(&self.store.scopes()),
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Finds processes that are gone without a word, for ever.
    async fn reap(&self) {
        let mut ticks = tokio::time::interval(REAP);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.processes.find_gone();
        }
    }

    /// Goes by `config` from now on, if that is right for where the daemon listens.
    fn reload(&self, config: Config) {
        let config = match config.in_place_of(&self.config()) {
            Ok(config) => config,
            Err(problems) => return tracing::error!(%problems, "settings stay as they are"),
        };
        if let Err(error) = listen::open_to(&config) {
            tracing::warn!(%error, "the socket stays open to those to whom it was");
        }
        self.config.send_replace(Arc::new(config));
        tracing::info!("reloaded");
    }
}

/// As many files as the system lets us have: each process and each client takes one.
fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "few processes and clients can be connected at the same time");
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::control::Settings;
    use tokio_rustls::rustls;

    use super::*;
    use crate::config::Token;
    use crate::played::Played;
    use crate::processes::Owner;

    /// TLS as far as a configuration has it: without a certificate.
    fn tls() -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        builder.with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()))
    }

    #[test]
    fn a_reload_does_not_take_away_what_the_open_port_needs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("token"), "0123456789abcdef").unwrap();
        let plain = Config::private(path("socket"), path("state"));
        let token = Some(Token::read(&path("token")).unwrap());
        let safe = Config {
            listen: Some("0.0.0.0:7411".parse().unwrap()),
            token: token.clone(),
            tls: Some(Arc::new(tls())),
            ..plain.clone()
        };
        let node = Node::open(safe.clone()).unwrap();
        let holds = || {
            let config = node.config();
            (config.listen, config.token.is_some(), config.tls.is_some(), config.max_watchers)
        };
        // Each is right by itself, but not for a port that anybody reaches.
        let local = Config { listen: Some("127.0.0.1:7411".parse().unwrap()), token, ..plain.clone() };
        let (no_token, no_tls) =
            (Config { token: None, ..safe.clone() }, Config { tls: None, ..safe.clone() });
        for config in [plain, local, no_token, no_tls] {
            node.reload(Config { max_watchers: 1, ..config });
            assert_eq!(holds(), (safe.listen, true, true, safe.max_watchers));
        }
        node.reload(Config { max_watchers: 1, listen: None, ..safe.clone() });
        assert_eq!(holds(), (safe.listen, true, true, 1));
    }

    #[tokio::test]
    async fn slots_that_are_looked_at_late_get_their_settings() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::open(crate::played::config(&folder)).unwrap();
        let adopt = |played: &Played| {
            let owner = Owner { uid: 7, pid: 0, is_operator: false };
            node.processes.adopt(played.page(), owner, &node.config(), &node.store.scopes()).unwrap()
        };
        let off = |_| Settings { compress: Some(false), ..Settings::default() };
        let scope = Scope { job: Some("late".to_owned()), peer: Some(1), stream: None };
        node.store.change(&scope, None, false, off).await.unwrap();
        // As many slots as are looked at of a user, and one more.
        let full: Vec<_> = (0..16).map(|_| adopt(&Played::full("full"))).collect();
        let mut late = Played::new("late", 0);
        let slot = late.sends(1, 100);
        let process = adopt(&late);
        let settings = async {
            // After what has changed so far is written.
            tokio::time::sleep(10 * GATHER).await;
            assert_eq!((process.used(), late.goes_by(slot).compress), (0, None));
            node.processes.remove(&full[0]);
            // Whoever looks at anything looks at it too.
            let _ = node.processes.all();
            while late.goes_by(slot).compress != Some(false) {
                tokio::time::sleep(GATHER).await;
            }
        };
        tokio::select! {
            () = node.apply() => {}
            in_time = tokio::time::timeout(Duration::from_secs(60), settings) => in_time.unwrap(),
        }
    }

    #[test]
    fn others_leave_half_of_the_watchers_to_operators() {
        let folder = tempfile::tempdir().unwrap();
        // How many others there may be, where so many may watch.
        for (max_watchers, of_others) in [(1, 0), (2, 1), (5, 2)] {
            let node = Node::open(Config { max_watchers, ..crate::played::config(&folder) }).unwrap();
            let mut watching: Vec<_> = std::iter::from_fn(|| node.watching(false)).collect();
            assert_eq!(watching.len(), of_others, "{max_watchers}");
            watching.extend(std::iter::from_fn(|| node.watching(true)));
            assert_eq!(watching.len(), max_watchers);
            watching.truncate(of_others);
            assert!(node.watching(false).is_none(), "whoever watches counts");
            drop(watching);
            assert_eq!(node.watching(false).is_some(), of_others > 0);
        }
    }
}
