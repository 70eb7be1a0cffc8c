//! Which of several connections with a peer is whose turn.
//!
//! They take turns. A turn is over with the message by which [`TURN_BYTES`] have gone over the connection in it: short
//! messages follow each other over one, and of long ones each goes over another. Both sides count, so nothing is said
//! about it, and whoever reads knows of each message when to hand it on.

use std::sync::Arc;

use tokio::sync::watch;

/// Bytes of messages after which a turn is over.
const TURN_BYTES: u64 = 64 << 10;

/// What has gone over a connection in one turn.
#[derive(Debug, Default)]
struct Turn {
    bytes: u64,
}

impl Turn {
    /// Adds a message of `len` bytes; returns whether the turn is over with it.
    fn add(&mut self, len: u64) -> bool {
        self.bytes += len;
        let is_over = self.bytes >= TURN_BYTES;
        if is_over {
            self.bytes = 0;
        }
        is_over
    }
}

/// Deals out messages to so many connections.
#[derive(Debug)]
pub(super) struct Dealer {
    connections: usize,
    connection: usize,
    turn: Turn,
}

impl Dealer {
    pub(super) fn new(connections: usize) -> Self {
        Self { connections, connection: 0, turn: Turn::default() }
    }

    /// Which connection the next message takes, of `len` bytes.
    pub(super) fn deal(&mut self, len: u64) -> usize {
        let connection = self.connection;
        if self.turn.add(len) {
            self.connection = (connection + 1) % self.connections;
        }
        connection
    }
}

/// The place of one connection among those that messages come from.
#[derive(Debug)]
pub(super) struct Place {
    connections: usize,
    turn: Turn,
    due: Due,
}

/// When it is the turn of a connection.
#[derive(Clone, Debug)]
pub(super) struct Due {
    connection: usize,
    /// Whose turn it is.
    current: Arc<watch::Sender<usize>>,
}

impl Place {
    /// The places of so many connections.
    pub(super) fn all(connections: usize) -> impl Iterator<Item = Self> {
        let current = Arc::new(watch::Sender::new(0));
        (0..connections).map(move |connection| {
            let due = Due { connection, current: current.clone() };
            Self { connections, turn: Turn::default(), due }
        })
    }

    /// Which of the connections it is.
    pub(super) fn connection(&self) -> usize {
        self.due.connection
    }

    /// When it is its turn.
    pub(super) fn due(&self) -> &Due {
        &self.due
    }

    /// A message of `len` bytes was handed on, in its turn.
    pub(super) fn hand_on(&mut self, len: u64) {
        if self.turn.add(len) {
            self.due.current.send_replace((self.due.connection + 1) % self.connections);
        }
    }
}

impl Due {
    /// Whether it is its turn.
    pub(super) fn is_now(&self) -> bool {
        *self.current.borrow() == self.connection
    }

    /// Waits until it is.
    pub(super) async fn reached(&self) {
        if !self.is_now() {
            // An error would mean that nobody is left to change it; this one is.
            let _ = self.current.subscribe().wait_for(|&current| current == self.connection).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_share_a_turn_and_long_ones_take_one_each() {
        let mut dealer = Dealer::new(3);
        let dealt: Vec<_> =
            [65_535, 1, 65_536, 1 << 20, 4, 65_532, 8, 1 << 30].map(|len| dealer.deal(len)).into();
        assert_eq!(dealt, [0, 0, 1, 2, 0, 0, 1, 1]);
        let mut alone = Dealer::new(1);
        assert!((0..10).all(|_| alone.deal(1 << 20) == 0));
    }

    #[test]
    fn who_reads_follows_who_writes() {
        let mut dealer = Dealer::new(4);
        let mut places: Vec<_> = Place::all(4).collect();
        for number in 0..1000u64 {
            let len = number * number % 100_003;
            let connection = dealer.deal(len);
            let due: Vec<_> = places.iter().map(|place| place.due().is_now()).collect();
            let expected: Vec<_> = (0..4).map(|other| other == connection).collect();
            assert_eq!(due, expected, "message {number}");
            places[connection].hand_on(len);
        }
    }
}
