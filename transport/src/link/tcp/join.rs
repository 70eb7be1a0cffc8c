//! How the connections of two ranks find each other, where there are several: the first record of each says to which
//! set it belongs. A single one needs no such record, and begins with the hello.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::connections::Connections;
use crate::link::Position;
use crate::link::badge::{BADGE_LEN, Badge, Mark};
use crate::message::{Rank, Secret, Status, VERSION};

const MARK: Mark = Mark { magic: *b"MGCJ", version: VERSION };

/// One connection of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Join {
    pub(super) secret: Secret,
    /// Who makes the set.
    pub(super) position: Position,
    /// How many connections it has: more than one.
    pub(super) connections: u8,
    /// Which of them this is, from 0.
    pub(super) connection: u8,
    /// What tells the set from others of the same rank.
    pub(super) set: u64,
}

impl Join {
    /// The first records of a new set. Of one connection there is none.
    pub(super) fn new_set(secret: Secret, position: Position, connections: Connections) -> Vec<Option<Self>> {
        if connections == Connections::ONE {
            return vec![None];
        }
        // Keyed by chance. Nobody has to be unable to guess it: whoever shows it shows the secret as well.
        let (set, connections) = (RandomState::new().hash_one(position.rank.0), connections.count() as u8);
        let join = |connection| Some(Self { secret, position, connections, connection, set });
        (0..connections).map(join).collect()
    }

    pub(super) fn encode(&self) -> [u8; BADGE_LEN] {
        self.badge().encode(MARK)
    }

    /// Reads a first record; `None` if it does not claim to be of this kind, and if it is none in spite of it, the
    /// status is what to refuse it with.
    pub(super) fn parse(record: &[u8]) -> Option<Result<Self, Status>> {
        record.starts_with(&MARK.magic).then(|| {
            let Badge { details: [connections, connection], secret, position, number: set } =
                Badge::parse(MARK, record)?;
            let join = Self { secret, position, connections, connection, set };
            let makes_sense = (2..=Connections::MOST.count()).contains(&usize::from(connections));
            if makes_sense && connection < connections { Ok(join) } else { Err(Status::Protocol) }
        })
    }

    /// The rank of the job that makes a set in another version, and in which. Nothing else is to be believed of it.
    pub(super) fn of_other_version(record: &[u8], secret: Secret, own: Position) -> Option<(Rank, u16)> {
        let (version, badge) = Badge::of_other_version(MARK, record)?;
        badge.verify(secret, own).ok()?;
        Some((badge.position.rank, version))
    }

    /// Whether it is of a rank that `own` expects a connection of; if not, the status says why.
    pub(super) fn verify(&self, secret: Secret, own: Position) -> Result<(), Status> {
        self.badge().verify(secret, own)
    }

    fn badge(&self) -> Badge {
        let Self { secret, position, connections, connection, set } = *self;
        Badge { details: [connections, connection], secret, position, number: set }
    }
}

/// The connections of a set that have come.
#[derive(Debug)]
pub(super) struct Joined {
    first: Join,
    /// A bit for each of them.
    come: u32,
}

impl Joined {
    /// A set of which this is the first connection, which is yet to be added.
    pub(super) fn expecting(first: &Join) -> Self {
        Self { first: *first, come: 0 }
    }

    /// Adds a connection. If it has no place in the set, the status is what to refuse it with.
    pub(super) fn add(&mut self, join: &Join) -> Result<(), Status> {
        if join.set != self.first.set {
            return Err(Status::WrongRank); // the rank has made another one
        }
        if join.connections != self.first.connections || self.come >> join.connection & 1 == 1 {
            return Err(Status::Protocol);
        }
        self.come |= 1 << join.connection;
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.come.count_ones() == u32::from(self.first.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Header;

    const JOIN: Join = Join {
        secret: Secret::new([
            0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]),
        position: Position { rank: Rank(2), ranks: 4 },
        connections: 3,
        connection: 1,
        set: 0x0123_4567_89ab_cdef,
    };

    #[test]
    fn bytes_are_those_of_the_document() {
        let wire = include_str!("../../../../WIRE.md");
        let example = wire.split("```join\n").nth(1).unwrap().split("```").next().unwrap();
        let digits: String = example.split_whitespace().collect();
        let bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
            .collect();
        let message = JOIN.encode();
        assert_eq!(bytes[..4], (message.len() as u32).to_le_bytes());
        assert_eq!(bytes[4..8], crc32c::crc32c(&message).to_le_bytes());
        assert_eq!(bytes[8..], message);
        assert_eq!(Join::parse(&message), Some(Ok(JOIN)));
        assert!(Header::parse(&message).is_err(), "no message is like it");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for (connections, connection) in [(0, 0), (1, 0), (17, 0), (2, 2), (16, 255), (255, 1)] {
            let bad = Join { connections, connection, ..JOIN }.encode();
            assert_eq!(Join::parse(&bad), Some(Err(Status::Protocol)), "{connection} of {connections}");
        }
        let good = JOIN.encode();
        (0..4).for_each(|len| assert_eq!(Join::parse(&good[..len]), None));
        (4..BADGE_LEN).for_each(|len| assert_eq!(Join::parse(&good[..len]), Some(Err(Status::Protocol))));
        assert_eq!(Join::parse(&[&good[..], &[0]].concat()), Some(Err(Status::Protocol)));
        let mut newer = good;
        newer[4] += 1;
        assert_eq!(Join::parse(&newer), Some(Err(Status::WrongVersion)));
    }

    #[test]
    fn a_set_is_as_many_as_it_says() {
        assert_eq!(Join::new_set(JOIN.secret, JOIN.position, Connections::ONE), [None]);
        let three = Connections::try_new(3).unwrap();
        let set: Vec<_> = Join::new_set(JOIN.secret, JOIN.position, three).into_iter().flatten().collect();
        assert_eq!(set.iter().map(|join| join.connection).collect::<Vec<_>>(), [0, 1, 2]);
        let mut joined = Joined::expecting(&set[1]);
        for join in [&set[1], &set[2]] {
            assert_eq!(joined.add(join), Ok(()));
            assert!(!joined.is_complete());
        }
        assert_eq!(joined.add(&set[1]), Err(Status::Protocol), "twice the same");
        let more = Join { connections: 4, ..set[0] };
        assert_eq!(joined.add(&more), Err(Status::Protocol), "another number of them");
        let foreign = Join { set: set[0].set ^ 1, ..set[0] };
        assert_eq!(joined.add(&foreign), Err(Status::WrongRank));
        assert_eq!(joined.add(&set[0]), Ok(()));
        assert!(joined.is_complete());
    }
}
