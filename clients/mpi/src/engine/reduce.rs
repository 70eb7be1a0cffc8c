//! Reductions: every rank gets the values of all ranks for its part of the result, reduces them, and hands the part on. MPI
//! itself reckons.
//!
//! Values are reduced from the last rank to the first, `a0 ∘ (a1 ∘ (a2 ∘ …))`, however long they are, however they travel and
//! wherever the result goes. So floats have the same bits on all ranks and in all runs; they need not be those of MPI's own
//! reductions, which take another order.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use mgcomp_transport::attach::UnderWay;

use super::allgather::allgather_part;
use super::exchange::{Exchange, Step};
use super::{Compared, Kind, Verdict};
use crate::blocks::{Blocks, Numbers};
use crate::communicator::Communicator;
use crate::data::Data;
use crate::failure::{Came, Failure, told};
use crate::layer::Layer;
use crate::mpi::Shape;
use crate::types::{Comm, Op};

/// Memory for what comes from all ranks at once.
const AT_ONCE: usize = 256 << 20;

/// Values of each rank, by number.
type Parts = Vec<Range<i64>>;

/// A reduction, as one rank calls it.
#[derive(Debug)]
pub(crate) struct Reduction<'a> {
    layer: &'a Layer,
    pub(crate) comm: Arc<Communicator>,
    shadow: Comm,
    op: Op,
    /// This rank's values.
    values: Data,
    shape: Shape,
    /// Which of them are whose part of the result.
    parts: Parts,
}

impl<'a> Reduction<'a> {
    /// `None` where MPI's own is to be called.
    pub(crate) fn begin(
        layer: &'a Layer,
        comm: Comm,
        op: Op,
        values: Data,
        split: Split,
    ) -> Result<Option<Self>, Failure> {
        let op = layer.mpi.op(op);
        if !layer.reductions.as_ref().is_some_and(|known| known.have(op, values.datatype())) {
            return Ok(None);
        }
        let Some(comm) = layer.communicator(comm)? else { return Ok(None) };
        let Some(longest) = split.longest(comm.size) else { return Ok(None) };
        if !layer.is_long(layer.len(&Data::new(values.address(), longest, values.datatype()))?) {
            return Ok(None);
        }
        let shape = layer.usable(&values)?.filter(|shape| shape.is_dense);
        let Some((shape, parts)) = shape.zip(split.parts(comm.size)) else { return Ok(None) };
        let Some(shadow) = comm.shadow(layer)? else { return Ok(None) };
        Ok(Some(Self { layer, comm, shadow, op, values, shape, parts }))
    }

    /// Brings all of the result to all.
    pub(crate) fn to_all(&self, into: &Data) -> Result<Verdict, Failure> {
        let came: Came = self.comm.compared(Compared::Allreduce, self.len(), |collective| {
            let (mut own, mut others) = (Ok(()), Ok(()));
            for parts in self.rounds() {
                let (result, came) = self.reduce(&parts, Some(collective))?;
                let place = into.part(&parts[self.rank()], &self.shape);
                own = own.and(came).and_then(|()| self.layer.put(&result, &place, self.shape));
                self.layer.pool.give(result);
                others = others.and(self.share(into, &parts, collective)?);
            }
            let all = self.all_have(&own)?;
            Ok(own.and(all).and(others))
        })?;
        came.map(|()| Verdict::Done(0))
    }

    /// Brings all of the result to the rank that has `into`: the `root`.
    pub(crate) fn to_root(&self, root: c_int, into: Option<&Data>) -> Result<Verdict, Failure> {
        let mut came = Ok(());
        for parts in self.rounds() {
            // Not compared, as gathers are not.
            let (mut result, part) = self.reduce(&parts, None)?;
            let is_spoiled = part.is_err();
            came = came.and(part);
            let place = |rank: c_int| into.map(|into| into.part(&parts[rank as usize], &self.shape));
            match place(root) {
                Some(own) => {
                    came = came.and_then(|()| self.layer.put(&result, &own, self.shape));
                    for peers in self.comm.turns() {
                        let step = |peer| Step { peer, send: None, receive: place(peer), is_spoiled: false };
                        let steps: Vec<_> = peers.into_iter().map(step).collect();
                        came = came.and(self.exchange(&steps, None)?);
                    }
                }
                None => {
                    let part = self.data(&mut result);
                    let step = Step { peer: root, send: Some(part), receive: None, is_spoiled };
                    came = came.and(self.exchange(&[step], None)?);
                }
            }
            self.layer.pool.give(result);
        }
        came.map(|()| Verdict::Done(0))
    }

    /// Brings to each rank its part of the result, to the front of `into`.
    pub(crate) fn to_each(&self, into: &Data) -> Result<Verdict, Failure> {
        let is_in_place = into.address() == self.values.address();
        let own = &self.parts[self.rank()];
        let came: Came = self.comm.compared(Compared::ReduceScatter, self.len(), |collective| {
            let (mut kept, mut came) = (Vec::new(), Ok(()));
            for parts in self.rounds() {
                let part = &parts[self.rank()];
                let (result, all_came) = self.reduce(&parts, Some(collective))?;
                came = came.and(all_came);
                match is_in_place {
                    // There are values that others have yet to get.
                    true => kept.extend_from_slice(&result),
                    false => {
                        let place = into.part(&(part.start - own.start..part.end - own.start), &self.shape);
                        came = came.and_then(|()| self.layer.put(&result, &place, self.shape));
                    }
                }
                self.layer.pool.give(result);
            }
            let place = into.part(&(0..own.end - own.start), &self.shape);
            Ok(match is_in_place {
                true => came.and_then(|()| self.layer.put(&kept, &place, self.shape)),
                false => came,
            })
        })?;
        came.map(|()| Verdict::Done(0))
    }

    /// Whether nothing of the result is this rank's alone.
    pub(crate) fn has_no_part(&self) -> bool {
        self.parts[self.rank()].is_empty()
    }

    fn rank(&self) -> usize {
        self.comm.rank as usize
    }

    /// Bytes of all parts.
    fn len(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end as usize).saturating_mul(self.shape.size as usize)
    }

    /// The parts in pieces, so that memory for what comes from all ranks is bounded.
    fn rounds(&self) -> impl Iterator<Item = Parts> {
        let step = (AT_ONCE as u64 / self.comm.size as u64 / self.shape.size).max(1) as i64;
        let longest = self.parts.iter().map(|part| part.end - part.start).max().unwrap_or(0);
        (0..longest.unsigned_abs().div_ceil(step.unsigned_abs()) as i64).map(move |round| {
            let piece = |part: &Range<i64>| {
                let start = part.end.min(part.start + round * step);
                start..part.end.min(start + step)
            };
            self.parts.iter().map(piece).collect()
        })
    }

    /// Exchanges values for the parts of a round; returns this rank's, reduced, which is good for nothing if not all came.
    fn reduce(
        &self,
        parts: &[Range<i64>],
        collective: Option<&UnderWay>,
    ) -> Result<(Vec<u8>, Came), Failure> {
        let own = self.values.part(&parts[self.rank()], &self.shape);
        let len = own.len(&self.shape);
        let mut rooms: Vec<Vec<u8>> = parts.iter().map(|_| self.layer.pool.take(len)).collect();
        let mut came = Ok(());
        for peers in self.comm.turns() {
            let step = |peer: c_int| {
                let room = self.data(&mut rooms[peer as usize]);
                let values = self.values.part(&parts[peer as usize], &self.shape);
                Step { peer, send: Some(values), receive: Some(room), is_spoiled: false }
            };
            let steps: Vec<_> = peers.into_iter().map(step).collect();
            came = came.and(self.exchange(&steps, collective)?);
        }
        came = came.and_then(|()| self.fold(&own, &mut rooms));
        let result = rooms.pop().unwrap_or_default();
        rooms.into_iter().for_each(|room| self.layer.pool.give(room));
        Ok((result, came))
    }

    /// Reduces this rank's own values and those of the others, which are in `rooms`, into the last of these.
    fn fold(&self, own: &Data, rooms: &mut [Vec<u8>]) -> Came {
        let bytes = own.host_bytes(&self.shape, self.layer)?;
        rooms[self.rank()].copy_from_slice(bytes.as_slice().unwrap_or_default());
        let of = (own.count() as usize, own.datatype());
        let Some((result, others)) = rooms.split_last_mut() else { return Ok(()) };
        others.iter().rev().try_for_each(|room| self.layer.mpi.reduce(room, result, of, self.op))
    }

    /// Whether every rank had its part of the result to share: what others got of one that had not is good for nothing either,
    /// and does not say so.
    fn all_have(&self, own: &Came) -> Result<Came, Failure> {
        let mut all = vec![0; self.comm.size as usize];
        self.layer.mpi.allgather(&[u8::from(own.is_err())], &mut all, self.comm.comm)?;
        let spoiled = all.iter().position(|is_spoiled| *is_spoiled != 0);
        Ok(spoiled.map_or(Ok(()), |rank| Err(Failure::Spoiled { rank: rank as c_int })))
    }

    /// All have their parts of a round in `into`, and get those of the others.
    fn share(&self, into: &Data, parts: &[Range<i64>], collective: &UnderWay) -> Result<Came, Failure> {
        let places: Vec<i64> = parts.iter().map(|part| part.start).collect();
        let counts: Vec<i64> = parts.iter().map(|part| part.end - part.start).collect();
        let blocks = Blocks {
            address: into.address(),
            counts: Numbers::Longs(counts.as_ptr()),
            places: Numbers::Longs(places.as_ptr()),
            datatype: into.datatype(),
        };
        let plain = || self.layer.mpi.allgather_in_place(&blocks, self.comm.size, self.comm.comm);
        let (code, came) = allgather_part(self.layer, &blocks, &self.comm, collective, plain)?;
        told(code)?;
        Ok(came)
    }

    fn exchange(&self, steps: &[Step], collective: Option<&UnderWay>) -> Result<Came, Failure> {
        let exchange = Exchange {
            layer: self.layer,
            comm: &self.comm,
            shadow: self.shadow,
            kind: Kind::Reduce,
            sent: self.shape,
            received: self.shape,
            is_in_place: false,
            collective,
        };
        exchange.run(steps)
    }

    /// Values in memory of this library's.
    fn data(&self, bytes: &mut [u8]) -> Data {
        let count = bytes.len() as u64 / self.shape.size;
        Data::new(bytes.as_mut_ptr().cast(), count as i64, self.values.datatype())
    }
}

/// How a result is split into the parts of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Split {
    /// So many values, as evenly as can be.
    Even(i64),
    /// So many for each rank.
    Counted(Numbers),
}

impl Split {
    /// Values in the longest part; `None` if MPI would not take them.
    fn longest(&self, ranks: c_int) -> Option<i64> {
        match *self {
            Self::Even(count) => {
                (count >= 0).then(|| count / i64::from(ranks) + i64::from(count % i64::from(ranks) > 0))
            }
            Self::Counted(counts) if counts.are_there() => {
                let counts = || (0..ranks).map(|rank| counts.at(rank));
                counts().max().filter(|_| counts().all(|count| count >= 0))
            }
            Self::Counted(_) => None,
        }
    }

    /// The parts, if they are fewer values than there are numbers.
    fn parts(&self, ranks: c_int) -> Option<Parts> {
        let mut end = 0i64;
        let part = |rank| {
            let start = end;
            let count = match *self {
                Self::Even(count) => {
                    count / i64::from(ranks) + i64::from(i64::from(rank) < count % i64::from(ranks))
                }
                Self::Counted(counts) => counts.at(rank),
            };
            end = start.checked_add(count)?;
            Some(start..end)
        };
        (0..ranks).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_even_as_they_can_be() {
        assert_eq!(Split::Even(8).parts(3).unwrap(), [0..3, 3..6, 6..8]);
        assert_eq!(Split::Even(2).parts(4).unwrap(), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(Split::Even(i64::MAX).parts(7).unwrap()[6].end, i64::MAX);
        assert_eq!((Split::Even(8).longest(3), Split::Even(9).longest(3)), (Some(3), Some(3)));
        assert_eq!(Split::Even(-1).longest(3), None);
    }

    #[test]
    fn parts_are_as_long_as_the_call_says() {
        let (counts, wrong) = ([3i32, 0, 4], [3i64, -1, 4]);
        let ints = Split::Counted(Numbers::Ints(counts.as_ptr()));
        assert_eq!((ints.parts(3).unwrap(), ints.longest(3)), (vec![0..3, 3..3, 3..7], Some(4)));
        assert_eq!(Split::Counted(Numbers::Longs(wrong.as_ptr())).longest(3), None);
        assert_eq!(Split::Counted(Numbers::Longs(std::ptr::null())).longest(3), None);
        assert_eq!(Split::Counted(Numbers::Same(i64::MAX)).parts(2), None);
        assert_eq!(Split::Counted(Numbers::Same(5)).parts(2).unwrap(), [0..5, 5..10]);
    }
}
