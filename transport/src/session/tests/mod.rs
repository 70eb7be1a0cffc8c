//! Sessions put to the test: both ends against each other in virtual time, and one end against a peer that
//! says whatever the test wants.

mod closing;
mod codec;
mod decode_times;
mod exchange;
mod groups;
mod hello;
mod hostile;
mod limits;
mod noise;
mod offers;
mod parts;
mod posted;
mod raw;
mod refused;
mod rng;
mod silence;
mod solo;
mod tagged;
mod traffic;
mod windows;
mod world;

use std::time::Duration;

use super::*;
use crate::message::{Address, Rank, ReadRequest, Secret, Tag};

const SECRET: [u8; 16] = [0x5e; 16];

/// What each piece of codec work takes.
const DECODE_TIME: Duration = Duration::from_nanos(2500);

/// The tag of an operation of a group.
const OF_GROUP: u64 = 0x8000_0580_0000_0003;

/// Limits that are no hindrance.
const WIDE: Limits = Limits { max_transfer_bytes: 1 << 20, window_bytes: 1 << 24, max_in_flight: 1 << 16 };

/// The session of rank `local`, 0 or 1, with the other one.
fn config(local: u32, limits: Limits) -> SessionConfig {
    SessionConfig {
        keeps_arrived: true,
        local: Rank(local),
        peer: Rank(1 - local),
        ranks: 2,
        secret: Secret::new(SECRET),
        limits,
        piece_bytes: 1 << 16,
        greeting_timeout: Duration::from_secs(5),
        silence_timeout: Duration::from_secs(9),
    }
}

/// What rank `local` says of itself; it decodes whatever this version can.
fn greeting(local: u32, limits: Limits) -> Greeting {
    Greeting {
        secret: Secret::new(SECRET),
        rank: Rank(local),
        ranks: 2,
        limits,
        algorithms: AlgorithmSet::supported(),
        elements: ElementSet::all(),
    }
}

impl Session {
    /// Nothing is under way, and nothing is remembered of what was.
    fn is_idle(&self) -> bool {
        self.requester.is_idle()
            && self.responder.is_idle()
            && self.inbox.is_idle()
            && self.messages.is_idle()
            && self.groups_over.is_empty()
            && self.jobs.is_empty()
            && self.decode_times.is_idle()
            && self.actions.is_empty()
    }
}
