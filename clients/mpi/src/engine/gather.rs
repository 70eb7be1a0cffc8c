//! Gather and scatter: blocks between the root and each of the others.

use std::ffi::c_int;

use super::exchange::{Exchange, Step};
use super::{AT_ONCE, Kind, Verdict};
use crate::blocks::Blocks;
use crate::communicator::Communicator;
use crate::data::Data;
use crate::failure::Failure;
use crate::layer::Layer;
use crate::mpi::Shape;
use crate::types::Comm;

/// A gather or a scatter, as one rank calls it.
#[derive(Debug)]
pub(crate) struct Rooted<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) comm: &'a Communicator,
    pub(crate) kind: Kind,
    pub(crate) root: c_int,
    /// This rank's own data; none at a root that has it in its block already.
    pub(crate) own: Option<Data>,
    /// The blocks, at the root.
    pub(crate) blocks: Option<Blocks>,
}

/// What data is like: this rank's own, and the root's blocks.
struct Shapes {
    own: Shape,
    blocks: Shape,
}

impl Rooted<'_> {
    /// Where all blocks are as long as each other, which all ranks know.
    pub(crate) fn run_even_if_long(&self) -> Result<Verdict, Failure> {
        let block = match &self.blocks {
            Some(blocks) => blocks.longest(self.comm.size),
            None => self.own,
        };
        let len = block.map(|block| self.layer.len(&block)).transpose()?.flatten();
        if !self.layer.is_long(len) {
            return Ok(Verdict::Plain);
        }
        let Some(shapes) = self.shapes()? else { return Ok(Verdict::Plain) };
        let Some(shadow) = self.comm.shadow(self.layer)? else { return Ok(Verdict::Plain) };
        let mut came = Ok(());
        let (exchange, peers) = (self.exchange(&shapes, shadow), self.peers().collect::<Vec<_>>());
        for peers in peers.chunks(AT_ONCE) {
            let steps: Vec<_> = peers.iter().map(|peer| self.step(*peer, &shapes)).collect();
            came = came.and(exchange.run(&steps)?);
        }
        came?;
        if let (Some(own), Some(blocks)) = (&self.own, &self.blocks) {
            let block = blocks.block(self.root, &shapes.blocks);
            match self.kind {
                Kind::Scatter => self.layer.copy(&block, shapes.blocks, own, shapes.own)?,
                _ => self.layer.copy(own, shapes.own, &block, shapes.blocks)?,
            }
        }
        Ok(Verdict::Done(0))
    }

    /// Where a rank knows the length of its own block alone, and the root all: long ones go by themselves, `rest` does what
    /// is left. It is told whether this rank's own block is gone, and which ones of the root are.
    pub(crate) fn run_uneven(&self, rest: impl Fn(bool, &[bool]) -> c_int) -> Result<Verdict, Failure> {
        // Nobody knows whether another rank needs it now, so all make it the first time.
        let Some(shadow) = self.comm.shadow(self.layer)? else { return Ok(Verdict::Plain) };
        let size = match (&self.blocks, &self.own) {
            (Some(blocks), _) => self.layer.size_of(blocks.datatype)?,
            (None, Some(own)) => self.layer.len(own)?,
            (None, None) => None,
        };
        let Some(size) = size else { return Ok(Verdict::Plain) };
        let is_long = |peer: c_int| match &self.blocks {
            Some(blocks) => peer != self.root && self.layer.is_long(Some(blocks.len(peer, size))),
            None => self.layer.is_long(Some(size)),
        };
        if !self.peers().any(is_long) {
            return Ok(Verdict::Plain);
        }
        let Some(shapes) = self.shapes()? else { return Ok(Verdict::Plain) };
        let mut came = Ok(());
        let exchange = self.exchange(&shapes, shadow);
        let peers: Vec<_> = self.peers().filter(|peer| is_long(*peer)).collect();
        for peers in peers.chunks(AT_ONCE) {
            let steps: Vec<_> = peers.iter().map(|peer| self.step(*peer, &shapes)).collect();
            came = came.and(exchange.run(&steps)?);
        }
        let code = match self.blocks {
            Some(_) => rest(false, &(0..self.comm.size).map(is_long).collect::<Vec<_>>()),
            None => rest(true, &[]),
        };
        came.map(|()| Verdict::Done(code))
    }

    /// Ranks that this one has to do with.
    fn peers(&self) -> impl Iterator<Item = c_int> {
        let others = match self.blocks {
            Some(_) => 0..self.comm.size,
            None => self.root..self.root + 1,
        };
        others.filter(|rank| *rank != self.comm.rank)
    }

    /// `None` if MPI would refuse the call.
    fn shapes(&self) -> Result<Option<Shapes>, Failure> {
        let own = self.own.map(|own| self.layer.usable_if_any(&own)).transpose()?;
        let blocks = match &self.blocks {
            None => None,
            Some(blocks) => Some(self.layer.usable_blocks(blocks, self.comm.size)?),
        };
        // Where there is none, it stands for nothing.
        let (own, blocks) = (own.or(blocks).flatten(), blocks.or(own).flatten());
        Ok(own.zip(blocks).map(|(own, blocks)| Shapes { own, blocks }))
    }

    fn exchange(&self, shapes: &Shapes, shadow: Comm) -> Exchange<'_> {
        let (layer, comm, kind) = (self.layer, self.comm, self.kind);
        // At the root it is blocks that go or come, elsewhere its own data.
        let shape = if self.blocks.is_some() { shapes.blocks } else { shapes.own };
        let (sent, received, is_in_place) = (shape, shape, false);
        // The others need not wait for anybody, and are not to begin to.
        Exchange { layer, comm, shadow, kind, sent, received, is_in_place, collective: None }
    }

    fn step(&self, peer: c_int, shapes: &Shapes) -> Step {
        let data = match &self.blocks {
            Some(blocks) => Some(blocks.block(peer, &shapes.blocks)),
            None => self.own,
        };
        let root_receives = self.kind == Kind::Gather;
        match self.blocks.is_some() == root_receives {
            true => Step { peer, send: None, receive: data, is_spoiled: false },
            false => Step { peer, send: data, receive: None, is_spoiled: false },
        }
    }
}
