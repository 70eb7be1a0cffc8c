//! Broadcast: the root says in 8 bytes how long the first message is, or that the data follows as it is.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_transport::attach::{Coder, PartOf, To, UnderWay};

use super::{Compared, Kind, SEGMENT, Verdict};
use crate::communicator::Communicator;
use crate::data::{Bytes, Data, Landing};
use crate::failure::{Came, Failure};
use crate::layer::Layer;
use crate::mpi::Shape;
use crate::types::Comm;

/// Set in the first word if all are to say how long it took them.
const TELL: u64 = 1 << 63;

/// Broadcasts `data`; `plain` is the program's own call.
pub(crate) fn bcast(
    layer: &Layer,
    data: &Data,
    root: c_int,
    comm: Comm,
    plain: impl Fn() -> c_int,
) -> Result<Verdict, Failure> {
    let Some(len) = layer.len(data)? else { return Ok(Verdict::Plain) };
    if !layer.is_long(Some(len)) {
        return Ok(Verdict::Plain);
    }
    let Some(comm) = layer.communicator(comm)? else { return Ok(Verdict::Plain) };
    let Some(shape) = layer.usable(data)?.filter(|_| comm.has(root)) else { return Ok(Verdict::Plain) };
    let len = data.len(&shape);
    let (verdict, came) = comm.compared(Compared::Bcast, len, |collective| {
        let bcast = Bcast { layer, comm: &comm, root, collective, len };
        match comm.rank == root {
            true => bcast.send(data, &shape, plain).map(|verdict| (verdict, Ok(()))),
            false => bcast.receive(data, shape, plain),
        }
    })?;
    came.map(|()| verdict)
}

/// A broadcast under way.
struct Bcast<'a> {
    layer: &'a Layer,
    comm: &'a Communicator,
    root: c_int,
    collective: &'a UnderWay,
    /// Bytes of the data.
    len: usize,
}

impl Bcast<'_> {
    fn send(&self, data: &Data, shape: &Shape, plain: impl Fn() -> c_int) -> Result<Verdict, Failure> {
        let bytes = data.bytes(shape, self.layer)?;
        let tell = if self.comm.rate.is_wanted() { TELL } else { 0 };
        let mut message = self.layer.pool.take(Coder::max_len(SEGMENT));
        let first = self.seal_first(&bytes, &mut message)?;
        self.layer.count(first.is_some());
        self.word(first.unwrap_or(0) as u64 | tell)?;
        let sent = match (first, bytes.as_slice()) {
            (Some(first), Some(raw)) => self.send_all(raw, first, &mut message),
            (_, raw) => {
                let counted_len = raw.map_or(0, |raw| raw.len().min(SEGMENT));
                let rest = self.len - counted_len;
                self.plain(plain).inspect(|wire| {
                    if wire.verdict == Verdict::Done(0) {
                        self.layer.coder.sent_raw(&self.way(), rest);
                    }
                })
            }
        };
        self.layer.pool.give(message);
        let Wire { verdict, bytes, took } = sent?;
        if tell != 0 {
            self.hear(bytes, took)?;
        }
        Ok(verdict)
    }

    /// The length of the message for the first piece, or `None` if all is better left as it is.
    fn seal_first(&self, bytes: &Bytes<'_>, message: &mut [u8]) -> Result<Option<usize>, Failure> {
        let Some(first) = bytes.as_slice().and_then(|raw| raw.chunks(SEGMENT).next()) else {
            return Ok(None);
        };
        self.seal(first, message, true)
    }

    fn seal(&self, piece: &[u8], message: &mut [u8], is_first: bool) -> Result<Option<usize>, Failure> {
        let part_of = PartOf { collective: self.collective, is_first };
        self.layer.seal(&self.way(), piece, message, Some(part_of))
    }

    /// Where pieces go.
    fn way(&self) -> To {
        let way = self.comm.way(Kind::Bcast, self.comm.next());
        To { link: way.link.map(|link| for_pieces_of(link, self.len)), ..way }
    }

    fn send_all(&self, raw: &[u8], first: usize, message: &mut [u8]) -> Result<Wire, Failure> {
        let mut wire = Wire::default();
        let mut len = first;
        for (index, piece) in raw.chunks(SEGMENT).enumerate() {
            if index > 0 {
                len = match self.seal(piece, message, false)? {
                    Some(len) => len,
                    None => self.layer.seal_raw(piece, message)?,
                };
                self.word(len as u64)?;
            }
            wire.add(len, || self.layer.mpi.bcast(&mut message[..len], self.root, self.comm.comm))?;
        }
        Ok(wire)
    }

    fn receive(
        &self,
        data: &Data,
        shape: Shape,
        plain: impl Fn() -> c_int,
    ) -> Result<(Verdict, Came), Failure> {
        let word = self.word(0)?;
        let (tell, first) = (word & TELL != 0, word & !TELL);
        let (wire, came) = match first {
            0 => {
                let wire = self.plain(plain)?;
                if wire.verdict == Verdict::Done(0) {
                    self.layer.coder.received_raw(self.comm.peer(self.root), self.len);
                }
                (wire, Ok(()))
            }
            first => self.receive_all(data, shape, first)?,
        };
        if tell {
            self.hear(wire.bytes, wire.took)?;
        }
        Ok((wire.verdict, came))
    }

    fn receive_all(&self, data: &Data, shape: Shape, first: u64) -> Result<(Wire, Came), Failure> {
        let mut wire = Wire::default();
        let mut landing = Landing::new(data, shape);
        let mut message = self.layer.pool.take(Coder::max_len(SEGMENT));
        let mut came = Ok(());
        for (index, piece) in landing.room().chunks_mut(SEGMENT).enumerate() {
            let len = if index == 0 { first } else { self.word(0)? };
            let room = message.len() as u64;
            let message = usize::try_from(len).ok().and_then(|len| message.get_mut(..len));
            let message = message.ok_or(Failure::Length { expected: room, found: len })?;
            wire.add(message.len(), || self.layer.mpi.bcast(message, self.root, self.comm.comm))?;
            // What else is to come is taken even so: the others send it.
            came = came.and(self.layer.open(self.comm, self.root, message, piece));
        }
        self.layer.pool.give(message);
        Ok((wire, came.and_then(|()| landing.finish(self.layer))))
    }

    /// The program's own call.
    fn plain(&self, plain: impl Fn() -> c_int) -> Result<Wire, Failure> {
        let mut wire = Wire::default();
        let mut code = 0;
        wire.add(self.len, || {
            code = plain();
            Ok(())
        })?;
        Ok(Wire { verdict: Verdict::Done(code), ..wire })
    }

    /// Broadcasts a word of the root.
    fn word(&self, word: u64) -> Result<u64, Failure> {
        let mut bytes = word.to_le_bytes();
        self.layer.mpi.bcast(&mut bytes, self.root, self.comm.comm)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Learns how long it took the slowest rank: the root's own call may be over long before.
    fn hear(&self, bytes: usize, took: Duration) -> Result<(), Failure> {
        let mut all = vec![0; 8 * self.comm.size as usize];
        let own = (took.as_nanos() as u64).to_le_bytes();
        self.layer.mpi.allgather(&own, &mut all, self.comm.comm)?;
        let (words, _) = all.as_chunks::<8>();
        let slowest = words.iter().map(|word| u64::from_le_bytes(*word)).max().unwrap_or(0);
        self.comm.rate.learn(bytes, Duration::from_nanos(slowest));
        Ok(())
    }
}

/// What a link is to the pieces of so much data. The root makes each while the others decode the one before, so each takes as long as the
/// link and half of what both codecs take: what it takes in two segments, of which the link is the slowest stage.
fn for_pieces_of(link: LinkFacts, len: usize) -> LinkFacts {
    let halves = Overlap::Segments(SEGMENT as u64 / 2);
    if len > SEGMENT { link.with_overlap(halves).unwrap_or(link) } else { link }
}

/// What was on the wire.
struct Wire {
    verdict: Verdict,
    bytes: usize,
    took: Duration,
}

impl Default for Wire {
    fn default() -> Self {
        Self { verdict: Verdict::Done(0), bytes: 0, took: Duration::ZERO }
    }
}

impl Wire {
    fn add(&mut self, bytes: usize, carry: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let started = Instant::now();
        carry()?;
        self.took += started.elapsed();
        self.bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_work_beside_each_other_where_there_is_more_than_one_piece() {
        let link = LinkFacts::try_new(10.0, 20_000, Overlap::None).unwrap();
        // A piece has 4 MiB.
        assert_eq!(for_pieces_of(link, 4 << 20), link);
        let halves = LinkFacts::try_new(10.0, 20_000, Overlap::Segments(2 << 20)).unwrap();
        assert_eq!(for_pieces_of(link, (4 << 20) + 1), halves);
    }
}
