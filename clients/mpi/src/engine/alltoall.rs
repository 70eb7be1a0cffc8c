//! Alltoall: each pair of ranks exchanges two blocks.

use std::ffi::c_int;

use mgcomp_transport::attach::UnderWay;

use super::exchange::{Exchange, Step};
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
    pub(crate) fn run_even(&self) -> Result<Verdict, Failure> {
        let Some(shapes) = self.shapes()? else { return Ok(Verdict::Plain) };
        let Some(shadow) = self.comm.shadow(self.layer)? else { return Ok(Verdict::Plain) };
        let rank = self.comm.rank;
        let len = self.into.block(rank, &shapes.into).len(&shapes.into);
        let came: Came = self.comm.compared(Compared::Alltoall, len, |collective| {
            let mut came = Ok(());
            for peer in self.comm.partners() {
                came = came.and(self.exchange(&shapes, shadow, peer, (true, true), Some(collective))?);
            }
            let Some(from) = &self.from else { return Ok(came) };
            let (own, block) = (from.block(rank, &shapes.from), self.into.block(rank, &shapes.into));
            Ok(came.and_then(|()| self.layer.copy(&own, shapes.from, &block, shapes.into)))
        })?;
        came.map(|()| Verdict::Done(0))
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
        for peer in self.comm.partners().filter(|peer| goes(*peer) || comes(*peer)) {
            came = came.and(self.exchange(&shapes, shadow, peer, (goes(peer), comes(peer)), None)?);
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

    fn exchange(
        &self,
        shapes: &Shapes,
        shadow: Comm,
        peer: c_int,
        (goes, comes): (bool, bool),
        collective: Option<&UnderWay>,
    ) -> Result<Came, Failure> {
        let exchange = Exchange {
            layer: self.layer,
            comm: self.comm,
            shadow,
            kind: Kind::Alltoall,
            sent: shapes.from,
            received: shapes.into,
            is_in_place: self.from.is_none(),
            collective,
        };
        exchange.run(&Step {
            peer,
            send: goes.then(|| self.sent().block(peer, &shapes.from)),
            receive: comes.then(|| self.into.block(peer, &shapes.into)),
            is_spoiled: false,
        })
    }
}
