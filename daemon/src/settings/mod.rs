//! What operators have set, in memory and on disk.
//!
//! A change that must be durable is written first and holds afterwards, or not at all. Others hold at once and are
//! written in groups, at most [`GROUP`] later. One change at a time; readers never wait for the disk.

mod file;
mod scope;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use mgcomp_transport::control::Settings;
use tokio::sync::{Mutex, Notify};

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
    /// Whoever changes something holds it.
    changing: Mutex<()>,
    /// Whoever writes the file holds it.
    disk: Arc<Mutex<()>>,
    /// There is something to write.
    dirty: Notify,
    problem: RwLock<Option<String>>,
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
}

impl Store {
    /// What was kept in `state_dir`.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, SettingsFileError> {
        Ok(Self {
            state_dir: state_dir.to_owned(),
            scopes: RwLock::new(file::load(state_dir)?),
            changing: Mutex::default(),
            disk: Arc::default(),
            dirty: Notify::new(),
            problem: RwLock::default(),
        })
    }

    /// Everything, for a moment.
    pub(crate) fn scopes(&self) -> RwLockReadGuard<'_, Scopes> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the last write failed, if it did.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is set at a scope to what `change` makes of it.
    pub(crate) async fn change(
        &self,
        scope: &Scope,
        expected: Option<u64>,
        durable: bool,
        change: impl FnOnce(Settings) -> Settings,
    ) -> Result<Entry, ChangeError> {
        let _one = self.changing.lock().await;
        let own = self.scopes().own(scope);
        if let Some(expected) = expected.filter(|expected| *expected != own.version) {
            return Err(ChangeError::Stale { scope: scope.clone(), expected, is: own.version });
        }
        if own.version == 0 && self.scopes().len() >= MOST_SCOPES {
            return Err(ChangeError::TooMany);
        }
        let settings = change(own.settings);
        if !durable {
            let entry = self.write_scopes(|scopes| scopes.set(scope.clone(), settings));
            self.dirty.notify_one();
            return Ok(entry);
        }
        let _disk = self.disk.lock().await;
        let mut changed = self.scopes().clone();
        let entry = changed.set(scope.clone(), settings);
        self.save(changed.clone())
            .await
            .map_err(|source| ChangeError::Disk { path: self.state_dir.clone(), source })?;
        self.write_scopes(|scopes| *scopes = changed);
        Ok(entry)
    }

    /// Writes changes in groups, for ever.
    pub(crate) async fn keep(&self) {
        loop {
            self.dirty.notified().await;
            tokio::time::sleep(GROUP).await;
            while self.flush().await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Writes everything now.
    pub(crate) async fn flush(&self) -> std::io::Result<()> {
        let _disk = self.disk.lock().await;
        let scopes = self.scopes().clone();
        self.save(scopes).await
    }

    async fn save(&self, scopes: Scopes) -> std::io::Result<()> {
        let state_dir = self.state_dir.clone();
        let saved = tokio::task::spawn_blocking(move || file::save(&state_dir, &scopes)).await;
        let saved = saved.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let problem = saved.as_ref().err().map(ToString::to_string);
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
        saved
    }

    fn write_scopes<T>(&self, write: impl FnOnce(&mut Scopes) -> T) -> T {
        write(&mut self.scopes.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
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
