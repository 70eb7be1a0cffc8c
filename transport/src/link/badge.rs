//! What a rank shows before any message, where a link wants to know first who is there.
//!
//! ```text
//! byte 0      4            6        8        24         28          32           40
//!      magic  version, u16 details  secret   rank, u32  ranks, u32  number, u64
//! ```
//! Numbers are little-endian. The magic, and what details and number say, are each link's own.

use super::Position;
use crate::message::{Rank, Secret, Status};

/// Bytes of a badge.
pub(super) const BADGE_LEN: usize = 40;

/// What tells the badges of a link, and of a version, from all else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) magic: [u8; 4],
    pub(super) version: u16,
}

impl Mark {
    /// Checks what stands in the same place in every version.
    pub(super) fn check(self, bytes: &[u8]) -> Result<(), Status> {
        if bytes.len() < 6 || bytes[..4] != self.magic {
            return Err(Status::Protocol);
        }
        if bytes[4..6] == self.version.to_le_bytes() { Ok(()) } else { Err(Status::WrongVersion) }
    }
}

/// What a rank says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Badge {
    pub(super) details: [u8; 2],
    pub(super) secret: Secret,
    pub(super) position: Position,
    pub(super) number: u64,
}

impl Badge {
    pub(super) fn encode(&self, mark: Mark) -> [u8; BADGE_LEN] {
        let mut bytes = [0; BADGE_LEN];
        bytes[..4].copy_from_slice(&mark.magic);
        bytes[4..6].copy_from_slice(&mark.version.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.details);
        bytes[8..24].copy_from_slice(&self.secret.bytes());
        bytes[24..28].copy_from_slice(&self.position.rank.0.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.position.ranks.to_le_bytes());
        bytes[32..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads a badge; if it is none, the status is what to refuse it with.
    pub(super) fn parse(mark: Mark, bytes: &[u8]) -> Result<Self, Status> {
        mark.check(bytes)?;
        Self::read(bytes)
    }

    /// The version of a badge that is not `mark`'s, and what it says if it is laid out as this version's, which only its secret
    /// can tell.
    pub(super) fn of_other_version(mark: Mark, bytes: &[u8]) -> Option<(u16, Self)> {
        let version = u16::from_le_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let is_other = mark.check(bytes) == Err(Status::WrongVersion);
        Self::read(bytes).ok().filter(|_| is_other).map(|badge| (version, badge))
    }

    fn read(bytes: &[u8]) -> Result<Self, Status> {
        let bytes: &[u8; BADGE_LEN] = bytes.try_into().map_err(|_| Status::Protocol)?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        Ok(Self {
            details: [bytes[6], bytes[7]],
            secret: Secret::new(std::array::from_fn(|i| bytes[8 + i])),
            position: Position { rank: Rank(number(24)), ranks: number(28) },
            number: u64::from(number(32)) | u64::from(number(36)) << 32,
        })
    }

    /// Whether it is of a rank that `own` expects a connection of: of two, the higher one connects. If not, the status
    /// says why; the secret comes first, so that a stranger learns nothing of the job.
    pub(super) fn verify(&self, secret: Secret, own: Position) -> Result<(), Status> {
        if self.secret != secret {
            return Err(Status::WrongSecret);
        }
        if self.position.ranks != own.ranks {
            return Err(Status::WrongRankCount);
        }
        if self.position.rank <= own.rank || !own.is_peer(self.position.rank) {
            return Err(Status::WrongRank);
        }
        Ok(())
    }
}
