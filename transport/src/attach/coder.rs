//! Seals messages by a policy, and opens them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgcomp_codecs::frame::{ChunkSize, Frame, FrameError, MAX_RAW_LEN, Options, encode_to, max_frame_len};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, codec};
use mgcomp_selector::{CheapFacts, Decision, LinkFacts, Outcome, Plan, Policy, Steering, StreamId};

use super::comparison::PartOf;
use super::envelope::{EnvelopeError, HEADER_LEN, Header};
use super::guess::guess_element;
use super::settings::EnvSettings;
use crate::calibrate;
use crate::control::{self, Meter};
use crate::executor::estimate;
use crate::link::Position;

/// Messages shorter than this are not looked at to find what they are values of.
const LEAST_GUESSED: usize = 4 << 10;
/// So many messages of a stream are taken for values of the same.
const GUESS_HOLDS: u32 = 256;
/// Streams whose guess is remembered at most.
const MOST_STREAMS: usize = 1024;

/// Seals and opens messages, on whatever thread calls: all may at the same time. It has no thread of its own but the one that
/// shows the process to the daemon.
#[derive(Debug)]
pub struct Coder {
    state: Mutex<State>,
    element: Option<Element>,
    checksum: bool,
}

#[derive(Debug)]
struct State {
    policy: Box<dyn Policy>,
    meter: Meter,
    guesses: HashMap<(u32, StreamId), Guess>,
}

/// What a stream's messages are taken for.
#[derive(Clone, Copy, Debug)]
struct Guess {
    element: Element,
    /// For so many more.
    holds: u32,
}

/// Where a message goes, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct To {
    /// The rank that will open it, or whatever number stands for it.
    pub peer: u32,
    /// What it is like: messages of one stream tend to be values of the same, and compress alike.
    pub stream: StreamId,
    /// What it is values of; without it, what [`EnvSettings`] say, else what its bytes look like.
    pub element: Option<Element>,
    /// What is known of the way there. Without it, the policy `adaptive` leaves messages as they are.
    pub link: Option<LinkFacts>,
}

/// A sealed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Bytes at the front of the room that was given: the envelope, and a frame behind it if there is one.
    pub len: usize,
    /// Whether the raw bytes follow.
    pub raw_follows: bool,
}

/// Why a message was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// [`Coder::max_len`] says how much room a message needs.
    #[error("room for {room} bytes, where a message may take {needed}")]
    Room {
        /// Bytes that it may take.
        needed: usize,
        /// Bytes there are.
        room: usize,
    },
}

/// Why a message was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Its envelope is wrong, or does not go with the bytes.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// It is not as long as its envelope says.
    #[error("{found} bytes behind an envelope that speaks of {expected}")]
    Length {
        /// Bytes that the envelope speaks of.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// What was sent is longer than the room for it.
    #[error("a message of {raw_len} bytes, and room for {room}")]
    Room {
        /// Its length in bytes.
        raw_len: u64,
        /// Bytes of room.
        room: u64,
    },
    /// Its frame is wrong.
    #[error("a frame that does not decode: {0}")]
    Frame(#[from] FrameError),
    /// Its frame is not the one that its envelope speaks of.
    #[error("a frame of {found_len} bytes by {found} in an envelope that speaks of {raw_len} by {expected}")]
    OtherFrame {
        /// What the envelope says.
        expected: Algorithm,
        /// The length that it says.
        raw_len: u64,
        /// What the frame says.
        found: Algorithm,
        /// The length that it says.
        found_len: u64,
    },
}

impl Coder {
    /// A coder for the process at `position`; with [`EnvSettings::off`] it seals all messages raw.
    #[must_use]
    pub fn new(position: Position, settings: &EnvSettings) -> Self {
        let steering = Steering { lambda: settings.lambda, speeds: calibrate::speeds() };
        let (policy, meter) = if settings.off {
            control::switched_off() // which no operator is asked about
        } else {
            control::steer(settings.policy.build(&steering), None, position)
        };
        let state = Mutex::new(State { policy, meter, guesses: HashMap::new() });
        Self { state, element: settings.element, checksum: settings.checksum }
    }

    /// The most bytes that a message of `raw_len` takes, its envelope counted.
    #[must_use]
    pub fn max_len(raw_len: usize) -> usize {
        HEADER_LEN + max_frame_len(raw_len, Options::for_len(raw_len))
    }

    /// Seals `raw` into the front of `message`, which has [`max_len`](Self::max_len) bytes; returns how many it took.
    ///
    /// # Errors
    /// [`SealError`] if there are fewer.
    pub fn seal(&self, to: &To, raw: &[u8], message: &mut [u8]) -> Result<usize, SealError> {
        let Sealed { len, raw_follows } = self.seal_apart(to, raw, message)?;
        if !raw_follows {
            return Ok(len);
        }
        message[len..len + raw.len()].copy_from_slice(raw);
        Ok(len + raw.len())
    }

    /// The same for who can send from two places: bytes that go raw stay where they are.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_apart(&self, to: &To, raw: &[u8], message: &mut [u8]) -> Result<Sealed, SealError> {
        let element = self.element(to, raw);
        Ok(match self.seal_frame(&To { element: Some(element), ..*to }, raw, message, None)? {
            Some(len) => Sealed { len, raw_follows: false },
            None => Sealed { len: self.seal_raw(element, raw, message)?, raw_follows: true },
        })
    }

    /// Seals a frame of `raw` into the front of `message`, which has [`max_len`](Self::max_len) bytes; returns how many it took. `None` if
    /// the policy or the collective that it is `part_of` wants no frame, or none is shorter: then it counts as sent raw, and nothing is sealed.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_frame(
        &self,
        to: &To,
        raw: &[u8],
        message: &mut [u8],
        part_of: Option<PartOf<'_>>,
    ) -> Result<Option<usize>, SealError> {
        let needed = Self::max_len(raw.len());
        if message.len() < needed {
            return Err(SealError::Room { needed, room: message.len() });
        }
        let facts = CheapFacts {
            peer: to.peer,
            stream: to.stream,
            raw_bytes: raw.len() as u64,
            element: self.element(to, raw),
            allowed: AlgorithmSet::supported(),
            link: to.link,
            lambda: None,
            is_observed: true,
        };
        let (header, room) = message.split_at_mut(HEADER_LEN);
        let Some((algorithm, len)) = self.encode(&facts, raw, room, part_of) else { return Ok(None) };
        let (raw_len, stored_len) = (facts.raw_bytes, len as u64);
        let envelope = Header { algorithm, element: facts.element, raw_len, stored_len, checksum: None };
        header.copy_from_slice(&envelope.write());
        Ok(Some(HEADER_LEN + len))
    }

    /// Writes to the front of `message` the envelope of `raw`, values of that element that follow as they are; returns how many bytes it
    /// took. Counts nothing.
    ///
    /// # Errors
    /// [`SealError`] if there are fewer.
    pub fn seal_raw(&self, element: Element, raw: &[u8], message: &mut [u8]) -> Result<usize, SealError> {
        let room = message.len();
        let Some(header) = message.first_chunk_mut::<HEADER_LEN>() else {
            return Err(SealError::Room { needed: HEADER_LEN, room });
        };
        *header = Header::raw(raw, element, self.checksum).write();
        Ok(HEADER_LEN)
    }

    /// Opens the `message` that `from` sealed, into the front of `into`; returns its length. If that fails, parts of
    /// `into` may have been written.
    ///
    /// # Errors
    /// [`OpenError`] if it is no message, or not a good one, or longer than `into`.
    pub fn open(&self, from: u32, message: &[u8], into: &mut [u8]) -> Result<usize, OpenError> {
        let started = Instant::now();
        let opened = open(message, into);
        match &opened {
            Ok(raw_len) => self.received(from, *raw_len, message.len() - HEADER_LEN, started.elapsed()),
            Err(_) => self.failed(from),
        }
        opened
    }

    /// Counts bytes that go raw without having been asked about here. What was is counted already, also where it goes raw.
    pub fn sent_raw(&self, to: &To, raw_len: usize) {
        self.lock().meter.sent_raw(to.peer, to.stream, raw_len as u64, to.link);
    }

    /// Counts a raw message of `from` that somebody else opened.
    pub fn received_raw(&self, from: u32, raw_len: usize) {
        self.received(from, raw_len, raw_len, Duration::ZERO);
    }

    /// Counts a message from or to `peer` that came to nothing.
    pub fn failed(&self, peer: u32) {
        self.lock().meter.failed(peer);
    }

    fn received(&self, from: u32, raw_len: usize, stored_len: usize, took: Duration) {
        self.lock().meter.decoded(from, raw_len as u64, stored_len as u64, took);
    }

    /// What `raw` is values of, as far as anybody says so, or what it is taken for.
    fn element(&self, to: &To, raw: &[u8]) -> Element {
        to.element.or(self.element).unwrap_or_else(|| self.guess(to, raw))
    }

    /// What `raw` is taken for values of. Only now and then are its bytes looked at.
    fn guess(&self, to: &To, raw: &[u8]) -> Element {
        let key = (to.peer, to.stream);
        if let Some(guess) = self.lock().guesses.get_mut(&key)
            && guess.holds > 0
        {
            guess.holds -= 1;
            return guess.element;
        }
        if raw.len() < LEAST_GUESSED {
            return Element::U8;
        }
        let element = guess_element(raw);
        let guesses = &mut self.lock().guesses;
        if guesses.len() >= MOST_STREAMS && !guesses.contains_key(&key) {
            guesses.clear();
        }
        guesses.insert(key, Guess { element, holds: GUESS_HOLDS });
        element
    }

    /// Writes a frame to `room` if the policy wants one and it is shorter than `raw`; returns how it is coded, and its length.
    fn encode(
        &self,
        facts: &CheapFacts,
        raw: &[u8],
        room: &mut [u8],
        part_of: Option<PartOf<'_>>,
    ) -> Option<(Algorithm, usize)> {
        let (decision, sampling) = self.decide(facts, raw);
        let decision = match part_of {
            Some(part_of) => part_of.decide(facts, decision, sampling.is_some()),
            None => decision,
        };
        let started = Instant::now();
        let frame = codec(decision.algorithm).filter(|_| facts.raw_bytes <= MAX_RAW_LEN).and_then(|codec| {
            let options = Options { chunk_size: ChunkSize::for_len(raw.len()), checksum: self.checksum };
            encode_to(codec, facts.element, raw, options, room).ok()
        });
        let encode = (decision.algorithm != Algorithm::None).then(|| started.elapsed());
        let frame = frame.filter(|len| *len < raw.len()).map(|len| (decision.algorithm, len));
        let outcome = Outcome {
            sent: frame.map_or(Algorithm::None, |(algorithm, _)| algorithm),
            coded_bytes: frame.map_or(facts.raw_bytes, |(_, len)| len as u64),
            sampling,
            encode,
            decode: None,
            acknowledged: None,
        };
        self.lock().policy.observe(facts, &decision, &outcome);
        frame
    }

    fn decide(&self, facts: &CheapFacts, raw: &[u8]) -> (Decision, Option<Duration>) {
        let plan = self.lock().policy.plan(facts);
        match plan {
            Plan::Use(decision) => (decision, None),
            Plan::Sample { algorithms, size } => {
                let started = Instant::now();
                let estimates = estimate(raw, facts.element, algorithms, size);
                let took = started.elapsed();
                (self.lock().policy.choose(facts, &estimates), Some(took))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(message: &[u8], into: &mut [u8]) -> Result<usize, OpenError> {
    let header = Header::parse(message)?;
    let stored = &message[HEADER_LEN..];
    let (found, room) = (stored.len() as u64, into.len() as u64);
    if header.stored_len != found {
        return Err(OpenError::Length { expected: header.stored_len, found });
    }
    let raw_len = header.raw_len;
    if raw_len > room {
        return Err(OpenError::Room { raw_len, room });
    }
    let into = &mut into[..raw_len as usize];
    if header.algorithm == Algorithm::None {
        header.check_raw(stored)?;
        into.copy_from_slice(stored);
        return Ok(into.len());
    }
    let frame = Frame::parse(stored)?;
    let (found, found_len) = (frame.header().algorithm, frame.header().raw_len);
    if found != header.algorithm || found_len != raw_len {
        return Err(OpenError::OtherFrame { expected: header.algorithm, raw_len, found, found_len });
    }
    frame.decode_into(into)?;
    Ok(into.len())
}
