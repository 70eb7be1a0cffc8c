//! What goes to several peers alike is encoded once for all of them.
//!
//! Each peer has a session of its own, which asks for what it sends by itself: when the peer has room for it, and with the algorithm
//! that is chosen for that peer. That two of these payloads are one is said by whoever sends them: bytes at the same address may
//! be others by then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::Algorithm;

use crate::executor::Ticket;
use crate::payload::Payload;

/// To encode less than this again takes no longer than to find out that it was.
const SHORTEST_BYTES: u64 = 4 << 10;

/// A node keeps frames of so many raw bytes for peers that ask for them later. What is not kept is encoded again.
const KEPT_BYTES: u64 = 8 << 20;

/// What is made of a payload that goes to several peers.
#[derive(Debug)]
pub(crate) struct Fanout {
    raw_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many of the peers have yet to ask.
    left: usize,
    /// By the algorithm that was asked for. Peers that differ in that are few.
    made: Vec<(Algorithm, Made)>,
}

#[derive(Debug)]
enum Made {
    /// This is at it.
    UnderWay(Ticket),
    /// The payload, coded so, which counts as long as it is kept.
    Kept(Algorithm, Payload, #[expect(dead_code, reason = "it is there to be dropped")] Share),
    /// It was no shorter than the raw bytes, which lie where they lay.
    Raw,
}

/// How a peer gets what it asks for.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is to be encoded, for this peer and for those that ask meanwhile.
    Lead,
    /// It comes from what is under way for another one.
    Follow(Ticket),
    /// It is there, coded so.
    Take(Algorithm, Payload),
    /// It was tried for another one, and saved nothing.
    Raw,
}

impl Fanout {
    /// For `raw_bytes` that go to so many peers; none where nothing is gained.
    pub(crate) fn new(raw_bytes: u64, peers: usize) -> Option<Arc<Self>> {
        let state = Mutex::new(State { left: peers, made: Vec::new() });
        (raw_bytes >= SHORTEST_BYTES && peers > 1).then(|| Arc::new(Self { raw_bytes, state }))
    }

    /// One of the peers is to have it encoded by `algorithm`.
    pub(crate) fn claim(&self, algorithm: Algorithm) -> Claim {
        let mut state = self.lock();
        let claim = match state.made.iter().find(|(asked, _)| *asked == algorithm) {
            None => Claim::Lead,
            Some((_, Made::UnderWay(ticket))) => Claim::Follow(*ticket),
            Some((_, Made::Kept(sent, payload, _))) => Claim::Take(*sent, payload.clone()),
            Some((_, Made::Raw)) => Claim::Raw,
        };
        state.count_one();
        claim
    }

    /// One of the peers gets it in a way of its own.
    pub(crate) fn pass(&self) {
        self.lock().count_one();
    }

    /// What leads is under way.
    pub(crate) fn lead(&self, algorithm: Algorithm, ticket: Ticket) {
        let mut state = self.lock();
        if state.left > 0 {
            state.made.push((algorithm, Made::UnderWay(ticket)));
        }
    }

    /// What leads has come to its end: what it has made, if it has made anything, serves peers that ask later, as far as `kept` has
    /// room for it.
    pub(crate) fn led(&self, algorithm: Algorithm, made: Option<(Algorithm, &Payload)>, kept: &KeptFrames) {
        let mut state = self.lock();
        state.made.retain(|(asked, _)| *asked != algorithm);
        if state.left == 0 {
            return;
        }
        let made = made.and_then(|(sent, payload)| match sent {
            Algorithm::None if sent != algorithm => Some(Made::Raw),
            _ => kept.take(self.raw_bytes).map(|share| Made::Kept(sent, payload.clone(), share)),
        });
        state.made.extend(made.map(|made| (algorithm, made)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count_one(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.made.clear();
        }
    }
}

/// How many raw bytes there are in the frames that a node keeps.
#[derive(Debug, Default)]
pub(crate) struct KeptFrames(Arc<AtomicU64>);

impl KeptFrames {
    fn take(&self, raw_bytes: u64) -> Option<Share> {
        // What is let go of meanwhile does no harm, and nobody else takes.
        if self.0.load(Ordering::Relaxed) + raw_bytes > KEPT_BYTES {
            return None;
        }
        self.0.fetch_add(raw_bytes, Ordering::Relaxed);
        Some(Share { kept: self.0.clone(), raw_bytes })
    }
}

/// What one frame counts.
#[derive(Debug)]
struct Share {
    kept: Arc<AtomicU64>,
    raw_bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.raw_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn frame(byte: u8) -> Payload {
        Payload::from_bytes(Bytes::from(vec![byte; 10]))
    }

    fn taken(claim: Claim) -> (Algorithm, u8) {
        match claim {
            Claim::Take(sent, payload) => (sent, payload.bytes().unwrap()[0]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_leads_and_others_follow_or_take_what_it_has_made() {
        let (fanout, kept) = (Fanout::new(1 << 20, 4).unwrap(), KeptFrames::default());
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
        fanout.lead(Algorithm::Xp, Ticket(7));
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Follow(Ticket(7))));
        // Another algorithm is another matter.
        assert!(matches!(fanout.claim(Algorithm::Zvc), Claim::Lead));
        fanout.lead(Algorithm::Zvc, Ticket(8));
        fanout.led(Algorithm::Xp, Some((Algorithm::Xp, &frame(1))), &kept);
        assert_eq!(kept.0.load(Ordering::Relaxed), 1 << 20);
        assert_eq!(taken(fanout.claim(Algorithm::Xp)), (Algorithm::Xp, 1));
        // That was the last of four: nothing is kept for nobody.
        assert_eq!(kept.0.load(Ordering::Relaxed), 0);
        fanout.led(Algorithm::Zvc, Some((Algorithm::Zvc, &frame(2))), &kept);
        assert_eq!(kept.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_saves_nothing_is_not_tried_again() {
        let (fanout, kept) = (Fanout::new(1 << 20, 3).unwrap(), KeptFrames::default());
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
        fanout.lead(Algorithm::Xp, Ticket(0));
        fanout.led(Algorithm::Xp, Some((Algorithm::None, &frame(1))), &kept);
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Raw));
        assert_eq!(kept.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn raw_bytes_that_were_copied_serve_others() {
        let (fanout, kept) = (Fanout::new(1 << 20, 3).unwrap(), KeptFrames::default());
        assert!(matches!(fanout.claim(Algorithm::None), Claim::Lead));
        fanout.lead(Algorithm::None, Ticket(0));
        fanout.led(Algorithm::None, Some((Algorithm::None, &frame(1))), &kept);
        assert_eq!(taken(fanout.claim(Algorithm::None)), (Algorithm::None, 1));
    }

    #[test]
    fn what_has_failed_is_done_again() {
        let (fanout, kept) = (Fanout::new(1 << 20, 3).unwrap(), KeptFrames::default());
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
        fanout.lead(Algorithm::Xp, Ticket(0));
        fanout.led(Algorithm::Xp, None, &kept);
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
    }

    #[test]
    fn a_node_keeps_no_more_than_it_may_and_lets_go_with_the_last_payload() {
        let kept = KeptFrames::default();
        let made = || {
            let fanout = Fanout::new(3 << 20, 2).unwrap();
            assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
            fanout.lead(Algorithm::Xp, Ticket(0));
            fanout.led(Algorithm::Xp, Some((Algorithm::Xp, &frame(1))), &kept);
            fanout
        };
        let [first, second, third] = [made(), made(), made()];
        assert_eq!(kept.0.load(Ordering::Relaxed), 6 << 20);
        assert!(matches!(third.claim(Algorithm::Xp), Claim::Lead), "9 MiB are more than 8");
        assert_eq!(taken(second.claim(Algorithm::Xp)), (Algorithm::Xp, 1));
        assert_eq!(kept.0.load(Ordering::Relaxed), 3 << 20);
        drop(first);
        assert_eq!(kept.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn peers_that_get_it_in_a_way_of_their_own_count() {
        let (fanout, kept) = (Fanout::new(1 << 20, 3).unwrap(), KeptFrames::default());
        fanout.pass();
        assert!(matches!(fanout.claim(Algorithm::Xp), Claim::Lead));
        fanout.lead(Algorithm::Xp, Ticket(0));
        fanout.pass();
        fanout.led(Algorithm::Xp, Some((Algorithm::Xp, &frame(1))), &kept);
        assert_eq!(kept.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn there_is_none_for_one_peer_or_a_short_payload() {
        assert!(Fanout::new(1 << 20, 1).is_none() && Fanout::new(4095, 8).is_none());
        assert!(Fanout::new(4096, 2).is_some());
    }
}
