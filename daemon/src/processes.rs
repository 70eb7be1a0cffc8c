//! The processes that have handed over their pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use mgcomp_transport::control::{Identity, Page, PageError, SlotKind};
use rustix::process::Pid;
use tokio::sync::Notify;

use crate::config::Config;
use crate::gone::Gone;
use crate::settings::{Scope, Scopes};
use crate::snapshot::{Totals, counting, slots_of};

/// Who a process is, as far as it says and the kernel does.
#[derive(Debug)]
pub(crate) struct Who {
    /// Its number among all that ever connected.
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    /// As the kernel told; 0 = in a namespace that cannot be seen into.
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// What it had counted when it came.
    pub(crate) brought: Totals,
}

/// Who hands over a page, as the kernel tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
    pub(crate) is_operator: bool,
}

/// A process and its page.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) who: Arc<Who>,
    pub(crate) page: Page,
    /// It is gone, though its connection may not be.
    pub(crate) gone: Notify,
}

/// All that are connected, and what those have counted that were.
#[derive(Debug, Default)]
struct Known {
    connected: BTreeMap<u64, Arc<Process>>,
    gone: Arc<Gone>,
}

/// All that have handed over their pages.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: RwLock<Known>,
    adopted: AtomicU64,
    refused: AtomicU64,
}

/// Why a page is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    #[error("{most} processes are connected already: raise max_processes of the daemon")]
    TooMany { most: usize },
    #[error("user {uid} has {most} processes connected already: raise max_processes_per_user of the daemon")]
    TooManyOfUser { uid: u32, most: usize },
    #[error(transparent)]
    Page(#[from] PageError),
}

impl Processes {
    /// Takes a page in, with the settings that hold for it.
    pub(crate) fn adopt(
        &self,
        page: Page,
        owner: Owner,
        config: &Config,
        scopes: &Scopes,
    ) -> Result<Arc<Process>, AdoptError> {
        let id = self.adopted.fetch_add(1, Ordering::Relaxed);
        let (identity, brought) = (page.identity()?, Totals::of(&page));
        let who = Arc::new(Who { id, identity, pid: owner.pid, uid: owner.uid, brought });
        let process = Arc::new(Process { who, page, gone: Notify::new() });
        process.apply(scopes);
        self.write(|Known { connected, .. }| {
            // Looked at here, where nobody else comes in between.
            let of_user = connected.values().filter(|process| process.who.uid == owner.uid).count();
            let (most, most_of_user) = (config.max_processes, config.most_of_user(owner.is_operator));
            if connected.len() >= most {
                return Err(AdoptError::TooMany { most });
            }
            if of_user >= most_of_user {
                return Err(AdoptError::TooManyOfUser { uid: owner.uid, most: most_of_user });
            }
            connected.insert(id, process.clone());
            Ok(())
        })?;
        Ok(process)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A process is gone. What it has counted stays, while there are others of its job.
    pub(crate) fn remove(&self, process: &Process) {
        let slots = slots_of(&process.page);
        let job = &process.who.identity.job;
        self.write(|Known { connected, gone }| {
            if connected.remove(&process.who.id).is_none() {
                return;
            }
            // Whoever looks at what was there goes on with that.
            match connected.values().any(|other| other.who.identity.job == *job) {
                true => Arc::make_mut(gone).add(job, counting(&slots).map(|(_, slot)| slot)),
                false => Arc::make_mut(gone).forget(job),
            }
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.read(|known| known.connected.len())
    }

    /// All of them, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<Arc<Process>> {
        self.with_gone().0
    }

    /// The same, and what those have counted that are gone, of one moment.
    pub(crate) fn with_gone(&self) -> (Vec<Arc<Process>>, Arc<Gone>) {
        self.read(|known| (known.connected.values().cloned().collect(), known.gone.clone()))
    }

    /// Writes what holds now into every page.
    pub(crate) fn apply(&self, scopes: &Scopes) {
        self.all().iter().for_each(|process| process.apply(scopes));
    }

    /// Whether anything here is in `scope`.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        let Some(job) = &scope.job else { return true };
        let all = self.all();
        let mut of_job = all.iter().filter(|process| process.who.identity.job == *job);
        match scope.peer {
            None => of_job.next().is_some(),
            Some(peer) => of_job.any(|process| process.has(peer, scope.stream)),
        }
    }

    /// Wakes the tasks of processes that no longer exist but left their connection to somebody.
    pub(crate) fn find_gone(&self) {
        for process in self.all() {
            let pid = i32::try_from(process.who.pid).ok().and_then(Pid::from_raw);
            let gone = |pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
            if pid.is_some_and(gone) {
                process.gone.notify_one();
            }
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Known) -> T) -> T {
        write(&mut self.known.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Process {
    /// Writes what holds now into the page.
    pub(crate) fn apply(&self, scopes: &Scopes) {
        let settings = scopes.of_job(&self.who.identity.job);
        self.page.set(None, &settings.job);
        for slot in 0..self.page.used() {
            if let Some(view) = self.page.whose(slot).filter(|whose| whose.kind == SlotKind::Sent) {
                self.page.set(Some(slot), &settings.stream(view.peer, view.stream));
            }
        }
        self.page.set(Some(Page::other()), &settings.job);
    }

    fn has(&self, peer: u32, stream: Option<u32>) -> bool {
        (0..self.page.used()).filter_map(|slot| self.page.whose(slot)).any(|whose| {
            whose.kind.has_peer()
                && whose.peer == peer
                && stream.is_none_or(|stream| whose.kind == SlotKind::Sent && whose.stream == stream)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::{Played, config};

    #[test]
    fn one_user_does_not_take_all_the_room() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { max_processes: 5, max_processes_per_user: Some(2), ..config(&folder) };
        let processes = Processes::default();
        let played = Played::new("a", 0);
        let adopt = |uid, is_operator| {
            let owner = Owner { uid, pid: 0, is_operator };
            let adopted = processes.adopt(played.page(), owner, &config, &Scopes::default());
            adopted.map_err(|error| error.to_string())
        };
        let first = adopt(7, false).unwrap();
        adopt(7, false).unwrap();
        let full = "user 7 has 2 processes connected already: raise max_processes_per_user of the daemon";
        assert_eq!(adopt(7, false).unwrap_err(), full);
        adopt(8, false).unwrap();
        processes.remove(&first);
        adopt(7, false).unwrap();
        // Operators share with all alone.
        adopt(0, true).unwrap();
        adopt(0, true).unwrap();
        let full = "5 processes are connected already: raise max_processes of the daemon";
        assert_eq!([adopt(0, true), adopt(9, false)].map(Result::unwrap_err), [full; 2]);
        assert_eq!(processes.count(), 5);
    }

    #[test]
    fn who_comes_at_the_same_time_is_counted_too() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { max_processes_per_user: Some(3), ..config(&folder) };
        let (processes, start) = (Processes::default(), std::sync::Barrier::new(8));
        let played = Played::new("a", 0);
        let adopt = || {
            let owner = Owner { uid: 7, pid: 0, is_operator: false };
            start.wait();
            (0..4)
                .filter(|_| processes.adopt(played.page(), owner, &config, &Scopes::default()).is_ok())
                .count()
        };
        let adopted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(adopt)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((adopted, processes.count()), (3, 3));
    }
}
