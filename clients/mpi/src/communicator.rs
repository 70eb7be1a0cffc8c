//! What there is once for each communicator of the program: an attribute of it, which goes when it does.
//!
//! Unsafe because an attribute is a pointer, which MPI hands back.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use mgcomp_selector::StreamId;
use mgcomp_transport::attach::{Comparisons, To, UnderWay};

use crate::engine::{AT_ONCE, Compared, Kind};
use crate::failure::Failure;
use crate::freed;
use crate::layer::{self, Layer};
use crate::mpi::Mpi;
use crate::rate::Rate;
use crate::types::Comm;

/// So many communicators of the program have a second one for messages between two ranks; on the others broadcasts alone are carried
/// out here. MPIs have few to give, MPICH about 2,000, and a program ends where it asks for one more.
const MOST_SHADOWS: u32 = 256;

/// A communicator on which collectives are compressed.
#[derive(Debug)]
pub(crate) struct Communicator {
    mpi: Mpi,
    pub(crate) comm: Comm,
    pub(crate) size: c_int,
    pub(crate) rank: c_int,
    /// What its ranks are in the world; empty where compression is not possible.
    in_world: Vec<c_int>,
    /// Messages between two ranks go by this one, so that they never meet the program's. None where there are too many already.
    shadow: OnceLock<Option<Comm>>,
    pub(crate) rate: Rate,
    comparisons: Comparisons<Compared>,
    /// The first of its streams of traffic.
    pub(crate) stream: u32,
}

impl Communicator {
    /// That of `comm`, made when it is first asked for. `None` if the program has freed it.
    pub(crate) fn of(layer: &Layer, comm: Comm) -> Result<Option<Arc<Self>>, Failure> {
        if let Some(attribute) = layer.mpi.attribute(comm, layer.keyval)? {
            if attribute == freed::nothing() {
                return Ok(None);
            }
            let known = attribute.cast_const().cast::<Self>();
            // SAFETY: put there by `into_raw` below, and there until the program frees its communicator, which it does not
            // while it is in a collective on it.
            unsafe {
                Arc::increment_strong_count(known);
                return Ok(Some(Arc::from_raw(known)));
            }
        }
        let new = Arc::new(Self::new(layer, comm)?);
        let attribute = Arc::into_raw(new.clone());
        layer.mpi.set_attribute(comm, layer.keyval, attribute.cast_mut().cast()).inspect_err(|_| {
            // SAFETY: MPI did not take it.
            drop(unsafe { Arc::from_raw(attribute) });
        })?;
        Ok(Some(new))
    }

    fn new(layer: &Layer, comm: Comm) -> Result<Self, Failure> {
        let mpi = layer.mpi;
        let (size, rank) = mpi.position(comm)?;
        let is_possible = size > 1 && !mpi.is_between_groups(comm)?;
        let in_world = match is_possible {
            true => mpi.ranks_in(mpi.constants.comm_world, comm, size)?,
            false => Vec::new(),
        };
        // Ranks of another world may run without this library; those of it see such ranks too.
        let in_world = if in_world.iter().all(|rank| *rank >= 0) { in_world } else { Vec::new() };
        let (shadow, rate, comparisons) = (OnceLock::new(), Rate::default(), Comparisons::default());
        let stream = layer.new_streams();
        Ok(Self { mpi, comm, size, rank, in_world, shadow, rate, comparisons, stream })
    }

    /// Whether collectives on it can be compressed; the same on all of its ranks.
    pub(crate) fn is_possible(&self) -> bool {
        !self.in_world.is_empty()
    }

    /// Whether it has a rank of that number.
    pub(crate) fn has(&self, rank: c_int) -> bool {
        (0..self.size).contains(&rank)
    }

    /// What its rank is in the world.
    pub(crate) fn peer(&self, rank: c_int) -> u32 {
        self.in_world.get(rank as usize).map_or(u32::MAX, |rank| *rank as u32)
    }

    /// Where what goes to `to`, the other ranks' one to speak of, goes as a part of such a collective, as the policy is told.
    pub(crate) fn way(&self, kind: Kind, to: c_int) -> To {
        let stream = StreamId(self.stream + kind as u32);
        To { peer: self.peer(to), stream, element: None, link: self.rate.facts() }
    }

    /// The rank behind this one.
    pub(crate) fn next(&self) -> c_int {
        (self.rank + 1) % self.size
    }

    /// The rank before this one.
    pub(crate) fn before(&self) -> c_int {
        (self.rank + self.size - 1) % self.size
    }

    /// The others, in the order in which this rank meets them: in step s, rank r meets rank s − r, so all are in pairs all the
    /// time.
    pub(crate) fn partners(&self) -> impl Iterator<Item = c_int> + use<> {
        self.turns().flatten()
    }

    /// The same in turns of some: a rank that this one meets in a turn meets it in the same.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Vec<c_int>> + use<> {
        turns(self.size, self.rank)
    }

    /// Whether there is to be no communicator for messages between two ranks, which all of them know then.
    pub(crate) fn has_no_shadow(&self) -> bool {
        matches!(self.shadow.get(), Some(None))
    }

    /// The communicator for messages between two ranks, if there is to be one, which is the same on all of them. They ask for it at
    /// the same collective.
    pub(crate) fn shadow(&self, layer: &Layer) -> Result<Option<Comm>, Failure> {
        if let Some(shadow) = self.shadow.get() {
            return Ok(*shadow);
        }
        let is_full = layer.shadows.load(Ordering::Relaxed) >= MOST_SHADOWS;
        let mut are_full = vec![0; self.size as usize];
        self.mpi.allgather(&[u8::from(is_full)], &mut are_full, self.comm)?;
        let shadow = match are_full.contains(&1) {
            true => None,
            false => Some(self.mpi.shadow(self.comm, self.rank)?),
        };
        layer.shadows.fetch_add(u32::from(shadow.is_some()), Ordering::Relaxed);
        Ok(*self.shadow.get_or_init(|| shadow))
    }

    /// Does a collective on so many bytes, which all ranks are about to do alike. What fails on this rank alone is for `work` to return: its error
    /// leaves the others alone with what they would tell each other.
    pub(crate) fn compared<T>(
        &self,
        compared: Compared,
        bytes: usize,
        work: impl FnOnce(&UnderWay) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.comparisons.compared(compared, bytes as u64, work, |report| {
            let mut all = vec![0; report.len() * self.size as usize];
            self.mpi.allgather(report, &mut all, self.comm)?;
            Ok(all)
        })
    }
}

fn turns(size: c_int, rank: c_int) -> impl Iterator<Item = Vec<c_int>> + use<> {
    (0..size).step_by(AT_ONCE).map(move |first| {
        let steps = first..size.min(first.saturating_add(AT_ONCE as c_int));
        steps.map(|step| (step - rank).rem_euclid(size)).filter(|peer| *peer != rank).collect()
    })
}

/// MPI calls this when a communicator is copied: the copy gets one of its own, once it is used.
pub(crate) unsafe extern "C" fn copy(
    _: Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a place for it.
    unsafe { *flag = 0 };
    0
}

/// MPI calls this when a communicator is freed, or just before.
pub(crate) unsafe extern "C" fn delete(
    comm: Comm,
    _: c_int,
    attribute: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if attribute == freed::nothing() {
        if let Some(layer) = layer::active() {
            freed::goes(&layer.mpi, layer.mpi.comm(comm));
        }
        return 0;
    }
    // SAFETY: put there by `into_raw`, once, and MPI hands it back once.
    let gone = unsafe { Arc::from_raw(attribute.cast_const().cast::<Communicator>()) };
    // Where MPI ends, what is left of it goes with it.
    if let Some(layer) = layer::active() {
        layer.give_streams(gone.stream);
        if let Some(Some(shadow)) = gone.shadow.get() {
            gone.mpi.free(*shadow);
            layer.shadows.fetch_sub(1, Ordering::Relaxed);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_meet_in_the_same_turn_and_each_once() {
        assert_eq!(turns(2, 0).collect::<Vec<_>>(), [[1]]);
        assert_eq!(turns(6, 1).collect::<Vec<_>>(), [vec![5, 0, 2], vec![3, 4]]);
        for size in 2..20 {
            let turn_of = |rank, peer| turns(size, rank).position(|peers| peers.contains(&peer));
            for rank in 0..size {
                let mut peers: Vec<c_int> = turns(size, rank).flatten().collect();
                peers.sort_unstable();
                assert_eq!(peers, (0..size).filter(|peer| *peer != rank).collect::<Vec<_>>());
                assert!(
                    peers.iter().all(|peer| turn_of(rank, *peer) == turn_of(*peer, rank)),
                    "{rank} of {size}"
                );
                assert!(turns(size, rank).all(|peers| peers.len() <= AT_ONCE));
            }
        }
    }
}
