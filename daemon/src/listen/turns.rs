//! Turns at what may hold up a thread for as long as somebody likes: so many of one user, and so many in all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};

/// Places that each user has so many of, and nobody takes those of others.
#[derive(Debug)]
pub(crate) struct OfUsers {
    most: usize,
    /// Of users who have or wait for a place.
    users: Mutex<HashMap<u32, Weak<Semaphore>>>,
}

impl OfUsers {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, users: Mutex::default() }
    }

    /// The places of a user.
    pub(super) fn of(&self, uid: u32) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = users.get(&uid).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(self.most));
        users.insert(uid, Arc::downgrade(&places));
        places
    }
}

/// Turns of one user at the same time.
const OF_USER: usize = 4;
/// Turns of all users but operators: far fewer than there are threads, which settings are written on as well.
const OF_ALL: usize = 64;

/// Who may go on.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    users: OfUsers,
    /// Connections that wait for a turn to be closed, or have it.
    pub(super) parked: watch::Sender<usize>,
}

/// Over when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _of_user: OwnedSemaphorePermit,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(OF_ALL)),
            users: OfUsers::new(OF_USER),
            parked: watch::Sender::default(),
        }
    }
}

impl Turns {
    /// Waits for a turn of this user. Operators wait for nobody else.
    pub(super) async fn take(&self, uid: u32, is_operator: bool) -> Result<Turn, AcquireError> {
        // In this order, so that whoever waits for turns of its own takes none away from others.
        let of_user = self.users.of(uid).acquire_owned().await?;
        let of_all = match is_operator {
            true => None,
            false => Some(self.all.clone().acquire_owned().await?),
        };
        Ok(Turn { _of_user: of_user, _of_all: of_all })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A turn, if there is one to be had at once.
    async fn at_once(turns: &Turns, uid: u32) -> Option<Turn> {
        tokio::time::timeout(Duration::ZERO, turns.take(uid, false)).await.ok()?.ok()
    }

    #[tokio::test]
    async fn a_user_takes_no_turns_of_others() {
        let turns = Turns::default();
        let mut held = Vec::new();
        while let Some(turn) = at_once(&turns, 7).await {
            held.push(turn);
        }
        assert_eq!(held.len(), OF_USER);
        assert!(at_once(&turns, 8).await.is_some());
        held.pop();
        assert!(at_once(&turns, 7).await.is_some());
    }

    #[tokio::test]
    async fn many_users_do_not_take_all_threads() {
        let turns = Turns::default();
        let mut held = Vec::new();
        for uid in 0..1000 {
            held.extend(at_once(&turns, uid).await);
        }
        assert_eq!(held.len(), OF_ALL);
        let operator = tokio::time::timeout(Duration::ZERO, turns.take(1000, true)).await;
        assert!(operator.is_ok_and(|turn| turn.is_ok()), "an operator waits for others");
        held.clear();
        assert!(at_once(&turns, 0).await.is_some());
        assert_eq!(turns.users.users.lock().unwrap().len(), 1, "users who are gone are forgotten");
    }
}
