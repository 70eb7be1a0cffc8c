//! A witness on the wire: holds the requests of one direction against the limits of their receiver.

use std::collections::{HashMap, HashSet};

use super::*;

/// Requests of one end that have no answer yet, as the messages tell it.
#[derive(Default)]
pub(super) struct Traffic {
    /// What the receiver of the requests announced.
    limits: Option<Limits>,
    in_flight: HashMap<u16, Asked>,
    bytes: [u64; 2],
    offers: HashSet<u32>,
    pub(super) peak: Peak,
    /// Requests seen, by kind: reads, writes, sends, fetches.
    pub(super) asked: [u64; 4],
    /// Offers seen.
    pub(super) offered: u64,
    /// Payloads of writes and sends that went out compressed.
    pub(super) compressed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
    Send,
    Fetch,
}

#[derive(Clone, Copy)]
struct Asked {
    kind: Kind,
    length: u32,
}

impl Asked {
    fn lane(self) -> usize {
        usize::from(self.kind == Kind::Send)
    }
}

/// The most that was in flight at once.
#[derive(Default)]
pub(super) struct Peak {
    pub(super) requests: usize,
    pub(super) offers: usize,
    /// Of reads, writes and fetches, and of sends.
    pub(super) bytes: [u64; 2],
}

impl Traffic {
    /// The end that answers has greeted.
    pub(super) fn greeted(&mut self, limits: Limits) {
        self.limits = Some(limits);
    }

    /// What the receiver of the requests announced.
    pub(super) fn limits(&self) -> Limits {
        self.limits.expect("the hellos are over")
    }

    /// A request leaves the end that asks.
    pub(super) fn ask(&mut self, header: &Header, payload_len: usize) {
        let (id, kind, length, algorithm) = match *header {
            Header::ReadRequest(m) => (m.id, Kind::Read, m.length, Algorithm::None),
            Header::WriteRequest(m) => (m.id, Kind::Write, m.length, m.algorithm),
            Header::TaggedSend(m) => (m.id, Kind::Send, m.length, m.algorithm),
            Header::Fetch(m) => (m.id, Kind::Fetch, m.length, Algorithm::None),
            Header::Offer(m) => return self.offer(m.offer.0),
            _ => return,
        };
        let limits = self.limits();
        let asked = Asked { kind, length };
        assert!(length <= limits.max_transfer_bytes, "{kind:?} of {length} bytes");
        assert!(payload_len <= length as usize, "{payload_len} bytes of payload for {length}");
        assert!(self.in_flight.insert(id.0, asked).is_none(), "id {id} in use");
        assert!(self.in_flight.len() <= limits.max_in_flight as usize, "{} in flight", self.in_flight.len());
        let lane = asked.lane();
        self.bytes[lane] += u64::from(length);
        assert!(self.bytes[lane] <= limits.window_bytes, "{} bytes in flight", self.bytes[lane]);

        self.peak.requests = self.peak.requests.max(self.in_flight.len());
        self.peak.bytes[lane] = self.peak.bytes[lane].max(self.bytes[lane]);
        self.asked[kind as usize] += 1;
        self.compressed += u64::from(algorithm != Algorithm::None);
    }

    fn offer(&mut self, offer: u32) {
        assert!(self.offers.insert(offer), "offer {offer} in use");
        self.offered += 1;
        self.peak.offers = self.peak.offers.max(self.offers.len());
        assert!(self.offers.len() <= self.limits().max_in_flight as usize, "{} offers", self.offers.len());
    }

    /// An answer reaches the end that asked.
    pub(super) fn answer(&mut self, header: &Header, payload_len: usize) {
        let (id, kinds) = match *header {
            Header::DataReady(m) => (m.id, &[Kind::Read, Kind::Fetch][..]),
            Header::WriteAck(m) => (m.id, &[Kind::Write, Kind::Send][..]),
            Header::OfferAck(m) => return assert!(self.offers.remove(&m.offer.0), "an answer has an offer"),
            _ => return,
        };
        let asked = self.in_flight.remove(&id.0).expect("an answer has a request");
        assert!(kinds.contains(&asked.kind), "{header:?} answers a {:?}", asked.kind);
        assert!(payload_len <= asked.length as usize, "{payload_len} bytes for {}", asked.length);
        self.bytes[asked.lane()] -= u64::from(asked.length);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.offers.is_empty()
    }
}
