//! What ranks say over the socket before they share memory.
//!
//! ```text
//! byte 0       4            6           8       24        28         32                40
//!      "MGCS"  version, u16 form, zero  secret  rank, u32 ranks, u32 bytes a ring, u64        who connects
//!      "MGCS"  version, u16 status, form                                                      the answer
//! ```
//! Numbers are little-endian. The file of the shared memory comes with the hello. The form says what the link is besides: see
//! [`Form`].

use crate::link::Position;
use crate::link::badge::{BADGE_LEN, Badge, Mark};
use crate::message::{Rank, Secret, Status};

/// What both begin with. The version is that of the hello, the shared memory and all that is in it.
pub(super) const MARK: Mark = Mark { magic: *b"MGCS", version: 1 };
/// Bytes of a hello.
pub(super) const HELLO_LEN: usize = BADGE_LEN;
/// Bytes of an answer.
pub(super) const ANSWER_LEN: usize = 8;

/// What joins two ranks. Both must say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) struct Form(pub(in crate::link) u8);

impl Form {
    /// Shared memory of the host, and nothing else.
    pub(super) const HOST: Self = Self(0);
    /// Windows in the memory of devices besides. Another version of what is said of them will be another form.
    #[cfg(feature = "cuda")]
    pub(in crate::link) const WINDOWS: Self = Self(1);
}

/// What the rank that connects says of itself and of the memory that it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShmHello {
    pub(super) secret: Secret,
    pub(super) position: Position,
    pub(super) ring_bytes: u64,
    pub(super) form: Form,
}

impl ShmHello {
    pub(super) fn encode(&self) -> [u8; HELLO_LEN] {
        self.badge().encode(MARK)
    }

    /// Reads a hello; if it is none, the status is what to refuse it with.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Status> {
        let Badge { details, secret, position, number } = Badge::parse(MARK, bytes)?;
        let [form, 0] = details else { return Err(Status::Protocol) };
        Ok(Self { secret, position, ring_bytes: number, form: Form(form) })
    }

    /// The rank of the job that says hello in another version, and which. Nothing else is to be believed of it.
    pub(super) fn of_other_version(bytes: &[u8], secret: Secret, own: Position) -> Option<(Rank, u16)> {
        let (version, badge) = Badge::of_other_version(MARK, bytes)?;
        badge.verify(secret, own).ok()?;
        Some((badge.position.rank, version))
    }

    /// Whether it comes from a rank that `own` expects a connection of. If not, the status says why.
    pub(super) fn verify(&self, secret: Secret, own: Position) -> Result<(), Status> {
        self.badge().verify(secret, own)
    }

    fn badge(&self) -> Badge {
        let Self { secret, position, ring_bytes, form } = *self;
        Badge { details: [form.0, 0], secret, position, number: ring_bytes }
    }
}

/// The answer to a hello, by a side of this form.
pub(super) fn answer(status: Status, form: Form) -> [u8; ANSWER_LEN] {
    let [a, b, c, d] = MARK.magic;
    let [low, high] = MARK.version.to_le_bytes();
    [a, b, c, d, low, high, status.code(), form.0]
}

/// Reads an answer; `None` if it is none. One of another version has no form that means anything.
pub(super) fn parse_answer(bytes: &[u8]) -> Option<(Status, Option<Form>)> {
    let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
    match MARK.check(bytes) {
        Ok(()) => Some((Status::from_code(bytes[6]), Some(Form(bytes[7])))),
        // A rank of another version says so in its own words, which begin like these.
        Err(Status::WrongVersion) => Some((Status::WrongVersion, None)),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: ShmHello = ShmHello {
        secret: Secret::new(*b"0123456789abcdef"),
        position: Position { rank: Rank(2), ranks: 0x0103 },
        ring_bytes: 0x0001_0000,
        form: Form::HOST,
    };

    #[test]
    fn bytes_are_those_of_the_document() {
        let bytes = [
            &b"MGCS\x01\0\0\0"[..],
            b"0123456789abcdef",
            &[2, 0, 0, 0, 3, 1, 0, 0],
            &[0, 0, 1, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(HELLO.encode()[..], bytes);
        assert_eq!(ShmHello::parse(&bytes), Ok(HELLO));
        let windows = ShmHello { form: Form(1), ..HELLO };
        assert_eq!(windows.encode()[..8], *b"MGCS\x01\0\x01\0");
        assert_eq!(ShmHello::parse(&windows.encode()), Ok(windows));
        assert_eq!(answer(Status::WrongSecret, Form(0)), *b"MGCS\x01\0\x08\0");
        assert_eq!(answer(Status::Protocol, Form(1)), *b"MGCS\x01\0\x0e\x01");
        for status in Status::ALL {
            assert_eq!(parse_answer(&answer(status, Form(1))), Some((status, Some(Form(1)))));
        }
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        let good = HELLO.encode();
        let long = [&good[..], &[0]].concat();
        (0..HELLO_LEN).for_each(|len| assert_eq!(ShmHello::parse(&good[..len]), Err(Status::Protocol)));
        assert_eq!(ShmHello::parse(&long), Err(Status::Protocol));
        let changed = |at: usize| {
            let mut bytes = good;
            bytes[at] ^= 1;
            ShmHello::parse(&bytes)
        };
        (0..4).chain(7..8).for_each(|at| assert_eq!(changed(at), Err(Status::Protocol)));
        (4..6).for_each(|at| assert_eq!(changed(at), Err(Status::WrongVersion)));
        assert_eq!(parse_answer(b"MGCS\x02\0\0\0"), Some((Status::WrongVersion, None)));
        for bad in [&b"MGCT\x01\0\0\0"[..], b"MGCS\x01\0\0", b"", b"MGCS\x01\0\0\0\0"] {
            assert_eq!(parse_answer(bad), None);
        }
    }

    #[test]
    fn members_of_another_version_are_known() {
        let own = Position { rank: Rank(1), ranks: 0x0103 };
        let mut newer = HELLO.encode();
        let member = |bytes: &[u8]| ShmHello::of_other_version(bytes, HELLO.secret, own);
        assert_eq!(member(&newer), None);
        newer[5] = 3;
        assert_eq!(member(&newer), Some((Rank(2), 0x0301)));
        (0..HELLO_LEN).for_each(|len| assert_eq!(member(&newer[..len]), None));
        // Without the mark, the secret, a rank that is to come, and as many ranks, it may be anything.
        for at in [0, 8, 23, 27, 28] {
            let mut other = newer;
            other[at] ^= 1;
            assert_eq!(member(&other), None, "byte {at}");
        }
    }

    #[test]
    fn strangers_learn_that_they_are_strangers_first() {
        let own = Position { rank: Rank(1), ranks: 0x0103 };
        assert_eq!(HELLO.verify(HELLO.secret, own), Ok(()));
        let wrong = Secret::new([0; 16]);
        assert_eq!(HELLO.verify(wrong, Position { rank: Rank(2), ranks: 3 }), Err(Status::WrongSecret));
        assert_eq!(HELLO.verify(HELLO.secret, Position { ranks: 3, ..own }), Err(Status::WrongRankCount));
        for rank in [2, 3, 0x0102] {
            let own = Position { rank: Rank(rank), ..own };
            assert_eq!(HELLO.verify(HELLO.secret, own), Err(Status::WrongRank));
        }
    }
}
