//! The processes that have handed over their pages.
//!
//! Whoever may hand over pages may say that all of their slots are in use, and each that is looked at takes memory here: in
//! every snapshot, and in the page itself, whose memory is there once somebody reads it. So no more than
//! [`MOST_SLOTS_OF_USER`] are looked at of one user, and no file twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use mgcomp_transport::control::{Identity, Page, PageError, SlotKind, SlotView};
use rustix::process::Pid;
use tokio::sync::Notify;

use crate::config::Config;
use crate::gone::Gone;
use crate::settings::{Scope, Scopes};
use crate::snapshot::{Totals, counting, slots_of};

/// Slots that are looked at of one user who is no operator. What further ones count is not seen, and they go by what is set for
/// their job.
const MOST_SLOTS_OF_USER: usize = 16_384;

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
    is_operator: bool,
    /// How many of its slots are looked at: the first ones.
    looked_at: AtomicUsize,
}

/// All that are connected, and what those have counted that were.
#[derive(Debug, Default)]
struct Known {
    connected: BTreeMap<u64, Arc<Process>>,
    gone: Arc<Gone>,
    /// How many slots of each user are looked at, operators apart.
    slots: HashMap<u32, usize>,
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
    #[error("this page is handed over already, and its process is connected still")]
    Twice,
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
        let (identity, used) = (page.identity()?, page.used());
        // Before anything in them is read.
        let looked_at = self.write(|known| known.grant(owner.uid, owner.is_operator, used));
        let brought = Totals::of(&slots_of(&page, looked_at));
        let who = Arc::new(Who { id, identity, pid: owner.pid, uid: owner.uid, brought });
        let (gone, looked_at) = (Notify::new(), AtomicUsize::new(looked_at));
        let process = Arc::new(Process { who, page, gone, is_operator: owner.is_operator, looked_at });
        process.apply(scopes);
        self.write(|known| {
            // Looked at here, where nobody else comes in between.
            let room = known.room_for(&process, config);
            match &room {
                Ok(()) => drop(known.connected.insert(id, process.clone())),
                Err(_) => known.give_back(&process),
            }
            room
        })?;
        Ok(process)
    }

    /// Looks at slots that a process has by now and had not before.
    pub(crate) fn look_again(&self, process: &Process) {
        self.write(|known| known.look_again(process));
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A process is gone. What it has counted stays, while there are others of its job.
    pub(crate) fn remove(&self, process: &Process) {
        let slots = process.slots();
        let job = &process.who.identity.job;
        self.write(|known| {
            if known.connected.remove(&process.who.id).is_none() {
                return;
            }
            known.give_back(process);
            let Known { connected, gone, .. } = known;
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
        self.write(|known| {
            let connected: Vec<_> = known.connected.values().cloned().collect();
            connected.iter().for_each(|process| known.look_again(process));
            (connected, known.gone.clone())
        })
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

impl Known {
    /// Why a process is not taken, if so.
    fn room_for(&self, process: &Process, config: &Config) -> Result<(), AdoptError> {
        let (uid, connected) = (process.who.uid, &self.connected);
        let of_user = connected.values().filter(|process| process.who.uid == uid).count();
        let (most, most_of_user) = (config.max_processes, config.most_of_user(process.is_operator));
        if connected.len() >= most {
            return Err(AdoptError::TooMany { most });
        }
        if of_user >= most_of_user {
            return Err(AdoptError::TooManyOfUser { uid, most: most_of_user });
        }
        let file = process.page.file();
        match connected.values().any(|other| other.page.file() == file) {
            true => Err(AdoptError::Twice),
            false => Ok(()),
        }
    }

    /// How many of so many more slots of a user may be looked at.
    fn grant(&mut self, uid: u32, is_operator: bool, more: usize) -> usize {
        if is_operator || more == 0 {
            return more;
        }
        let of_user = self.slots.entry(uid).or_default();
        let granted = more.min(MOST_SLOTS_OF_USER.saturating_sub(*of_user));
        *of_user += granted;
        granted
    }

    fn look_again(&mut self, process: &Process) {
        // Once granted they stay: a process cannot have fewer slots than it had.
        let more = process.page.used().saturating_sub(process.used());
        let granted = self.grant(process.who.uid, process.is_operator, more);
        process.looked_at.fetch_add(granted, Ordering::Relaxed);
    }

    /// The slots of a process are looked at no more.
    fn give_back(&mut self, process: &Process) {
        let looked_at = process.looked_at.swap(0, Ordering::Relaxed);
        let uid = process.who.uid;
        if let Some(of_user) = self.slots.get_mut(&uid).filter(|_| !process.is_operator) {
            *of_user = of_user.saturating_sub(looked_at);
            if *of_user == 0 {
                self.slots.remove(&uid);
            }
        }
    }
}

impl Process {
    /// How many of its slots are looked at: the first ones.
    pub(crate) fn used(&self) -> usize {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// What they say, and the slot of all other streams.
    pub(crate) fn slots(&self) -> Box<[(usize, SlotView)]> {
        slots_of(&self.page, self.used())
    }

    /// Writes what holds now into the page.
    pub(crate) fn apply(&self, scopes: &Scopes) {
        let settings = scopes.of_job(&self.who.identity.job);
        self.page.set(None, &settings.job);
        for slot in 0..self.used() {
            if let Some(view) = self.page.whose(slot).filter(|whose| whose.kind == SlotKind::Sent) {
                self.page.set(Some(slot), &settings.stream(view.peer, view.stream));
            }
        }
        self.page.set(Some(Page::other()), &settings.job);
    }

    fn has(&self, peer: u32, stream: Option<u32>) -> bool {
        (0..self.used()).filter_map(|slot| self.page.whose(slot)).any(|whose| {
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
        let adopt = |uid, is_operator| {
            let owner = Owner { uid, pid: 0, is_operator };
            let page = Played::new("a", 0).page();
            let adopted = processes.adopt(page, owner, &config, &Scopes::default());
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
        let adopt = || {
            let owner = Owner { uid: 7, pid: 0, is_operator: false };
            let pages = [(); 4].map(|()| Played::new("a", 0).page());
            start.wait();
            let adopted = pages.map(|page| processes.adopt(page, owner, &config, &Scopes::default()).is_ok());
            adopted.into_iter().filter(|is_ok| *is_ok).count()
        };
        let adopted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(adopt)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((adopted, processes.count()), (3, 3));
    }

    #[test]
    fn a_page_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played| {
            let owner = Owner { uid: 7, pid: 0, is_operator: false };
            processes.adopt(played.page(), owner, &config, &Scopes::default())
        };
        let (played, other) = (Played::new("a", 0), Played::new("a", 0));
        let first = adopt(&played).unwrap();
        assert!(matches!(adopt(&played), Err(AdoptError::Twice)));
        adopt(&other).unwrap();
        assert_eq!(processes.count(), 2);
        processes.remove(&first);
        adopt(&played).unwrap();
    }

    #[test]
    fn one_user_does_not_have_slots_without_end_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let (processes, config) = (Processes::default(), config(&folder));
        let adopt = |played: &Played, uid, is_operator| {
            let owner = Owner { uid, pid: 0, is_operator };
            processes.adopt(played.page(), owner, &config, &Scopes::default()).unwrap()
        };
        let full = || {
            let played = Played::new("a", 0);
            played.has_used(1024);
            played
        };
        let pages = MOST_SLOTS_OF_USER / 1024;
        let mut of_user: Vec<_> = (0..pages - 1).map(|_| adopt(&full(), 7, false)).collect();
        // One that comes with few slots and has more later.
        let mut growing = Played::new("a", 0);
        growing.sends(1, 100);
        of_user.push(adopt(&growing, 7, false));
        let late = adopt(&full(), 7, false);
        let looked_at = |process: &Process| {
            let _ = processes.all();
            process.used()
        };
        assert_eq!(looked_at(&late), 1023);
        growing.has_used(1024);
        assert_eq!((looked_at(&of_user[pages - 1]), looked_at(&late)), (1, 1023));
        assert_eq!(looked_at(&adopt(&full(), 7, false)), 0);
        // Nobody else has less of it.
        assert_eq!(looked_at(&adopt(&full(), 8, false)), 1024);
        let of_operator: Vec<_> = (0..=pages).map(|_| adopt(&full(), 0, true)).collect();
        assert!(of_operator.iter().all(|process| looked_at(process) == 1024));
        // What is free again goes to those that are there, the first ones first.
        processes.remove(&of_user[0]);
        assert_eq!((looked_at(&of_user[pages - 1]), looked_at(&late)), (1024, 1024));
        let all = processes.all();
        let of_user = all.iter().filter(|process| process.who.uid == 7);
        assert_eq!(of_user.map(|process| process.used()).sum::<usize>(), MOST_SLOTS_OF_USER);
    }
}
