//! The end that sends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use mgcomp_codecs::Element;
use mgcomp_selector::{LinkFacts, Overlap};
use mgcomp_transport::attach::envelope::{HEADER_LEN, Header};
use mgcomp_transport::attach::{Coder, Sealed, To};

use super::common::End;
use super::ring::Stage;
use crate::carrier::Outgoing;
use crate::context::Context;
use crate::error::NetError;
use crate::memory::Source;
use crate::objects::RequestNumber;

/// The end that sends.
pub(crate) struct Sender {
    end: End<Sending>,
    peer: u32,
    is_for_any_thread: bool,
    outgoing: Mutex<Box<dyn Outgoing>>,
    /// What is known of the way there.
    link: Mutex<Option<LinkFacts>>,
}

/// A message on its way out.
pub(crate) struct Sending {
    source: Source,
    /// Envelope and frame.
    staged: Vec<u8>,
    sealed: Sealed,
}

impl Default for Sending {
    fn default() -> Self {
        let sealed = Sealed { len: 0, raw_follows: false };
        Self { source: Source::empty(), staged: Vec::new(), sealed }
    }
}

impl Sending {
    /// What goes out, in two pieces.
    pub(crate) fn pieces(&self) -> [&[u8]; 2] {
        let raw = if self.sealed.raw_follows { self.source.bytes() } else { &[] };
        [&self.staged[..self.sealed.len], raw]
    }

    /// One that is these bytes.
    #[cfg(test)]
    pub(crate) fn staged(bytes: &[u8]) -> Self {
        let sealed = Sealed { len: bytes.len(), raw_follows: false };
        Self { source: Source::empty(), staged: bytes.to_vec(), sealed }
    }

    /// Writes an envelope for bytes that go as they are. TCP and the networks below other plugins have checksums of their own,
    /// as for any other traffic of NCCL.
    fn leave(&mut self) {
        let header = Header::raw(self.source.bytes(), Element::U8, false);
        self.grow(HEADER_LEN);
        self.staged[..HEADER_LEN].copy_from_slice(&header.write());
        self.sealed = Sealed { len: HEADER_LEN, raw_follows: true };
    }

    fn seal(&mut self, message: u64, coder: &Coder, to: &To) -> Result<(), NetError> {
        self.grow(Coder::max_len(self.source.bytes().len()));
        let sealed = coder.seal_apart(to, self.source.bytes(), &mut self.staged);
        self.sealed = sealed.map_err(|why| NetError::Seal { message, why })?;
        Ok(())
    }

    fn grow(&mut self, len: usize) {
        if self.staged.len() < len {
            self.staged.resize(len, 0);
        }
    }
}

impl Sender {
    pub(crate) fn new(context: Arc<Context>, outgoing: Box<dyn Outgoing>) -> Self {
        let (peer, is_for_any_thread) = (outgoing.peer(), outgoing.is_for_any_thread());
        let (outgoing, link) = (Mutex::new(outgoing), Mutex::new(None));
        Self { end: End::new(context), peer, is_for_any_thread, outgoing, link }
    }

    /// Takes a message, and returns its number; `None` if there are too many under way.
    pub(crate) fn send(self: &Arc<Self>, source: Source) -> Result<Option<u64>, NetError> {
        self.end.check()?;
        let len = source.bytes().len();
        let coded = self.end.context.may_code(len);
        let posted = self.end.ring.post(|slot| {
            (slot.source, slot.staged) = (source, self.end.buffer());
            if coded {
                return Stage::Coding;
            }
            slot.leave();
            Stage::Carrier
        });
        match posted {
            Some(message) if coded => {
                let (this, to) = (Arc::clone(self), self.to(len));
                self.end.run(move || this.seal(message, &to));
            }
            Some(_) => {
                self.end.context.engine.coder.sent_raw(&self.to(len), len);
                self.drive();
            }
            None => self.drive(),
        }
        self.end.check()?;
        Ok(posted)
    }

    /// How many bytes the request's message has, if it is sent; `None` if there is no such request.
    pub(crate) fn test(&self, number: RequestNumber) -> Result<Option<Option<usize>>, NetError> {
        self.end.finish(
            number,
            || self.drive(),
            |slot| {
                self.end.keep(std::mem::take(&mut slot.staged));
                std::mem::replace(&mut slot.source, Source::empty()).bytes().len()
            },
        )
    }

    /// Lets go of all memory that was lent by now: what threads do with it is waited for.
    pub(crate) fn release(&self) {
        self.end.wait();
    }

    /// Where a message of so many bytes goes. While others are under way, codecs work while the link does.
    fn to(&self, bytes: usize) -> To {
        let known = *self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = self.end.ring.under_way().max(1);
        let overlap = match (bytes / under_way) as u64 {
            segment @ 1.. if under_way > 1 => Overlap::Segments(segment),
            _ => Overlap::None,
        };
        let link =
            known.and_then(|link| LinkFacts::try_new(link.rate_gbps(), link.latency_ns(), overlap).ok());
        To { peer: self.peer, stream: self.end.context.stream(), element: None, link }
    }

    fn seal(&self, message: u64, to: &To) {
        let coder = &self.end.context.engine.coder;
        let seal = || self.end.ring.content(message).seal(message, coder, to);
        match catch_unwind(AssertUnwindSafe(seal)).unwrap_or(Err(NetError::Panic)) {
            Ok(()) => self.end.ring.set(message, Stage::Carrier),
            Err(fault) => self.end.fail(fault),
        }
        if self.is_for_any_thread {
            self.drive();
        }
    }

    /// Sends on, unless somebody else is at it.
    fn drive(&self) {
        let Some(mut outgoing) = self.end.alone(&self.outgoing) else { return };
        if let Err(fault) = outgoing.drive(&self.end.ring) {
            self.end.context.engine.coder.failed(self.peer);
            self.end.fail(fault);
        }
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = outgoing.facts();
    }
}
