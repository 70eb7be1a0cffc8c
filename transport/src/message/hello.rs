//! Type 5, hello: opens a session, or refuses to.
//!
//! ```text
//! byte 0            1         2                   4                       8
//!      type  zero   status    protocol version    magic "MGCW"            …
//!      5     4 bits 8 bits    16 bits             4d 47 43 57
//! byte 8                      24        28        32
//!      job secret             rank      ranks     …
//!      128 bits               32 bits   32 bits
//! byte 32                36              44           48            50           52           64
//!      max transfer      window          in flight    algorithms    elements     reserved
//!      32 bits           64 bits         32 bits      16 bits       16 bits      96 bits, zero
//! ```
//!
//! The first 8 bytes stand where they do in every version, so that a peer of any version can be refused.

use mgcomp_codecs::{Algorithm, AlgorithmSet, ElementSet};

use super::layout::Layout;
use super::{HeaderBytes, Invalid, Kind, Limits, MessageError, Rank, Secret, Status};

/// The version of the protocol that this code speaks.
pub const VERSION: u16 = 9;

/// A hello is no longer than this in any version: whoever waits for one need not take more.
pub const MAX_HELLO_LEN: usize = 1024;

const MAGIC: u32 = u32::from_be_bytes(*b"MGCW");

// Where fields stand in the layout.
const ZERO_FIELD: usize = 1;
const VERSION_FIELD: usize = 3;
const MAGIC_FIELD: usize = 4;
const BODY_FIELD: usize = 5;
const RESERVED_FIELD: usize = 13;

/// The values of the fields between magic and reserved bits.
type Body = [u128; RESERVED_FIELD - BODY_FIELD];

pub(super) const LAYOUT: Layout<14> = Layout::new(
    Kind::Hello,
    [
        ("type", 4),
        ("zero", 4),
        ("status", 8),
        ("protocol version", 16),
        ("magic", 32),
        ("job secret", 128),
        ("rank", 32),
        ("ranks", 32),
        ("max transfer bytes", 32),
        ("window bytes", 64),
        ("max in flight", 32),
        ("algorithm set", 16),
        ("element set", 16),
        ("reserved", 96),
    ],
);

/// The first message in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Status good: this is who I am and what I take.
    Greeting(Greeting),
    /// Any other status: no session. Tells nothing but the reason; all behind the magic is zero.
    Refusal(Refusal),
}

/// What a rank says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The secret of the job.
    pub secret: Secret,
    /// Who is speaking.
    pub rank: Rank,
    /// How many ranks the job has; more than `rank`.
    pub ranks: u32,
    /// How much the speaker takes at once.
    pub limits: Limits,
    /// The algorithms it decodes; always algorithm 0 among them.
    pub algorithms: AlgorithmSet,
    /// The elements it knows.
    pub elements: ElementSet,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: Status,
}

/// What a peer's greeting must agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The secret of the job.
    pub secret: Secret,
    /// How many ranks the job has.
    pub ranks: u32,
    /// The receiver's own rank.
    pub own: Rank,
    /// Who should be at the other end, where that is known.
    pub peer: Option<Rank>,
}

impl Hello {
    /// The hello that refuses a session because of `status`.
    ///
    /// # Panics
    /// If `status` is good.
    #[must_use]
    pub const fn refusal(status: Status) -> Self {
        assert!(!status.is_good(), "a refusal needs a reason");
        Self::Refusal(Refusal { status })
    }

    /// The rank of the job whose greeting is of another version, and of which. Nothing else is to be believed of it, and that only
    /// because of the secret: nobody knows how such a greeting is laid out.
    pub(crate) fn of_other_version(message: &[u8], expected: &Expected) -> Option<(Rank, u16)> {
        let Err(MessageError::Version { got }) = check_prefix(message) else { return None };
        let [kind, zero, status, _version, _magic, secret, rank, ranks, ..] = LAYOUT.read(message).ok()?;
        let is_greeting = kind == Kind::Hello.number().into() && (zero, status) == (0, 0);
        let is_of_job =
            secret == u128::from_be_bytes(expected.secret.bytes()) && ranks == expected.ranks.into();
        (is_greeting && is_of_job && rank < ranks).then_some((Rank(rank as u32), got))
    }

    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        check_prefix(message)?;
        let [_type, zero, status, _version, _magic, body @ .., reserved] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(ZERO_FIELD, zero)?;
        LAYOUT.expect_zero(RESERVED_FIELD, reserved)?;
        let status = Status::from_code(status as u8);
        if status.is_good() {
            return Ok(Self::Greeting(Greeting::from_body(body)?));
        }
        for (i, value) in body.into_iter().enumerate() {
            LAYOUT.expect_zero(BODY_FIELD + i, value)?;
        }
        Ok(Self::Refusal(Refusal { status }))
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        match self {
            Self::Greeting(greeting) => write(Status::Good, greeting.to_body()),
            Self::Refusal(refusal) => write(refusal.status, Body::default()),
        }
    }
}

impl Refusal {
    /// The reason; never good.
    #[must_use]
    pub const fn status(self) -> Status {
        self.status
    }
}

impl Greeting {
    /// Whether the speaker is who is expected. If not, the status is what to refuse it with.
    ///
    /// # Errors
    /// [`Status::WrongSecret`] before anything else, so that a stranger learns nothing of the job; then
    /// [`Status::WrongRankCount`] or [`Status::WrongRank`].
    pub fn verify(&self, expected: &Expected) -> Result<(), Status> {
        if self.secret != expected.secret {
            return Err(Status::WrongSecret);
        }
        if self.ranks != expected.ranks {
            return Err(Status::WrongRankCount);
        }
        let another = expected.peer.is_some_and(|peer| peer != self.rank);
        if self.rank.0 >= self.ranks || self.rank == expected.own || another {
            return Err(Status::WrongRank);
        }
        Ok(())
    }

    /// What a receiver that knows nothing of the job can check.
    fn check(&self) -> Result<(), Invalid> {
        if self.rank.0 >= self.ranks {
            return Err(Invalid::Rank { rank: self.rank.0, ranks: self.ranks });
        }
        self.limits.check()?;
        if !self.algorithms.contains(Algorithm::None) {
            return Err(Invalid::AlgorithmSet { got: self.algorithms.bits() });
        }
        Ok(())
    }

    fn from_body(body: Body) -> Result<Self, Invalid> {
        let [secret, rank, ranks, max_transfer, window, in_flight, algorithms, elements] = body;
        let greeting = Self {
            secret: Secret::new(secret.to_be_bytes()),
            rank: Rank(rank as u32),
            ranks: ranks as u32,
            limits: Limits {
                max_transfer_bytes: max_transfer as u32,
                window_bytes: window as u64,
                max_in_flight: in_flight as u32,
            },
            algorithms: AlgorithmSet::from_bits(algorithms as u16),
            elements: ElementSet::from_bits(elements as u16),
        };
        greeting.check()?;
        Ok(greeting)
    }

    fn to_body(self) -> Body {
        [
            u128::from_be_bytes(self.secret.bytes()),
            self.rank.0.into(),
            self.ranks.into(),
            self.limits.max_transfer_bytes.into(),
            self.limits.window_bytes.into(),
            self.limits.max_in_flight.into(),
            self.algorithms.bits().into(),
            self.elements.bits().into(),
        ]
    }
}

/// Checks what stands in the same place in every version, as soon as it is there.
fn check_prefix(message: &[u8]) -> Result<(), MessageError> {
    let Some(magic) = LAYOUT.read_field(message, MAGIC_FIELD) else { return Ok(()) };
    if magic != u128::from(MAGIC) {
        return Err(Invalid::Magic { got: (magic as u32).to_be_bytes() }.into());
    }
    match LAYOUT.read_field(message, VERSION_FIELD) {
        Some(version) if version != u128::from(VERSION) => Err(MessageError::Version { got: version as u16 }),
        _ => Ok(()),
    }
}

fn write(status: Status, body: Body) -> HeaderBytes {
    let mut values = [0; RESERVED_FIELD + 1];
    values[..BODY_FIELD].copy_from_slice(&[
        Kind::Hello.number().into(),
        0,
        status.code().into(),
        VERSION.into(),
        MAGIC.into(),
    ]);
    values[BODY_FIELD..RESERVED_FIELD].copy_from_slice(&body);
    LAYOUT.write(values)
}

#[cfg(test)]
#[path = "hello_tests.rs"]
pub(super) mod tests;
