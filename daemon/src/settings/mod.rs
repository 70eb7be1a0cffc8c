//! What operators have set, in memory and on disk.
//!
//! A change that must be durable is written first and holds afterwards, or not at all; one of these at a time. Others
//! hold at once and are written in groups, at most [`GROUP`] later; they go ahead of one that is being written, which is
//! then made of what they have left and written again. Readers never wait for the disk. What has begun is finished, also
//! where nobody waits for it any more: callers may go at any moment.

mod file;
mod scope;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use mgcomp_transport::control::Settings;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};

pub use file::SettingsFileError;
pub use scope::Scope;
pub(crate) use scope::{Entry, JobSettings, Scopes};

/// How long a change waits for others before all are written.
const GROUP: Duration = Duration::from_millis(50);
/// How long until it is tried again if that failed.
const RETRY: Duration = Duration::from_secs(1);
/// Scopes that can have settings.
pub(crate) const MOST_SCOPES: usize = 100_000;

/// Everything that is set, and where it is kept.
#[derive(Debug)]
pub(crate) struct Store {
    state_dir: PathBuf,
    scopes: RwLock<Scopes>,
    /// Whoever makes a durable change holds it.
    keeping: Mutex<()>,
    /// Whoever makes another one holds it, and nobody that waits for the disk but where others have come in between.
    changing: Mutex<()>,
    /// Whoever writes the file holds it.
    disk: Arc<Mutex<()>>,
    /// There is something to write.
    dirty: Notify,
    /// Something holds that did not before, and how often that was so.
    changed: Notify,
    changes: AtomicU64,
    problem: RwLock<Option<String>>,
    /// Something holds that is not on disk.
    unkept: AtomicBool,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("version {expected} is stale: {scope} has version {is}; read its settings again and decide anew")]
    Stale { scope: Scope, expected: u64, is: u64 },
    #[error("{MOST_SCOPES} scopes have settings already: unset some first")]
    TooMany,
    #[error(
        "cannot keep the setting in {}: {source}; nothing was changed. Make room there, or set it without `durable` to \
         have it until the daemon ends", path.display()
    )]
    Disk { path: PathBuf, source: std::io::Error },
    #[error("the change was not carried out")]
    Failed(#[from] tokio::task::JoinError),
}

impl Store {
    /// What was kept in `state_dir`.
    pub(crate) fn open(state_dir: &Path) -> Result<Arc<Self>, SettingsFileError> {
        Ok(Arc::new(Self {
            state_dir: state_dir.to_owned(),
            scopes: RwLock::new(file::load(state_dir)?),
            keeping: Mutex::default(),
            changing: Mutex::default(),
            disk: Arc::default(),
            dirty: Notify::new(),
            changed: Notify::new(),
            changes: AtomicU64::new(0),
            problem: RwLock::default(),
            unkept: AtomicBool::new(false),
        }))
    }

    /// Everything, for a moment.
    pub(crate) fn scopes(&self) -> RwLockReadGuard<'_, Scopes> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last write failed, if it did.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until something holds that did not before. For one who waits.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How often something was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Changes what is set at a scope to what `change` makes of it.
    pub(crate) async fn change(
        self: &Arc<Self>,
        scope: &Scope,
        expected: Option<u64>,
        durable: bool,
        change: impl Fn(Settings) -> Settings + Send + 'static,
    ) -> Result<Entry, ChangeError> {
        let entry = match durable {
            // Nothing is waited for in the middle of it.
            false => self.change_at_once(scope, expected, change).await?,
            true => {
                let (store, scope) = (self.clone(), scope.clone());
                tokio::spawn(async move { store.change_for_good(&scope, expected, change).await }).await??
            }
        };
        Ok(entry)
    }

    async fn change_at_once(
        &self,
        scope: &Scope,
        expected: Option<u64>,
        change: impl Fn(Settings) -> Settings,
    ) -> Result<Entry, ChangeError> {
        let _one = self.changing.lock().await;
        let entry = self.write_scopes(|scopes| made(scopes, scope, expected, change))?;
        self.unkept.store(true, Ordering::SeqCst);
        self.dirty.notify_one();
        self.tell_changed();
        Ok(entry)
    }

    async fn change_for_good(
        self: &Arc<Self>,
        scope: &Scope,
        expected: Option<u64>,
        change: impl Fn(Settings) -> Settings,
    ) -> Result<Entry, ChangeError> {
        let _one = self.keeping.lock().await;
        let mut disk = self.disk.clone().lock_owned().await;
        let mut alone = None;
        loop {
            let before = self.scopes().clone();
            let mut changed = before.clone();
            let entry = match made(&mut changed, scope, expected, &change) {
                Ok(entry) => entry,
                Err(refused) => {
                    if alone.is_some() {
                        // It is in the file. Where that fails, it is replaced as soon as the disk takes something.
                        let _ = self.save(before, disk).await;
                    }
                    return Err(refused);
                }
            };
            disk = self.save(changed.clone(), disk).await.map_err(|source| {
                // Until the disk takes something again, so that it is known when it does.
                self.dirty.notify_one();
                ChangeError::Disk { path: self.state_dir.clone(), source }
            })?;
            let is_made = self.write_scopes(|scopes| {
                let is_as_before = scopes.last_version() == before.last_version();
                if is_as_before {
                    *scopes = changed;
                }
                is_as_before
            });
            if is_made {
                // Not sooner: whoever writes next would write what was there before.
                drop(disk);
                self.tell_changed();
                return Ok(entry);
            }
            // What came in between was to hold at once. That happens once: this change is not put off for ever.
            if alone.is_none() {
                alone = Some(self.changing.lock().await);
            }
        }
    }

    fn tell_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Writes changes in groups, for ever.
    pub(crate) async fn keep(self: &Arc<Self>) {
        loop {
            self.dirty.notified().await;
            tokio::time::sleep(GROUP).await;
            while self.flush().await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Writes everything now.
    pub(crate) async fn flush(self: &Arc<Self>) -> std::io::Result<()> {
        let disk = self.disk.clone().lock_owned().await;
        self.save_all(disk).await
    }

    /// The same where anything is not on disk.
    pub(crate) async fn flush_unkept(self: &Arc<Self>) -> std::io::Result<()> {
        let disk = self.disk.clone().lock_owned().await;
        if self.unkept.load(Ordering::SeqCst) { self.save_all(disk).await } else { Ok(()) }
    }

    async fn save_all(self: &Arc<Self>, disk: OwnedMutexGuard<()>) -> std::io::Result<()> {
        let scopes = self.scopes().clone();
        self.save(scopes, disk).await.map(drop)
    }

    /// Replaces the file, which is this write's until that is done, and its caller's then.
    async fn save(
        self: &Arc<Self>,
        scopes: Scopes,
        disk: OwnedMutexGuard<()>,
    ) -> std::io::Result<OwnedMutexGuard<()>> {
        let store = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            // What changes from here on says so again.
            let was_unkept = store.unkept.swap(false, Ordering::SeqCst);
            let saved = file::save(&store.state_dir, &scopes);
            // Also what came between that copy and now.
            let is_old = *store.scopes() != scopes;
            if was_unkept && (saved.is_err() || is_old) {
                store.unkept.store(true, Ordering::SeqCst);
            }
            store.tell(saved.as_ref().err());
            saved.map(|()| disk)
        });
        work.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }

    /// Says how the last write went, if that is news.
    fn tell(&self, failed: Option<&std::io::Error>) {
        let problem = failed.map(ToString::to_string);
        let mut known = self.problem.write().unwrap_or_else(PoisonError::into_inner);
        if *known != problem {
            match &problem {
                Some(error) => {
                    tracing::error!(error, path = %self.state_dir.display(), "settings cannot be kept");
                }
                None => tracing::info!("settings can be kept again"),
            }
            *known = problem;
        }
    }

    fn write_scopes<T>(&self, write: impl FnOnce(&mut Scopes) -> T) -> T {
        write(&mut self.scopes.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes a change, if it can be made.
fn made(
    scopes: &mut Scopes,
    scope: &Scope,
    expected: Option<u64>,
    change: impl Fn(Settings) -> Settings,
) -> Result<Entry, ChangeError> {
    let own = scopes.own(scope);
    if let Some(expected) = expected.filter(|expected| *expected != own.version) {
        return Err(ChangeError::Stale { scope: scope.clone(), expected, is: own.version });
    }
    if own.version == 0 && scopes.len() >= MOST_SCOPES {
        return Err(ChangeError::TooMany);
    }
    Ok(scopes.set(scope.clone(), change(own.settings)))
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::control::SizeGate;

    use super::*;

    fn off(settings: Settings) -> Settings {
        Settings { compress: Some(false), ..settings }
    }

    #[tokio::test]
    async fn a_change_that_cannot_be_kept_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        std::fs::create_dir(&state_dir).unwrap();
        let store = Store::open(&state_dir).unwrap();
        store.change(&Scope::default(), None, true, off).await.unwrap();
        std::fs::remove_dir_all(&state_dir).unwrap();

        let before = store.scopes().clone();
        let on = |settings| Settings { compress: Some(true), ..settings };
        let error = store.change(&Scope::default(), None, true, on).await.unwrap_err();
        assert!(matches!(error, ChangeError::Disk { .. }), "{error}");
        assert_eq!(*store.scopes(), before);
        assert!(store.problem().is_some());

        // Without the promise it holds, and is written when there is room again.
        store.change(&Scope::default(), None, false, on).await.unwrap();
        assert!(store.flush().await.is_err());
        std::fs::create_dir(&state_dir).unwrap();
        store.flush().await.unwrap();
        assert_eq!((store.problem(), &*Store::open(&state_dir).unwrap().scopes()), (None, &*store.scopes()));
    }

    /// Far longer than anything takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_change_is_made_though_its_caller_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let disk = store.disk.clone().lock_owned().await;
        let node = Scope::default();
        let caller = store.change(&node, None, true, off);
        assert!(tokio::time::timeout(Duration::ZERO, caller).await.is_err(), "it waits for the disk");
        drop(disk);
        tokio::time::timeout(PATIENCE, store.changed()).await.unwrap();
        assert_eq!((store.scopes().own(&node).settings.compress, store.changes()), (Some(false), 1));
        assert_eq!(*Store::open(folder.path()).unwrap().scopes(), *store.scopes());
    }

    #[tokio::test]
    async fn what_was_kept_is_not_replaced_by_what_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let (store, node) = (Store::open(folder.path()).unwrap(), Scope::default());
        for round in 0..50 {
            let change = move |_| Settings { compress: Some(round % 2 == 0), ..Settings::default() };
            let flush = async {
                // The change has the disk by then, so this one waits for it.
                for _ in 0..1000 {
                    if store.disk.try_lock().is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                store.flush().await
            };
            let (changed, flushed) = tokio::join!(store.change(&node, None, true, change), flush);
            assert_eq!(changed.unwrap().settings.compress, Some(round % 2 == 0));
            flushed.unwrap();
            assert_eq!(*Store::open(folder.path()).unwrap().scopes(), *store.scopes(), "round {round}");
        }
    }

    #[test]
    fn a_write_that_nobody_waits_for_keeps_others_from_the_file() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).enable_time().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async {
            // The write comes after this.
            let before = tokio::task::spawn_blocking(move || wait.recv());
            assert!(tokio::time::timeout(Duration::ZERO, store.flush()).await.is_err());
            assert!(store.disk.try_lock().is_err(), "it is not over");
            drop(go_on);
            before.await.unwrap().unwrap_err();
            let _free = tokio::time::timeout(PATIENCE, store.disk.lock()).await.unwrap();
            assert!(file::path(folder.path()).exists());
        });
    }

    #[test]
    fn what_holds_at_once_does_not_wait_for_a_write() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).enable_time().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (store, node) = (Store::open(folder.path()).unwrap(), Scope::default());
        let gated = |settings| Settings { gate: SizeGate::try_new(4096), ..settings };
        let job = Scope { job: Some("a".to_owned()), ..Scope::default() };
        for is_particular in [false, true] {
            let expected = is_particular.then(|| store.scopes().own(&node).version);
            let (go_on, wait) = std::sync::mpsc::channel::<()>();
            runtime.block_on(async {
                // The write comes after this.
                let before = tokio::task::spawn_blocking(move || wait.recv());
                let (writer, scope) = (store.clone(), node.clone());
                let kept = tokio::spawn(async move { writer.change(&scope, expected, true, off).await });
                while store.disk.try_lock().is_ok() {
                    tokio::task::yield_now().await;
                }
                for scope in [&job, &node] {
                    let change = store.change(scope, None, false, gated);
                    tokio::time::timeout(PATIENCE, change).await.unwrap().unwrap();
                }
                drop(go_on);
                before.await.unwrap().unwrap_err();
                match (expected, kept.await.unwrap()) {
                    (None, Ok(entry)) => {
                        assert_eq!(entry, store.scopes().own(&node));
                        assert_eq!(entry.settings, off(gated(Settings::default())), "both count");
                    }
                    (Some(_), Err(ChangeError::Stale { .. })) => {}
                    (_, kept) => panic!("{kept:?}"),
                }
                // What was refused is in the file no more, without another write.
                assert_eq!(*Store::open(folder.path()).unwrap().scopes(), *store.scopes());
            });
        }
    }

    #[tokio::test]
    async fn a_stale_version_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let first = store.change(&Scope::default(), Some(0), false, off).await.unwrap();
        let error =
            store.change(&Scope::default(), Some(0), false, |_| Settings::default()).await.unwrap_err();
        assert!(error.to_string().contains("version 0 is stale: the node has version 1"), "{error}");
        assert_eq!(store.scopes().own(&Scope::default()), first);
    }
}
