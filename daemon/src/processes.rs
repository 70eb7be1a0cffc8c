//! The processes that have handed over their pages.
//!
//! Whoever may hand over pages may say that all of their slots are in use, and each that is looked at takes memory here: in
//! every snapshot, and in the page itself, whose memory is there once somebody reads it. So no more than
//! [`MOST_SLOTS_OF_USER`] are looked at of one user, and no file twice.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use mgcomp_transport::control::{Identity, Page, PageError, SlotIdentity, SlotKind, SlotView};
use rustix::process::Pid;
use tokio::sync::Notify;

use crate::config::Config;
use crate::crowd::Crowd;
use crate::gone::Gone;
use crate::settings::{Scope, Scopes};
use crate::snapshot::{JobOf, Totals, counting, slots_of};

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
    pub(crate) is_operator: bool,
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
    /// How many slots it had at the last look, and how many of these are looked at: the first ones.
    in_use: AtomicUsize,
    looked_at: AtomicUsize,
    /// What those that are looked at had counted before anybody could look. Whoever looks at further ones holds it.
    brought: Mutex<Totals>,
    /// To how many of these settings have been written. Whoever writes any holds it.
    written: Mutex<usize>,
}

/// All that are connected, and what those have counted that were.
#[derive(Debug, Default)]
struct Known {
    connected: BTreeMap<u64, Arc<Process>>,
    gone: Arc<Gone>,
    /// How many slots of each user are looked at, operators apart.
    slots: HashMap<u32, usize>,
    /// Users of whom it has been said that further ones are not.
    left_out: BTreeSet<u32>,
}

/// All that have handed over their pages.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: RwLock<Known>,
    /// Slots are looked at that were not before, and whose settings are still to be written.
    granted: Notify,
    adopted: AtomicU64,
    refused: AtomicU64,
    /// Jobs of which it is forgotten what processes had counted that are gone.
    forgotten: Crowd,
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
        let Owner { uid, pid, is_operator } = owner;
        let looked_at = self.write(|known| known.grant((!is_operator).then_some(uid), used));
        let brought = Totals::of(&slots_of(&page, looked_at));
        let process = Arc::new(Process {
            who: Arc::new(Who { id, identity, pid, uid, is_operator }),
            page,
            gone: Notify::new(),
            in_use: AtomicUsize::new(used),
            looked_at: AtomicUsize::new(looked_at),
            brought: Mutex::new(brought),
            written: Mutex::default(),
        });
        process.apply(scopes);
        self.write(|known| {
            // Looked at here, where nobody else comes in between.
            let room = known.room_for(&process, config);
            match &room {
                Ok(()) => {
                    known.connected.insert(id, process.clone());
                    known.say_if_left_out(&process);
                }
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

    /// A process is gone. What it has counted stays, while there are others of its user and job.
    pub(crate) fn remove(&self, process: &Process) {
        let used = process.used();
        let mut slots = slots_of(&process.page, used);
        let job = process.who.job_of();
        let forgotten = self.write(|known| {
            if known.connected.remove(&process.who.id).is_none() {
                return Vec::new();
            }
            if process.used() > used {
                slots = process.slots(); // somebody has looked at further ones meanwhile, and has told of them
            }
            known.give_back(process);
            let Known { connected, gone, .. } = known;
            // Whoever looks at what was there goes on with that.
            match connected.values().any(|other| other.who.job_of() == job) {
                true => {
                    let slots = counting(&slots).map(|(_, slot)| slot);
                    Arc::make_mut(gone).add(job, process.who.bounded(), slots)
                }
                false => {
                    Arc::make_mut(gone).forget(job);
                    Vec::new()
                }
            }
        });
        for (uid, job) in forgotten {
            self.forgotten.said(|jobs| {
                tracing::warn!(
                    jobs,
                    uid,
                    job,
                    "what processes of jobs have counted that are gone is forgotten"
                );
            });
        }
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
        let (connected, gone, granted) = self.write(|known| {
            let connected: Vec<_> = known.connected.values().cloned().collect();
            let granted: usize = connected.iter().map(|process| known.look_again(process)).sum();
            let has_some =
                |uid: &u32| connected.iter().any(|process| process.who.uid == *uid && process.left_out() > 0);
            known.left_out.retain(has_some);
            (connected, known.gone.clone(), granted)
        });
        if granted > 0 {
            self.granted.notify_one();
        }
        (connected, gone)
    }

    /// Slots that are not looked at, since their users have too many.
    pub(crate) fn left_out(&self) -> usize {
        self.read(|known| known.connected.values().map(|process| process.left_out()).sum())
    }

    /// Writes what holds now into every page.
    pub(crate) fn apply(&self, scopes: &Scopes) {
        self.all().iter().for_each(|process| process.apply(scopes));
    }

    /// Waits until slots are looked at that were not when settings were last written. For one who waits.
    pub(crate) async fn granted(&self) {
        self.granted.notified().await;
    }

    /// Writes what holds now into the pages that have such slots.
    pub(crate) fn apply_to_granted(&self, scopes: &Scopes) {
        let all = self.all();
        all.iter().filter(|process| process.is_behind()).for_each(|process| process.apply(scopes));
    }

    /// Whether anything here is in `scope`.
    pub(crate) fn has(&self, scope: &Scope) -> bool {
        let Some(job) = &scope.job else { return true };
        let all = self.all();
        let mut of_job = all.iter().filter(|process| process.who.identity.job == *job);
        match scope.peer {
            None => of_job.next().is_some(),
            Some(peer) => of_job.any(|process| process.may_have(peer, scope.stream)),
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
        let (most, most_of_user) = (config.max_processes, config.most_of_user(process.who.is_operator));
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

    /// How many of so many more slots of a user may be looked at; `None` = of an operator.
    fn grant(&mut self, bounded: Option<u32>, more: usize) -> usize {
        let Some(uid) = bounded.filter(|_| more > 0) else { return more };
        let of_user = self.slots.entry(uid).or_default();
        let granted = more.min(MOST_SLOTS_OF_USER.saturating_sub(*of_user));
        *of_user += granted;
        granted
    }

    /// Returns how many slots of the process are looked at that were not before.
    fn look_again(&mut self, process: &Process) -> usize {
        // Once granted they stay: a process cannot have fewer slots than it had.
        let (in_use, looked_at) = (process.page.used(), process.used());
        let granted = self.grant(process.who.bounded(), in_use.saturating_sub(looked_at));
        process.look_at(granted);
        process.in_use.store(in_use.max(looked_at), Ordering::Relaxed);
        self.say_if_left_out(process);
        granted
    }

    /// Says that slots of a process are not looked at, once of each user until all of them are again.
    fn say_if_left_out(&mut self, process: &Process) {
        let Who { uid, identity, .. } = &*process.who;
        if process.left_out() > 0 && self.left_out.insert(*uid) {
            tracing::warn!(
                uid,
                job = identity.job,
                "{MOST_SLOTS_OF_USER} slots of this user are looked at, and no more: what others count is not seen, and they \
                 go by what is set for their job; name the user in `operators` if it may have more"
            );
        }
    }

    /// The slots of a process count no more among its user's. Whoever looks at them still goes on with that.
    fn give_back(&mut self, process: &Process) {
        let Some(uid) = process.who.bounded() else { return };
        if let Some(of_user) = self.slots.get_mut(&uid) {
            *of_user = of_user.saturating_sub(process.used());
            if *of_user == 0 {
                self.slots.remove(&uid);
            }
        }
    }
}

impl Who {
    pub(crate) fn job_of(&self) -> JobOf<'_> {
        JobOf { job: &self.identity.job, uid: self.uid }
    }

    /// The user against whose bounds it counts; `None` = nobody, since it is an operator's.
    pub(crate) fn bounded(&self) -> Option<u32> {
        (!self.is_operator).then_some(self.uid)
    }
}

impl Process {
    /// How many of its slots are looked at: the first ones.
    pub(crate) fn used(&self) -> usize {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// How many it had at the last look.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    fn left_out(&self) -> usize {
        self.in_use().saturating_sub(self.used())
    }

    /// What they say, and the slot of all other streams.
    pub(crate) fn slots(&self) -> Box<[(usize, SlotView)]> {
        slots_of(&self.page, self.used())
    }

    /// The same, and what of that was counted before anybody could look.
    pub(crate) fn slots_and_brought(&self) -> (Box<[(usize, SlotView)]>, Totals) {
        let (used, brought) = {
            let brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
            (self.used(), brought.clone())
        };
        (slots_of(&self.page, used), brought)
    }

    /// Looks at so many further slots. Those that were there at the last look have counted all along; others are new.
    fn look_at(&self, further: usize) {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        let looked_at = self.used();
        let late = looked_at..(looked_at + further).min(self.in_use());
        late.filter_map(|slot| self.page.view(slot)).for_each(|slot| brought.add(&slot, None));
        self.looked_at.store(looked_at + further, Ordering::Relaxed);
    }

    /// Writes what holds now into the page.
    pub(crate) fn apply(&self, scopes: &Scopes) {
        let settings = scopes.of_job(&self.who.identity.job);
        // Held, so that nobody takes for left out what somebody else has written since.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.used();
        self.page.set(None, &settings.job);
        for slot in 0..used {
            if let Some(view) = self.page.whose(slot).filter(|whose| whose.kind == SlotKind::Sent) {
                self.page.set(Some(slot), &settings.stream(view.peer, view.stream));
            }
        }
        // A daemon before this one may have looked at them, and what it has written there would stay for ever.
        (used..self.page.used()).for_each(|slot| self.page.unset(slot));
        self.page.set(Some(Page::other()), &settings.job);
        *written = used;
    }

    /// Whether it has slots that are looked at, but were not when settings were last written.
    fn is_behind(&self) -> bool {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) < self.used()
    }

    /// Whether it has a slot of this peer, or some that are not looked at: to read whose those are would take the memory that
    /// their user is not to have taken.
    fn may_have(&self, peer: u32, stream: Option<u32>) -> bool {
        let of_peer = |whose: SlotIdentity| {
            whose.kind.has_peer()
                && whose.peer == peer
                && stream.is_none_or(|stream| whose.kind == SlotKind::Sent && whose.stream == stream)
        };
        self.left_out() > 0 || (0..self.used()).filter_map(|slot| self.page.whose(slot)).any(of_peer)
    }
}
