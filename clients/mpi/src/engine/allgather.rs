//! Allgather: all tell in 8 bytes each how long their messages are, then exchange these. If nobody has anything to gain, the
//! program's own call follows.

use std::ffi::c_int;
use std::time::Instant;

use mgcomp_transport::attach::{Coder, PartOf, To, UnderWay};

use super::{Compared, Kind, Verdict};
use crate::blocks::Blocks;
use crate::communicator::Communicator;
use crate::data::{Bytes, Data, Landing};
use crate::failure::{Came, Failure};
use crate::layer::Layer;
use crate::mpi::Shape;

/// Memory for what comes from all ranks at once.
const AT_ONCE: usize = 256 << 20;
/// Pieces are no longer than this, however few ranks there are,
const LONGEST: usize = 16 << 20;
/// and no shorter than this. With more ranks than fit then, MPI is left alone.
const SHORTEST: usize = 64 << 10;
/// In place of a length: the data is in the memory of a device.
const ON_DEVICE: u64 = u64::MAX;

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
struct Allgather<'a> {
    layer: &'a Layer,
    comm: &'a Communicator,
    blocks: &'a Blocks,
    shape: Shape,
    /// What this rank has, and what that is like; none if it is in its block already.
    own: Option<(&'a Data, Shape)>,
    /// Bytes of all blocks.
    total: u64,
    /// Rounds that the longest of them takes.
    rounds: usize,
    /// Bytes of each rank in one round.
    piece: usize,
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
        if !layer.is_long(layer.len(&longest)?) {
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
        let piece = LONGEST.min(AT_ONCE / comm.size as usize);
        if piece < SHORTEST {
            return Ok(None);
        }
        let total = (0..comm.size).map(|rank| blocks.len(rank, shape.size)).sum();
        let rounds = longest.len(&shape).div_ceil(piece);
        Ok(Some(Self { layer, comm, blocks, shape, own, total, rounds, piece }))
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
        let Self { blocks, shape, .. } = self;
        let all: Vec<Data> = (0..self.comm.size).map(|rank| blocks.block(rank, shape)).collect();
        let mut landings: Vec<Option<Landing<'_>>> = Vec::new();
        let mut message = self.layer.pool.take(Coder::max_len(self.piece));
        let mut came = Ok(());
        for round in 0..self.rounds {
            let sealed = self.seal(own, round, &mut message, collective)?;
            let word = sealed.map_or(if own.as_slice().is_none() { ON_DEVICE } else { 0 }, |len| len as u64);
            let words = self.words(word)?;
            if round == 0 {
                let is_plain = words.iter().all(|word| *word == 0) || words.contains(&ON_DEVICE);
                self.layer.count(!is_plain && sealed.is_some());
                if is_plain {
                    self.layer.pool.give(message);
                    return Ok(None);
                }
                landings = self.landings(&all);
            }
            let raw = own.as_slice().map_or(&[][..], |raw| piece_of(raw, round, self.piece));
            let to_send = sealed.map_or(raw, |len| &message[..len]);
            let lens = all.iter().map(|data| piece_len(data.len(shape), round, self.piece));
            let counts = self.counts(&words, lens)?;
            came = came.and(self.exchange(to_send, &words, &counts, round, &mut landings)?);
        }
        self.layer.pool.give(message);
        let finish = || landings.into_iter().flatten().try_for_each(|landing| landing.finish(self.layer));
        Ok(Some(came.and_then(|()| finish())))
    }

    /// Counts this rank's block, which is so long and has gone by the program's own call; its piece of the first round is counted already.
    fn leave(&self, own: &Bytes<'_>, len: usize) {
        let counted_len = own.as_slice().map_or(0, |raw| piece_len(raw.len(), 0, self.piece));
        self.layer.coder.sent_raw(&self.way(), len - counted_len);
    }

    /// Counts the blocks of the others, which have come by that.
    fn left(&self) {
        for rank in (0..self.comm.size).filter(|rank| *rank != self.comm.rank) {
            let len = self.blocks.len(rank, self.shape.size);
            self.layer.coder.received_raw(self.comm.peer(rank), len as usize);
        }
    }

    /// Where the blocks of the others go.
    fn landings<'d>(&self, all: &'d [Data]) -> Vec<Option<Landing<'d>>> {
        let is_other = |rank| rank != self.comm.rank as usize;
        let landing = |(rank, data)| is_other(rank).then(|| Landing::new(data, self.shape));
        all.iter().enumerate().map(landing).collect()
    }

    /// How many bytes come from each rank, if that can be.
    fn counts(&self, words: &[u64], lens: impl Iterator<Item = usize>) -> Result<Vec<c_int>, Failure> {
        let count = |(word, len): (&u64, usize)| {
            let (most, found) = (Coder::max_len(len) as u64, if *word == 0 { len as u64 } else { *word });
            let count = c_int::try_from(found).ok().filter(|_| found <= most);
            count.ok_or(Failure::Length { expected: most, found })
        };
        words.iter().zip(lens).map(count).collect()
    }

    /// The length of the message for this rank's piece of a round, if it has one that gains by it.
    fn seal(
        &self,
        own: &Bytes<'_>,
        round: usize,
        message: &mut [u8],
        collective: &UnderWay,
    ) -> Result<Option<usize>, Failure> {
        let piece = own.as_slice().map_or(&[][..], |raw| piece_of(raw, round, self.piece));
        if piece.is_empty() {
            return Ok(None);
        }
        let part_of = PartOf { collective, is_first: round == 0 };
        self.layer.seal(&self.way(), piece, message, Some(part_of))
    }

    fn way(&self) -> To {
        self.comm.way(Kind::Allgather, self.comm.next())
    }

    /// The words of all ranks.
    fn words(&self, own: u64) -> Result<Vec<u64>, Failure> {
        let mut all = vec![0; 8 * self.comm.size as usize];
        self.layer.mpi.allgather(&own.to_le_bytes(), &mut all, self.comm.comm)?;
        Ok(all.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Exchanges a round.
    fn exchange(
        &self,
        own: &[u8],
        words: &[u64],
        counts: &[c_int],
        round: usize,
        landings: &mut [Option<Landing<'_>>],
    ) -> Result<Came, Failure> {
        let total: usize = counts.iter().map(|count| *count as usize).sum();
        let mut room = self.layer.pool.take(total);
        let started = Instant::now();
        self.layer.mpi.allgatherv(own, &mut room, counts, self.comm.comm)?;
        self.comm.rate.learn(total - own.len(), started.elapsed());
        let (mut rest, mut came) = (&room[..], Ok(()));
        for (rank, landing) in landings.iter_mut().enumerate() {
            let (message, behind) = rest.split_at(counts[rank] as usize);
            rest = behind;
            if let Some(landing) = landing {
                let begin = (round * self.piece).min(landing.len());
                let len = piece_len(landing.len(), round, self.piece);
                let piece = &mut landing.room()[begin..begin + len];
                came = came.and(self.take(rank as c_int, words[rank], message, piece));
            }
        }
        self.layer.pool.give(room);
        Ok(came)
    }

    /// Takes the piece of another rank.
    fn take(&self, from: c_int, word: u64, message: &[u8], piece: &mut [u8]) -> Result<(), Failure> {
        if word != 0 {
            return self.layer.open(self.comm, from, message, piece);
        }
        piece.copy_from_slice(message);
        self.layer.coder.received_raw(self.comm.peer(from), piece.len());
        Ok(())
    }
}

/// The bytes of a round; none if there are no more.
fn piece_of(bytes: &[u8], round: usize, piece: usize) -> &[u8] {
    let begin = (round * piece).min(bytes.len());
    &bytes[begin..begin + piece_len(bytes.len(), round, piece)]
}

/// How many they are, of `len`.
fn piece_len(len: usize, round: usize, piece: usize) -> usize {
    len.saturating_sub(round * piece).min(piece)
}
