//! One GPU's end of the fabric.
//!
//! ```text
//! requests, answers ──> compressor ──> output buffer ──> bus ──> input buffer ──> decompressor ──> memory, requester
//! ```
//! Compressor and decompressor work on one message at a time, in order, for as long as Table III says: its
//! energy is power times latency, so a line has the unit to itself for all of it. What needs no codec passes in no
//! time. Answers go before new requests. Memory takes in what arrives without waiting for room in the output
//! buffer, so nobody waits for anybody in a circle.

use std::collections::VecDeque;
use std::slice;

use mgcomp_selector::Policy;

use super::super::transfer::Kind;
use super::super::workload::Sized;
use super::codec::{self, CODECS, Coded};
use super::message::{Message, What};
use super::{Outcome, System};

/// Bytes of an input or output buffer.
const BUFFER_BYTES: u32 = 4096;

/// Messages in their order.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    messages: VecDeque<Message>,
    /// Of messages here, and of those that have a place here but are on the bus still.
    bytes: u32,
}

impl Buffer {
    pub(super) fn has_room(&self, message: &Message) -> bool {
        self.bytes + u32::from(message.bytes) <= BUFFER_BYTES
    }

    pub(super) fn reserve(&mut self, message: &Message) {
        self.bytes += u32::from(message.bytes);
    }

    /// Puts in a message that has a place.
    pub(super) fn fill(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    pub(super) fn front(&self) -> Option<&Message> {
        self.messages.front()
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= u32::from(message.bytes);
        Some(message)
    }
}

/// A GPU with its requests still to come.
pub(super) struct Gpu<'a> {
    number: u8,
    system: System,
    transfers: &'a [Sized],
    /// Numbers of the transfers that this GPU asks for.
    requests: slice::Iter<'a, u32>,
    policy: Box<dyn Policy>,
    outstanding: u32,
    /// The message in the compressor, and when it is done.
    encoding: Option<(u64, Message)>,
    pub(super) output: Buffer,
    pub(super) input: Buffer,
    /// When the front of the input buffer is through the decompressor.
    decoding: Option<u64>,
    /// Requests that memory works on, and when each is done.
    memory: VecDeque<(u64, u32)>,
}

impl<'a> Gpu<'a> {
    pub(super) fn new(
        number: u8,
        system: System,
        transfers: &'a [Sized],
        requests: &'a [u32],
        policy: Box<dyn Policy>,
    ) -> Self {
        Self {
            number,
            system,
            transfers,
            requests: requests.iter(),
            policy,
            outstanding: 0,
            encoding: None,
            output: Buffer::default(),
            input: Buffer::default(),
            decoding: None,
            memory: VecDeque::new(),
        }
    }

    /// Does all that can be done by `now`, and says when there is more to do without the bus.
    pub(super) fn advance(&mut self, now: u64, outcome: &mut Outcome) -> u64 {
        while self.receive(now) | self.send(now, outcome) {}
        let encoded = self.encoding.map(|(done, _)| done);
        let fetched = self.memory.front().map(|&(done, _)| done);
        [self.decoding, encoded, fetched]
            .into_iter()
            .flatten()
            .filter(|&at| at > now)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Whether a message only waits for room in the output buffer.
    pub(super) fn waits_for_room(&self, now: u64) -> bool {
        self.encoding.is_some_and(|(done, _)| done <= now)
    }

    /// Whether all its requests are answered.
    pub(super) fn is_done(&self) -> bool {
        self.requests.len() == 0 && self.outstanding == 0
    }

    /// Takes messages through the decompressor; returns whether one moved.
    fn receive(&mut self, now: u64) -> bool {
        let done = match (self.decoding, self.input.front()) {
            (Some(done), _) => done,
            (None, Some(message)) => now + u64::from(message.decompress),
            (None, None) => return false,
        };
        if done > now {
            return self.decoding.replace(done).is_none();
        }
        self.decoding = None;
        let message = self.input.pop().expect("what is decoded is in the buffer");
        if message.what.is_request() {
            self.memory.push_back((now + self.system.memory_cycles, message.transfer));
        } else {
            self.outstanding -= 1;
        }
        true
    }

    /// Takes messages through the compressor; returns whether one moved.
    fn send(&mut self, now: u64, outcome: &mut Outcome) -> bool {
        if let Some((done, message)) = self.encoding {
            if done > now || !self.output.has_room(&message) {
                return false;
            }
            self.output.reserve(&message);
            self.output.fill(message);
            self.encoding = None;
            return true;
        }
        self.encoding = match self.memory.front() {
            Some(&(ready, transfer)) if ready <= now => {
                self.memory.pop_front();
                Some(self.answer(now, transfer, outcome))
            }
            _ if self.outstanding < self.system.outstanding => {
                self.requests.next().map(|&transfer| self.request(now, transfer, outcome))
            }
            _ => None,
        };
        self.encoding.is_some()
    }

    fn request(&mut self, now: u64, transfer: u32, outcome: &mut Outcome) -> (u64, Message) {
        self.outstanding += 1;
        let sized = &self.transfers[transfer as usize];
        match sized.kind {
            Kind::Read => (now, plain(What::ReadRequest, transfer, sized.from)),
            Kind::Write => self.payload(now, What::WriteRequest, transfer, sized.to, outcome),
        }
    }

    fn answer(&mut self, now: u64, transfer: u32, outcome: &mut Outcome) -> (u64, Message) {
        let sized = &self.transfers[transfer as usize];
        match sized.kind {
            Kind::Read => self.payload(now, What::DataReady, transfer, sized.to, outcome),
            Kind::Write => (now, plain(What::WriteAck, transfer, sized.from)),
        }
    }

    /// A message with a payload, and when it is compressed.
    fn payload(
        &mut self,
        now: u64,
        what: What,
        transfer: u32,
        to: u8,
        outcome: &mut Outcome,
    ) -> (u64, Message) {
        let sized = &self.transfers[transfer as usize];
        debug_assert_eq!(sized.from, self.number);
        let coded = codec::code(self.policy.as_mut(), sized);
        outcome.count(sized, &coded);
        // Both are at most 63 lines of 16 cycles.
        let (compress, decompress) = (coded.cycles.compress, coded.cycles.decompress as u16);
        let bytes = what.header_bytes() + coded.bytes;
        (now + compress, Message { what, transfer, to, bytes, decompress })
    }
}

const fn plain(what: What, transfer: u32, to: u8) -> Message {
    Message { what, transfer, to, bytes: what.header_bytes(), decompress: 0 }
}

impl Outcome {
    fn count(&mut self, sized: &Sized, coded: &Coded) {
        let lines = u64::from(sized.lines());
        self.raw_bytes += u64::from(sized.raw_bytes);
        self.payload_bytes += u64::from(coded.bytes);
        self.sent[usize::from(coded.algorithm.number())] += 1;
        for (i, codec) in CODECS.into_iter().enumerate() {
            self.compressed_lines[i] += if coded.tried[i] { lines } else { 0 };
            self.decompressed_lines[i] += if coded.algorithm == codec { lines } else { 0 };
        }
    }
}
