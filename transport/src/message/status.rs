//! How a request, or an attempt to open a session, went.

use std::fmt;

/// The status code of Data-Ready, Write-ACK and hello. Codes are never reused.
///
/// A code that this version does not know is a failure all the same and is kept as it came, so that a newer
/// peer's reasons do not end the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Done, or welcome.
    Good,
    /// No region has this number.
    UnknownRegion,
    /// The bytes asked for do not all lie in one region.
    OutOfBounds,
    /// The region is not open to this peer for this kind of access.
    NotOpened,
    /// The transfer is longer than the limit in the hello.
    TooLong,
    /// The payload's algorithm is one that the receiver has no codec for.
    UnsupportedAlgorithm,
    /// The payload does not decode, or to another length or by another algorithm than the header says.
    BadPayload,
    /// The hello is of another protocol version.
    WrongVersion,
    /// The hello carries another job's secret.
    WrongSecret,
    /// The hello's rank is not the one expected: the receiver's own, or one that has a session already.
    WrongRank,
    /// The hello's number of ranks is not the receiver's.
    WrongRankCount,
    /// The receive that asked for this tag has not enough room.
    ReceiveTooSmall,
    /// The receiver is closing the session.
    Closing,
    /// The receiver failed for a reason of its own.
    Internal,
    /// The peer broke the rules of the protocol.
    Protocol,
    /// A device of the side that says so is lost, and with it the session.
    DeviceLost,
    /// A code that this version does not know: never one of those above.
    Unknown(u8),
}

impl Status {
    /// Every status that this version knows, in the order of its code.
    pub const ALL: [Self; 16] = [
        Self::Good,
        Self::UnknownRegion,
        Self::OutOfBounds,
        Self::NotOpened,
        Self::TooLong,
        Self::UnsupportedAlgorithm,
        Self::BadPayload,
        Self::WrongVersion,
        Self::WrongSecret,
        Self::WrongRank,
        Self::WrongRankCount,
        Self::ReceiveTooSmall,
        Self::Closing,
        Self::Internal,
        Self::Protocol,
        Self::DeviceLost,
    ];

    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::UnknownRegion => 1,
            Self::OutOfBounds => 2,
            Self::NotOpened => 3,
            Self::TooLong => 4,
            Self::UnsupportedAlgorithm => 5,
            Self::BadPayload => 6,
            Self::WrongVersion => 7,
            Self::WrongSecret => 8,
            Self::WrongRank => 9,
            Self::WrongRankCount => 10,
            Self::ReceiveTooSmall => 11,
            Self::Closing => 12,
            Self::Internal => 13,
            Self::Protocol => 14,
            Self::DeviceLost => 15,
            Self::Unknown(code) => code,
        }
    }

    /// The status with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unknown(code))
    }

    /// Whether all went well.
    #[must_use]
    pub const fn is_good(self) -> bool {
        self.code() == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::UnknownRegion => "no such region",
            Self::OutOfBounds => "outside the region",
            Self::NotOpened => "region not open to this rank",
            Self::TooLong => "longer than the limit",
            Self::UnsupportedAlgorithm => "no codec for this algorithm",
            Self::BadPayload => "bad payload",
            Self::WrongVersion => "wrong protocol version",
            Self::WrongSecret => "wrong job secret",
            Self::WrongRank => "wrong rank",
            Self::WrongRankCount => "wrong number of ranks",
            Self::ReceiveTooSmall => "receive buffer too small",
            Self::Closing => "closing",
            Self::Internal => "internal failure",
            Self::Protocol => "protocol broken",
            Self::DeviceLost => "device lost",
            Self::Unknown(code) => return write!(f, "unknown status {code}"),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any status, good one time in two.
    pub(crate) fn any_status() -> impl Strategy<Value = Status> {
        prop_oneof![Just(Status::Good), any::<u8>().prop_map(Status::from_code)]
    }

    #[test]
    fn every_code_survives() {
        for code in 0..=255 {
            let status = Status::from_code(code);
            assert_eq!(status.code(), code);
            assert_eq!(matches!(status, Status::Unknown(_)), code > 15, "{code}");
            assert_eq!(status.is_good(), code == 0);
        }
    }
}
