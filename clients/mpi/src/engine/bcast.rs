//! Broadcast: the root says in 8 bytes how long the first message is, or that the data follows as it is. Messages go from rank to rank where
//! they are many, else by broadcasts of MPI's.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mgcomp_transport::attach::{Coder, PartOf, To, UnderWay};

use super::chain::Chain;
use super::pieces::{Cut, Pieces};
use super::relay::Relay;
use super::{Compared, Kind, Message, Verdict};
use crate::communicator::Communicator;
use crate::data::{Data, Landing};
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
pub(super) struct Bcast<'a> {
    pub(super) layer: &'a Layer,
    pub(super) comm: &'a Communicator,
    pub(super) root: c_int,
    collective: &'a UnderWay,
    /// Bytes of the data.
    pub(super) len: usize,
}

impl Bcast<'_> {
    fn send(&self, data: &Data, shape: &Shape, plain: impl Fn() -> c_int) -> Result<Verdict, Failure> {
        let bytes = data.bytes(shape, self.layer)?;
        let cut = self.cut();
        let mut buffer = self.layer.pool.take(Coder::max_len(cut.next(self.len).len()));
        let first = match bytes.as_slice() {
            Some(raw) if !raw.is_empty() => self.seal(&raw[cut.next(self.len)], &mut buffer, true)?,
            _ => None,
        };
        self.layer.count(first.is_some());
        let tell = if self.comm.rate.is_wanted() { TELL } else { 0 };
        self.word(first.unwrap_or(0) as u64 | tell)?;
        if let (Some(len), Some(raw)) = (first, bytes.as_slice()) {
            let first = Message { buffer, len };
            let started = Instant::now();
            let sent = match self.chain()? {
                Some(chain) => chain.send(raw, cut, first)?,
                None => self.send_to_all(raw, cut.go_on_in(Pieces::LONGEST), first)?,
            };
            if tell != 0 {
                // Then all have all of it, which they may have taken from where it waited for them.
                self.hear(Duration::ZERO)?;
                self.comm.rate.learn_at_least(sent, started.elapsed());
            }
            return Ok(Verdict::Done(0));
        }
        self.layer.pool.give(buffer);
        let counted_len = bytes.as_slice().map_or(0, |raw| cut.next(raw.len()).len());
        let verdict = self.plain(plain, tell != 0)?;
        if verdict == Verdict::Done(0) {
            self.layer.coder.sent_raw(&self.way(self.len), self.len - counted_len);
        }
        Ok(verdict)
    }

    /// How all ranks cut the data.
    pub(super) fn cut(&self) -> Cut {
        if self.is_for_chain() { self.layer.pieces.cut() } else { Pieces::LONGEST.cut() }
    }

    /// Whether there may be twice as many pieces as ranks, so that the way along a chain of them takes little. Else MPI's own broadcasts of long
    /// pieces know shorter ones; short pieces they may send from the root to several ranks.
    fn is_for_chain(&self) -> bool {
        self.len / self.layer.pieces.first() / 2 >= self.comm.size as usize
    }

    /// The chain, if it is to be one and there is a communicator for it. All ranks ask at the same time.
    fn chain(&self) -> Result<Option<Chain<'_>>, Failure> {
        let shadow = if self.is_for_chain() { self.comm.shadow(self.layer)? } else { None };
        let (layer, comm) = (self.layer, self.comm);
        Ok(shadow.map(|shadow| Chain { bcast: self, relay: Relay { layer, comm, shadow } }))
    }

    fn seal(&self, piece: &[u8], message: &mut [u8], is_first: bool) -> Result<Option<usize>, Failure> {
        let part_of = PartOf { collective: self.collective, is_first };
        self.layer.seal(&self.way(piece.len()), piece, message, Some(part_of))
    }

    /// Where a piece of so many bytes goes.
    fn way(&self, piece: usize) -> To {
        let way = self.comm.way(Kind::Bcast, self.comm.next());
        To { link: way.link.map(|link| Pieces::link(link, piece, self.len)), ..way }
    }

    /// Seals a piece that is not the first one, as whatever it is best sent.
    pub(super) fn seal_any(&self, piece: &[u8], message: &mut [u8]) -> Result<usize, Failure> {
        match self.seal(piece, message, false)? {
            Some(len) => Ok(len),
            None => self.layer.seal_raw(piece, message),
        }
    }

    /// Returns how many bytes messages had.
    fn send_to_all(&self, raw: &[u8], mut cut: Cut, first: Message) -> Result<usize, Failure> {
        let Message { mut buffer, mut len } = first;
        let mut sent = 0;
        loop {
            sent += len;
            self.layer.mpi.bcast(&mut buffer[..len], self.root, self.comm.comm)?;
            cut.pass(cut.next(raw.len()).len(), len);
            let piece = &raw[cut.next(raw.len())];
            if piece.is_empty() {
                break;
            }
            buffer.resize(Coder::max_len(piece.len()).max(buffer.len()), 0);
            len = self.seal_any(piece, &mut buffer)?;
            self.word(len as u64)?;
        }
        self.layer.pool.give(buffer);
        Ok(sent)
    }

    fn receive(
        &self,
        data: &Data,
        shape: Shape,
        plain: impl Fn() -> c_int,
    ) -> Result<(Verdict, Came), Failure> {
        let word = self.word(0)?;
        let (tell, first) = (word & TELL != 0, word & !TELL);
        if first != 0 {
            let came = self.receive_all(data, shape, first)?;
            if tell {
                self.hear(Duration::ZERO)?;
            }
            return Ok((Verdict::Done(0), came));
        }
        let verdict = self.plain(plain, tell)?;
        if verdict == Verdict::Done(0) {
            self.layer.coder.received_raw(self.comm.peer(self.root), self.len);
        }
        Ok((verdict, Ok(())))
    }

    fn receive_all(&self, data: &Data, shape: Shape, first: u64) -> Result<Came, Failure> {
        let mut landing = Landing::new(data, shape);
        let came = match self.chain()? {
            Some(chain) => chain.receive(&mut landing)?,
            None => self.receive_from_root(&mut landing, first)?,
        };
        Ok(came.and_then(|()| landing.finish(self.layer)))
    }

    fn receive_from_root(&self, landing: &mut Landing<'_>, first: u64) -> Result<Came, Failure> {
        let (mut cut, mut came, mut len) = (self.cut().go_on_in(Pieces::LONGEST), Ok(()), first);
        let mut buffer = Vec::new();
        loop {
            let piece = cut.next(self.len);
            let most = Coder::max_len(piece.len());
            let found = usize::try_from(len).ok().filter(|len| (1..=most).contains(len));
            let found = found.ok_or(Failure::Length { expected: most as u64, found: len })?;
            if buffer.len() < most {
                self.layer.pool.give(buffer);
                buffer = self.layer.pool.take(most);
            }
            let message = &mut buffer[..found];
            self.layer.mpi.bcast(message, self.root, self.comm.comm)?;
            cut.pass(piece.len(), found);
            // What else is to come is taken even so: the others send it.
            came = came.and(self.layer.open(self.comm, self.root, message, &mut landing.room()[piece]));
            if cut.next(self.len).is_empty() {
                break;
            }
            len = self.word(0)?;
        }
        self.layer.pool.give(buffer);
        Ok(came)
    }

    /// The program's own call, and how long it took, if that is to be told.
    fn plain(&self, plain: impl Fn() -> c_int, tell: bool) -> Result<Verdict, Failure> {
        let started = Instant::now();
        let code = plain();
        if tell {
            let took = self.hear(started.elapsed())?;
            self.comm.rate.learn(self.len, took);
        }
        Ok(Verdict::Done(code))
    }

    /// Broadcasts a word of the root.
    fn word(&self, word: u64) -> Result<u64, Failure> {
        let mut bytes = word.to_le_bytes();
        self.layer.mpi.bcast(&mut bytes, self.root, self.comm.comm)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// How long it took the slowest rank: the root's own part may be over long before.
    fn hear(&self, took: Duration) -> Result<Duration, Failure> {
        let mut all = vec![0; 8 * self.comm.size as usize];
        let own = (took.as_nanos() as u64).to_le_bytes();
        self.layer.mpi.allgather(&own, &mut all, self.comm.comm)?;
        let (words, _) = all.as_chunks::<8>();
        let slowest = words.iter().map(|word| u64::from_le_bytes(*word)).max().unwrap_or(0);
        Ok(Duration::from_nanos(slowest))
    }
}
