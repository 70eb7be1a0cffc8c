//! Blocks of all ranks that go around: each rank opens a message, and hands it on to the next one as it came.

use std::ffi::c_int;
use std::ops::Range;
use std::time::Instant;

use mgcomp_transport::attach::{Coder, PartOf, UnderWay};

use super::Message;
use super::allgather::Allgather;
use super::pieces::Cut;
use super::relay::Relay;
use crate::data::{Data, Landing};
use crate::failure::{Came, Failure};
use crate::mpi::Operation;
use crate::types::Comm;

/// The ranks as a ring, in which each hands on to the next what it has got from the one before.
pub(super) struct Ring<'a> {
    allgather: &'a Allgather<'a>,
    relay: Relay<'a>,
    collective: &'a UnderWay,
    /// This rank's block, and how far it is sealed.
    raw: &'a [u8],
    cut: Cut,
    /// The blocks of all ranks, but for this one's.
    others: Vec<Option<Other<'a>>>,
}

/// The block of another rank.
struct Other<'a> {
    landing: Landing<'a>,
    /// What has come.
    cut: Cut,
    came: Came,
}

impl<'a> Other<'a> {
    fn new(data: &'a Data, allgather: &Allgather<'_>) -> Self {
        let cut = allgather.layer.pieces.cut();
        Self { landing: Landing::new(data, allgather.shape), cut, came: Ok(()) }
    }
}

impl<'a> Ring<'a> {
    /// `raw` is this rank's block, cut so far; `all` are the places of all blocks.
    pub(super) fn new(
        allgather: &'a Allgather<'a>,
        shadow: Comm,
        collective: &'a UnderWay,
        raw: &'a [u8],
        cut: Cut,
        all: &'a [Data],
    ) -> Self {
        let is_other = |of| of != allgather.comm.rank as usize;
        let other = |(of, data)| is_other(of).then(|| Other::new(data, allgather));
        let others = all.iter().enumerate().map(other).collect();
        let relay = Relay { layer: allgather.layer, comm: allgather.comm, shadow };
        Self { allgather, relay, collective, raw, cut, others }
    }

    /// Sends this rank's pieces around, of which the first is ready, and takes those of the others.
    pub(super) fn run(mut self, mut own: Option<Message>) -> Result<Came, Failure> {
        let (ranks, rank) = (self.others.len(), self.allgather.comm.rank as usize);
        // The one whose message comes in a step; it is sent in the next one.
        let of = |step: usize| (rank + ranks - 1 - step) % ranks;
        let (started, mut round, mut came_bytes) = (Instant::now(), 0, 0);
        while own.is_some() || (0..ranks - 1).any(|step| !self.rest(of(step)).is_empty()) {
            let mut next = own.take();
            for step in 0..ranks - 1 {
                let receiving = self.relay.receive(&self.rest(of(step)))?;
                let sending = next.take().map(|message| self.relay.send(message, round)).transpose()?;
                if step + 2 == ranks {
                    own = self.seal()?;
                }
                next = receiving.map(|receiving| self.take(of(step), receiving)).transpose()?;
                // What comes in the first one may have waited for this rank.
                came_bytes += next.as_ref().filter(|_| round > 0).map_or(0, |message| message.len);
                if let Some(sending) = sending {
                    self.allgather.layer.pool.give(sending.wait()?.0);
                }
            }
            if let Some(message) = next {
                self.allgather.layer.pool.give(message.buffer);
            }
            round += 1;
        }
        self.allgather.comm.rate.learn_at_least(came_bytes, started.elapsed());
        Ok(self.finish())
    }

    /// What is still to come of a rank's block.
    fn rest(&self, of: usize) -> Range<usize> {
        self.others[of].as_ref().map_or(0..0, |Other { cut, landing, .. }| cut.next(landing.len()))
    }

    /// Waits for a piece of a rank's block, and puts it where it belongs, before it is handed on: MPI is slow to go on with what is under way both
    /// ways where nobody calls it for a while.
    fn take(&mut self, of: usize, receiving: Operation) -> Result<Message, Failure> {
        let Allgather { layer, comm, .. } = *self.allgather;
        let (buffer, len) = receiving.wait()?;
        let piece = self.rest(of);
        if let Some(Other { landing, cut, came }) = &mut self.others[of] {
            cut.pass(piece.len(), len);
            // What else is to come is taken even so: others wait for it.
            let opened = layer.open(comm, of as c_int, &buffer[..len], &mut landing.room()[piece]);
            *came = std::mem::replace(came, Ok(())).and(opened);
        }
        Ok(Message { buffer, len })
    }

    /// The message of this rank's next piece, if there is one.
    fn seal(&mut self) -> Result<Option<Message>, Failure> {
        let Self { allgather, collective, raw, .. } = *self;
        let piece = self.cut.next(raw.len());
        let mut buffer = allgather.layer.pool.take(Coder::max_len(piece.len()));
        let sealed = allgather.seal(&raw[piece], &mut buffer, PartOf { collective, is_first: false })?;
        allgather.message(raw, &mut self.cut, buffer, sealed)
    }

    fn finish(self) -> Came {
        let layer = self.allgather.layer;
        let finish = |other: Other<'_>| other.came.and_then(|()| other.landing.finish(layer));
        self.others.into_iter().flatten().map(finish).fold(Ok(()), Came::and)
    }
}
