//! Allgather: all tell in a byte each whether they gain by messages. If nobody does, the program's own call follows, else their pieces go
//! around in a ring.

use std::ffi::c_int;
use std::time::Instant;

use mgcomp_transport::attach::{Coder, PartOf, To, UnderWay};

use super::pieces::{Cut, Pieces};
use super::ring::Ring;
use super::{Compared, Kind, Message, Verdict};
use crate::blocks::Blocks;
use crate::communicator::Communicator;
use crate::data::{Bytes, Data};
use crate::failure::{Came, Failure};
use crate::layer::Layer;
use crate::mpi::Shape;

/// What a rank says of its block: it is better left as it is,
const AS_IT_IS: u8 = 0;
/// its first piece is compressed,
const COMPRESSED: u8 = 1;
/// or it is in the memory of a device, and MPI has to do it all.
const ON_DEVICE: u8 = 2;

/// Brings the blocks of all ranks to all. `own` is what this rank has, if that is not in its block already.
pub(crate) fn allgather(
    layer: &Layer,
    own: Option<Data>,
    blocks: &Blocks,
    comm: &Communicator,
    plain: impl Fn() -> c_int,
) -> Result<Verdict, Failure> {
    let Some(allgather) = Allgather::begin(layer, own.as_ref(), blocks, comm)? else {
        return Ok(Verdict::Plain);
    };
    let (code, came) = comm.compared(Compared::Allgather, allgather.total as usize, |collective| {
        allgather.carry_out(collective, plain)
    })?;
    came.map(|()| Verdict::Done(code))
}

/// The same in place as a part of another collective, of which more is to follow whatever came.
pub(super) fn allgather_part(
    layer: &Layer,
    blocks: &Blocks,
    comm: &Communicator,
    collective: &UnderWay,
    plain: impl Fn() -> c_int,
) -> Result<(c_int, Came), Failure> {
    match Allgather::begin(layer, None, blocks, comm)? {
        Some(allgather) => allgather.carry_out(collective, plain),
        None => Ok((plain(), Ok(()))),
    }
}

/// An allgather under way.
pub(super) struct Allgather<'a> {
    pub(super) layer: &'a Layer,
    pub(super) comm: &'a Communicator,
    blocks: &'a Blocks,
    pub(super) shape: Shape,
    /// What this rank has, and what that is like; none if it is in its block already.
    own: Option<(&'a Data, Shape)>,
    /// Bytes of all blocks.
    total: u64,
}

impl<'a> Allgather<'a> {
    /// `None` where the program's own call is to follow.
    fn begin(
        layer: &'a Layer,
        own: Option<&'a Data>,
        blocks: &'a Blocks,
        comm: &'a Communicator,
    ) -> Result<Option<Self>, Failure> {
        let Some(longest) = blocks.longest(comm.size) else { return Ok(None) };
        if !layer.is_long(layer.len(&longest)?) || comm.has_no_shadow() {
            return Ok(None);
        }
        let Some(shape) = layer.usable_blocks(blocks, comm.size)? else { return Ok(None) };
        let own_len = blocks.block(comm.rank, &shape).len(&shape);
        let own = match own {
            None => None,
            Some(own) => {
                let own_shape = layer.usable_if_any(own)?.filter(|of| own.len(of) == own_len);
                let Some(own_shape) = own_shape else { return Ok(None) };
                Some((own, own_shape))
            }
        };
        let total = (0..comm.size).map(|rank| blocks.len(rank, shape.size)).sum();
        Ok(Some(Self { layer, comm, blocks, shape, own, total }))
    }

    /// Returns what MPI's own call did, where that was better, and whether all came.
    fn carry_out(&self, collective: &UnderWay, plain: impl Fn() -> c_int) -> Result<(c_int, Came), Failure> {
        let Self { layer, comm, blocks, shape, .. } = *self;
        let own_block = blocks.block(comm.rank, &shape);
        let (from, from_shape) = self.own.unwrap_or((&own_block, shape));
        let bytes = from.bytes(&from_shape, layer)?;
        if let Some(came) = self.run(&bytes, collective)? {
            let own = self.own.and(bytes.as_slice());
            let put = |()| own.map_or(Ok(()), |raw| layer.put(raw, &own_block, shape));
            return Ok((0, came.and_then(put)));
        }
        let started = Instant::now();
        let code = plain();
        comm.rate.learn(self.total as usize - from.len(&from_shape), started.elapsed());
        if code == 0 {
            self.leave(&bytes, from.len(&from_shape));
            self.left();
        }
        Ok((code, Ok(())))
    }

    /// `None` if the program's own call is better, which all ranks agree on.
    fn run(&self, own: &Bytes<'_>, collective: &UnderWay) -> Result<Option<Came>, Failure> {
        let mut cut = self.layer.pieces.cut();
        let raw = own.as_slice().unwrap_or_default();
        let mut buffer = self.layer.pool.take(Coder::max_len(cut.next(raw.len()).len()));
        let sealed =
            self.seal(&raw[cut.next(raw.len())], &mut buffer, PartOf { collective, is_first: true })?;
        let words = self.words(match (own.as_slice(), sealed) {
            (None, _) => ON_DEVICE,
            (Some(_), None) => AS_IT_IS,
            (Some(_), Some(_)) => COMPRESSED,
        })?;
        let is_plain = !words.contains(&COMPRESSED) || words.contains(&ON_DEVICE);
        let shadow = if is_plain { None } else { self.comm.shadow(self.layer)? };
        self.layer.count(shadow.is_some() && sealed.is_some());
        let Some(shadow) = shadow else {
            self.layer.pool.give(buffer);
            return Ok(None);
        };
        let first = self.message(raw, &mut cut, buffer, sealed)?;
        let all: Vec<Data> = (0..self.comm.size).map(|rank| self.blocks.block(rank, &self.shape)).collect();
        Ring::new(self, shadow, collective, raw, cut, &all).run(first).map(Some)
    }

    /// Counts this rank's block, which is so long and has gone by the program's own call; its first piece is counted already.
    fn leave(&self, own: &Bytes<'_>, len: usize) {
        let counted_len = own.as_slice().map_or(0, |raw| self.layer.pieces.cut().next(raw.len()).len());
        self.layer.coder.sent_raw(&self.way(len), len - counted_len);
    }

    /// Counts the blocks of the others, which have come by that.
    fn left(&self) {
        for rank in (0..self.comm.size).filter(|rank| *rank != self.comm.rank) {
            let len = self.blocks.len(rank, self.shape.size);
            self.layer.coder.received_raw(self.comm.peer(rank), len as usize);
        }
    }

    /// Seals a piece of this rank's; returns the length of the message, if there is anything to gain by it.
    pub(super) fn seal(
        &self,
        piece: &[u8],
        message: &mut [u8],
        part_of: PartOf<'_>,
    ) -> Result<Option<usize>, Failure> {
        if piece.is_empty() {
            return Ok(None);
        }
        self.layer.seal(&self.way(piece.len()), piece, message, Some(part_of))
    }

    /// The message of this rank's next piece, which was sealed like that; none if there are no more.
    pub(super) fn message(
        &self,
        raw: &[u8],
        cut: &mut Cut,
        mut buffer: Vec<u8>,
        sealed: Option<usize>,
    ) -> Result<Option<Message>, Failure> {
        let piece = cut.next(raw.len());
        if piece.is_empty() {
            self.layer.pool.give(buffer);
            return Ok(None);
        }
        let raw_len = piece.len();
        let len = match sealed {
            Some(len) => len,
            None => self.layer.seal_raw(&raw[piece], &mut buffer)?,
        };
        cut.pass(raw_len, len);
        Ok(Some(Message { buffer, len }))
    }

    /// Where a piece of so many bytes goes.
    fn way(&self, piece: usize) -> To {
        let way = self.comm.way(Kind::Allgather, self.comm.next());
        let len = self.blocks.len(self.comm.rank, self.shape.size) as usize;
        To { link: way.link.map(|link| Pieces::link(link, piece, len)), ..way }
    }

    /// The words of all ranks.
    fn words(&self, own: u8) -> Result<Vec<u8>, Failure> {
        let mut all = vec![0; self.comm.size as usize];
        self.layer.mpi.allgather(&[own], &mut all, self.comm.comm)?;
        Ok(all)
    }
}
