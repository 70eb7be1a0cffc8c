//! Alltoall: each pair of ranks exchanges two blocks. Where all blocks are as long as each other, all ranks tell first in a byte each
//! whether they have anything to gain; if nobody has, and blocks are not in place, the program's own call follows.

use std::ffi::c_int;
use std::time::Instant;

use mgcomp_transport::attach::UnderWay;

use super::exchange::{Exchange, Outgoing, Step};
use super::{Compared, Kind, Verdict};
use crate::blocks::Blocks;
use crate::communicator::Communicator;
use crate::failure::{Came, Failure};
use crate::layer::Layer;
use crate::mpi::Shape;
use crate::types::Comm;

/// An alltoall, as one rank calls it.
#[derive(Debug)]
pub(crate) struct Alltoall<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) comm: &'a Communicator,
    /// Blocks for the others; none where those that come take the place of those that go.
    pub(crate) from: Option<Blocks>,
    pub(crate) into: Blocks,
}

/// What data is like that goes and that comes.
struct Shapes {
    from: Shape,
    into: Shape,
}

impl Alltoall<'_> {
    /// Where all blocks are as long as each other, which all ranks know.
    pub(crate) fn run_even(&self, plain: impl Fn() -> c_int) -> Result<Verdict, Failure> {
        let Some(shapes) = self.shapes()? else { return Ok(Verdict::Plain) };
        let Some(shadow) = self.comm.shadow(self.layer)? else { return Ok(Verdict::Plain) };
        let len = self.into.block(self.comm.rank, &shapes.into).len(&shapes.into);
        let all = len.saturating_mul(self.comm.size as usize);
        let (code, came): (c_int, Came) = self.comm.compared(Compared::Alltoall, all, |collective| {
            let exchange = self.exchange(&shapes, shadow, Some(collective));
            let mut turns = self.comm.turns().map(|peers| {
                peers.into_iter().map(|peer| self.step(&shapes, peer, true, true)).collect::<Vec<_>>()
            });
            let first = turns.next().unwrap_or_default();
            let begun = exchange.begin(&first)?;
            if !self.has_anybody(self.from.is_none() || begun.iter().any(Outgoing::is_compressed))? {
                return Ok((self.plain(len, begun.len(), plain), Ok(())));
            }
            let mut came = exchange.finish(&first, begun)?;
            for steps in turns {
                came = came.and(exchange.run(&steps)?);
            }
            Ok((0, came.and_then(|()| self.keep(&shapes))))
        })?;
        came.map(|()| Verdict::Done(code))
    }

    /// Whether there is any rank that says so.
    fn has_anybody(&self, own: bool) -> Result<bool, Failure> {
        let mut all = vec![0; self.comm.size as usize];
        self.layer.mpi.allgather(&[u8::from(own)], &mut all, self.comm.comm)?;
        Ok(all.contains(&1))
    }

    /// The program's own call, for blocks of so many bytes, of which so many are counted already.
    fn plain(&self, len: usize, counted: usize, plain: impl Fn() -> c_int) -> c_int {
        let started = Instant::now();
        let code = plain();
        self.comm.rate.learn(len * (self.comm.size as usize - 1), started.elapsed());
        if code == 0 {
            self.comm.partners().skip(counted).for_each(|peer| {
                self.layer.count(false);
                self.layer.coder.sent_raw(&self.comm.way(Kind::Alltoall, peer), len);
            });
            self.comm.partners().for_each(|peer| self.layer.coder.received_raw(self.comm.peer(peer), len));
        }
        code
    }

    /// Brings what this rank has for itself to where it belongs.
    fn keep(&self, shapes: &Shapes) -> Came {
        let Some(from) = &self.from else { return Ok(()) };
        let rank = self.comm.rank;
        let (own, block) = (from.block(rank, &shapes.from), self.into.block(rank, &shapes.into));
        self.layer.copy(&own, shapes.from, &block, shapes.into)
    }

    /// Where the ranks of each pair alone know the lengths of what they exchange: long blocks go by themselves, `rest` does
    /// what is left. It is told which blocks that this rank sends are gone, and which ones that it receives have come.
    pub(crate) fn run_uneven(&self, rest: impl Fn(&[bool], &[bool]) -> c_int) -> Result<Verdict, Failure> {
        // Nobody knows whether another rank needs it now, so all make it the first time.
        let Some(shadow) = self.comm.shadow(self.layer)? else { return Ok(Verdict::Plain) };
        let (from, into) =
            (self.layer.size_of(self.sent().datatype)?, self.layer.size_of(self.into.datatype)?);
        let (Some(from), Some(into)) = (from, into) else { return Ok(Verdict::Plain) };
        let is_other = |peer| peer != self.comm.rank;
        let goes = |peer| is_other(peer) && self.layer.is_long(Some(self.sent().len(peer, from)));
        let comes = |peer| is_other(peer) && self.layer.is_long(Some(self.into.len(peer, into)));
        if !(0..self.comm.size).any(|peer| goes(peer) || comes(peer)) {
            return Ok(Verdict::Plain);
        }
        let Some(shapes) = self.shapes()? else { return Ok(Verdict::Plain) };
        let mut came = Ok(());
        let exchange = self.exchange(&shapes, shadow, None);
        for peers in self.comm.turns() {
            let steps = peers.into_iter().map(|peer| self.step(&shapes, peer, goes(peer), comes(peer)));
            came = came.and(exchange.run(&steps.collect::<Vec<_>>())?);
        }
        let flags = |is_long: &dyn Fn(c_int) -> bool| (0..self.comm.size).map(is_long).collect::<Vec<_>>();
        let code = rest(&flags(&goes), &flags(&comes));
        came.map(|()| Verdict::Done(code))
    }

    fn sent(&self) -> &Blocks {
        self.from.as_ref().unwrap_or(&self.into)
    }

    /// `None` if MPI would refuse the call.
    fn shapes(&self) -> Result<Option<Shapes>, Failure> {
        let size = self.comm.size;
        let usable = |blocks| self.layer.usable_blocks(blocks, size);
        let (from, into) = (usable(self.sent())?, usable(&self.into)?);
        Ok(from.zip(into).map(|(from, into)| Shapes { from, into }))
    }

    fn exchange<'a>(
        &'a self,
        shapes: &Shapes,
        shadow: Comm,
        collective: Option<&'a UnderWay>,
    ) -> Exchange<'a> {
        Exchange {
            layer: self.layer,
            comm: self.comm,
            shadow,
            kind: Kind::Alltoall,
            sent: shapes.from,
            received: shapes.into,
            is_in_place: self.from.is_none(),
            collective,
        }
    }

    fn step(&self, shapes: &Shapes, peer: c_int, goes: bool, comes: bool) -> Step {
        Step {
            peer,
            send: goes.then(|| self.sent().block(peer, &shapes.from)),
            receive: comes.then(|| self.into.block(peer, &shapes.into)),
            is_spoiled: false,
        }
    }
}
