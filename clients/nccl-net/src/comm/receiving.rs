//! The end that receives.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use mgcomp_codecs::Algorithm;
use mgcomp_transport::attach::envelope::{HEADER_LEN, Header};

use super::common::End;
use super::ring::Stage;
use crate::carrier::Incoming;
use crate::context::Context;
use crate::error::NetError;
use crate::memory::Destination;
use crate::objects::RequestNumber;

/// The end that receives.
pub(crate) struct Receiver {
    end: End<Receiving>,
    incoming: Mutex<Arriving>,
}

struct Arriving {
    carrier: Box<dyn Incoming>,
    arrived: Arrived,
}

/// Messages that are there, as far as more is to be done about them.
#[derive(Default)]
pub(crate) struct Arrived {
    /// Those that have to be decoded.
    coded: Vec<u64>,
    /// The lengths of those that came raw, which are to be counted.
    raw: Vec<usize>,
}

/// A message on its way in.
pub(crate) struct Receiving {
    destination: Destination,
    /// If there are no more than this, NCCL's kernel may look at the bytes while they come.
    looked_at_bytes: usize,
    /// Envelope, and what is not received to where it goes.
    staged: Vec<u8>,
    header: Option<Header>,
    raw_len: usize,
}

impl Default for Receiving {
    fn default() -> Self {
        Self {
            destination: Destination::empty(),
            looked_at_bytes: 0,
            staged: Vec::new(),
            header: None,
            raw_len: 0,
        }
    }
}

/// Where a piece of a message is to be received.
pub(crate) enum Room<'a> {
    /// In memory of ours.
    Own(&'a mut [u8]),
    /// Where it goes.
    Lent(&'a mut [MaybeUninit<u8>]),
}

impl Receiving {
    /// Takes the envelope of a message; returns how many bytes follow.
    pub(crate) fn begin(&mut self, message: u64, envelope: &[u8; HEADER_LEN]) -> Result<usize, NetError> {
        let header = Header::parse(envelope).map_err(|why| NetError::envelope(message, why))?;
        let room = self.destination.len();
        if header.raw_len > room as u64 {
            return Err(NetError::TooLong { raw_len: header.raw_len, room });
        }
        self.raw_len = header.raw_len as usize;
        self.header = Some(header);
        // No longer than the raw bytes, and those fit.
        let stored_len = header.stored_len as usize;
        if !self.is_direct() {
            if self.staged.len() < HEADER_LEN + stored_len {
                self.staged.resize(HEADER_LEN + stored_len, 0);
            }
            self.staged[..HEADER_LEN].copy_from_slice(envelope);
        }
        Ok(stored_len)
    }

    /// Where what follows the envelope goes, from byte `at` on.
    pub(crate) fn room(&mut self, at: usize, stored_len: usize) -> Room<'_> {
        if self.is_direct() {
            Room::Lent(self.destination.room(at, stored_len))
        } else {
            Room::Own(&mut self.staged[HEADER_LEN + at..HEADER_LEN + stored_len])
        }
    }

    /// The bytes that NCCL has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.destination.len()
    }

    /// Takes what follows the envelope, all at once.
    pub(crate) fn fill(&mut self, stored: &[u8]) {
        if self.is_direct() {
            self.destination.write_in_order(stored);
        } else {
            self.staged[HEADER_LEN..HEADER_LEN + stored.len()].copy_from_slice(stored);
        }
    }

    /// All is there: checks what is raw; says who has the message next, and tells `arrived` what else is to be done.
    pub(crate) fn end(&mut self, message: u64, arrived: &mut Arrived) -> Result<Stage, NetError> {
        let Some(header) = self.header else { return Ok(Stage::Carrier) };
        if header.algorithm != Algorithm::None {
            arrived.coded.push(message);
            return Ok(Stage::Coding);
        }
        let wrong = |why| NetError::envelope(message, why);
        if self.is_direct() {
            header.check_raw(self.destination.written(self.raw_len)).map_err(wrong)?;
        } else {
            let raw = &self.staged[HEADER_LEN..HEADER_LEN + self.raw_len];
            header.check_raw(raw).map_err(wrong)?;
            self.destination.write_in_order(raw);
        }
        arrived.raw.push(self.raw_len);
        Ok(Stage::Done)
    }

    /// Whether the bytes are received to where they go: raw ones that nobody looks at before they are all there.
    fn is_direct(&self) -> bool {
        self.raw_len > self.looked_at_bytes
            && self.header.is_some_and(|header| header.algorithm == Algorithm::None)
    }

    fn open(&mut self, message: u64, context: &Context, from: u32) -> Result<(), NetError> {
        thread_local! {
            static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let Some(header) = self.header else { return Ok(()) };
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < self.raw_len {
                scratch.resize(self.raw_len, 0);
            }
            let sealed = &self.staged[..HEADER_LEN + header.stored_len as usize];
            let opened = context.engine.coder.open(from, sealed, &mut scratch[..self.raw_len]);
            opened.map_err(|why| NetError::Message { message, why })?;
            self.destination.write_in_order(&scratch[..self.raw_len]);
            Ok(())
        })
    }
}

impl Receiver {
    pub(crate) fn new(context: Arc<Context>, carrier: Box<dyn Incoming>) -> Self {
        let arriving = Arriving { carrier, arrived: Arrived::default() };
        Self { end: End::new(context), incoming: Mutex::new(arriving) }
    }

    /// Takes a place for the next message, and returns its number; `None` if there are too many under way.
    pub(crate) fn receive(
        self: &Arc<Self>,
        destination: Destination,
        is_looked_at: bool,
    ) -> Result<Option<u64>, NetError> {
        self.end.check()?;
        let looked_at_bytes = if is_looked_at { usize::MAX } else { self.end.context.looked_at_bytes() };
        let posted = self.end.ring.post(|slot| {
            (slot.destination, slot.looked_at_bytes, slot.header) = (destination, looked_at_bytes, None);
            slot.staged = self.end.buffer();
            Stage::Carrier
        });
        self.drive();
        self.end.check()?;
        Ok(posted)
    }

    /// How many bytes the request's message has, if it is there; `None` if there is no such request.
    pub(crate) fn test(self: &Arc<Self>, number: RequestNumber) -> Result<Option<Option<usize>>, NetError> {
        self.end.finish(
            number,
            || self.drive(),
            |slot| {
                slot.destination = Destination::empty();
                self.end.keep(std::mem::take(&mut slot.staged));
                slot.raw_len
            },
        )
    }

    /// Lets go of all memory that was lent by now: what threads do with it is waited for.
    pub(crate) fn release(&self) {
        self.end.wait();
    }

    /// Receives on, unless somebody else is at it, and has decoded what is there.
    fn drive(self: &Arc<Self>) {
        let Some(mut arriving) = self.end.alone(&self.incoming) else { return };
        let Arriving { carrier, arrived } = &mut *arriving;
        let coder = &self.end.context.engine.coder;
        let driven = carrier.drive(&self.end.ring, arrived);
        // Who that is may have come with the first message.
        let from = carrier.peer();
        if let Err(fault) = driven {
            coder.failed(from);
            self.end.fail(fault);
        }
        arrived.raw.drain(..).for_each(|len| coder.received_raw(from, len));
        for message in arrived.coded.drain(..) {
            let this = Arc::clone(self);
            self.end.run(move || this.open(message, from));
        }
    }

    fn open(&self, message: u64, from: u32) {
        let open = || self.end.ring.content(message).open(message, &self.end.context, from);
        match catch_unwind(AssertUnwindSafe(open)).unwrap_or(Err(NetError::Panic)) {
            Ok(()) => self.end.ring.set(message, Stage::Done),
            Err(fault) => self.end.fail(fault),
        }
    }
}
