//! Ranks of a communicator that are threads of one process, and where they wait for each other on the host.
//!
//! To allocate memory and to load kernels the driver may wait for all that a device does, and for what those do that share
//! memory with it, as NCCL has devices of one process do. If a kernel of NCCL's spins on one of these until this rank has made
//! its own call, neither ever ends. So nobody enqueues what another rank of the process takes part in before that one has
//! allocated all that it needs for it. Devices of other processes are waited for by no allocation here.
//!
//! Nobody knows of another rank whether it allocates: which codecs it uses is its own affair, and what room it has depends on
//! calls with others. So they wait each time, where a call waits for the same ranks anyway: before headers go ahead, and before
//! what these announce. Only for the numbers of reductions do all find room in the same calls, and wait in no other.
//!
//! Plain calls wait for nobody on the host, and nothing is allocated for them. Collectives are safe all the same, since ranks
//! make them in one order: who allocates has enqueued all that others have come to by then. A plain message is not, to or from
//! a rank that first makes a call with others in which it allocates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::handle::Handle;
use super::{NcclError, UniqueId};

/// Where ranks of this process meet, by the communicator's id.
static PLACES: Mutex<BTreeMap<[u8; 128], Arc<Place>>> = Mutex::new(BTreeMap::new());

/// By rank: how often it has come to wait for each other one.
type Visits = BTreeMap<u32, BTreeMap<u32, u64>>;

/// Where the ranks of one communicator meet that are in this process.
#[derive(Debug, Default)]
struct Place(Mutex<Visits>);

impl Place {
    fn visits(&self) -> MutexGuard<'_, Visits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank among those of its process. It leaves when dropped, and nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Neighbours {
    id: UniqueId,
    rank: u32,
    place: Arc<Place>,
}

impl Neighbours {
    /// Joins before the communicator is made: when it is, all have joined.
    pub(super) fn join(id: UniqueId, rank: u32) -> Self {
        let place = Arc::clone(places().entry(id.to_bytes()).or_default());
        place.visits().insert(rank, BTreeMap::new());
        Self { id, rank, place }
    }

    /// Waits until those of `peers` that are in this process have come to the same point of a call that both ends of each pair
    /// make. This rank says of itself that it allocates nothing more before it has enqueued what comes next.
    pub(super) fn meet(
        &self,
        handle: &Handle,
        peers: impl IntoIterator<Item = u32>,
    ) -> Result<(), NcclError> {
        let mut awaited = self.come(peers);
        handle.until("the other ranks of this process", || {
            self.forget_who_came(&mut awaited);
            if awaited.is_empty() {
                return Ok(true);
            }
            // It may be that one of them has failed, and does not come.
            handle.check().map(|()| false)
        })
    }

    /// Says that this rank has come. Returns who is waited for, and how often they must have come for it.
    fn come(&self, peers: impl IntoIterator<Item = u32>) -> BTreeMap<u32, u64> {
        let mut visits = self.place.visits();
        // Most are the only one in their process.
        if visits.len() < 2 {
            return BTreeMap::new();
        }
        let is_here = |peer: &u32| *peer != self.rank && visits.contains_key(peer);
        let mut awaited: BTreeMap<_, _> = peers.into_iter().filter(is_here).map(|peer| (peer, 0)).collect();
        let own = visits.entry(self.rank).or_default();
        for (peer, needed) in &mut awaited {
            let count = own.entry(*peer).or_default();
            *count += 1;
            *needed = *count;
        }
        awaited
    }

    /// Leaves those who are yet to come, unless they have left for good.
    fn forget_who_came(&self, awaited: &mut BTreeMap<u32, u64>) {
        let visits = self.place.visits();
        awaited.retain(|peer, needed| {
            let theirs = visits.get(peer);
            theirs.is_some_and(|theirs| theirs.get(&self.rank).copied().unwrap_or(0) < *needed)
        });
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        // Nobody joins meanwhile.
        let mut places = places();
        let mut visits = self.place.visits();
        visits.remove(&self.rank);
        if visits.is_empty() {
            places.remove(&self.id.to_bytes());
        }
    }
}

fn places() -> MutexGuard<'static, BTreeMap<[u8; 128], Arc<Place>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(id: u8, rank: u32) -> Neighbours {
        Neighbours::join(UniqueId::from_bytes([id; 128]), rank)
    }

    /// Whether these are the ones that are still waited for.
    fn waits_for(rank: &Neighbours, awaited: &mut BTreeMap<u32, u64>, expected: &[u32]) -> bool {
        rank.forget_who_came(awaited);
        awaited.keys().eq(expected)
    }

    #[test]
    fn each_pair_counts_by_itself() {
        let [a, b, c] = [0, 1, 2].map(|rank| join(1, rank));
        // Rank 3 is in another process.
        let mut all = a.come(0..4);
        assert!(waits_for(&a, &mut all, &[1, 2]));
        let mut first = b.come([0]);
        assert!(waits_for(&a, &mut all, &[2]) && waits_for(&b, &mut first, &[]));
        // To others once more, of whom one has come only once.
        let mut second = b.come([0, 2]);
        let mut of_c = c.come(0..4);
        assert!(waits_for(&a, &mut all, &[]) && waits_for(&b, &mut second, &[0]));
        assert!(waits_for(&c, &mut of_c, &[]));
        let mut again = a.come([1]);
        assert!(waits_for(&a, &mut again, &[]) && waits_for(&b, &mut second, &[]));
    }

    #[test]
    fn who_is_alone_or_gone_is_not_waited_for() {
        let a = join(2, 0);
        let other = join(3, 1);
        assert_eq!(a.come(0..4), BTreeMap::new());
        let b = join(2, 1);
        let mut both = a.come(0..4);
        assert!(waits_for(&a, &mut both, &[1]));
        drop(b);
        assert!(waits_for(&a, &mut both, &[]));
        let id = a.id.to_bytes();
        drop((a, other));
        assert!(!places().contains_key(&id));
    }
}
