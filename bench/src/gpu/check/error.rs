//! How a kernel can be wrong.

use mgcomp_codecs::device::{DeviceError, Status};
use mgcomp_codecs::frame::FrameError;
use mgcomp_transport::peer_copy::PeerCopyError;
use mgcomp_transport::table::TableError;

/// What did not hold. `case` says which buffer it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CheckError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{case}: the CPU makes no frame of it: {source}")]
    Frame { case: String, source: FrameError },
    #[error("{case}: {what} gave {got:?}, not {wanted:?}")]
    Status { case: String, what: &'static str, got: Status, wanted: Status },
    #[error("{case}: {what} has {got} bytes, not {wanted}")]
    Length { case: String, what: &'static str, got: u64, wanted: u64 },
    #[error("{case}: byte {at} of {what} is {got:#04x}, not {wanted:#04x}")]
    Bytes { case: String, what: &'static str, at: usize, got: u8, wanted: u8 },
    #[error("{case}: byte {at} before or behind {what} of {len} bytes was written")]
    Guard { case: String, what: &'static str, len: u64, at: i64 },
    #[error("{case}: byte {at} of the workspace is not zero again")]
    Workspace { case: String, at: usize },
    #[error("{case}: accepted, but the CPU refuses it")]
    Accepted { case: String },
    #[error("{case}: the CPU packs no such rows: {source}")]
    Table { case: String, source: TableError },
    #[error("{case}: refused with {got:?}, but the CPU accepts it")]
    Refused { case: String, got: Status },
    #[error("{case}: the copy is plain, so nothing is checked")]
    Plain { case: String },
    #[error("{case}: {source}")]
    Copy { case: String, source: PeerCopyError },
}

impl CheckError {
    /// What went wrong with a copy.
    pub(super) fn of_copy(case: &dyn std::fmt::Display, error: PeerCopyError) -> Self {
        match error {
            PeerCopyError::Device(error) => Self::Device(error),
            source => Self::Copy { case: case.to_string(), source },
        }
    }
}

/// Fails unless `got` is `wanted`, bit for bit.
pub(super) fn compare(
    case: &dyn std::fmt::Display,
    what: &'static str,
    got: &[u8],
    wanted: &[u8],
) -> Result<(), CheckError> {
    let case = || case.to_string();
    if got.len() != wanted.len() {
        let (got, wanted) = (got.len() as u64, wanted.len() as u64);
        return Err(CheckError::Length { case: case(), what, got, wanted });
    }
    if got == wanted {
        return Ok(());
    }
    let at = got.iter().zip(wanted).position(|(got, wanted)| got != wanted).unwrap_or_default();
    Err(CheckError::Bytes { case: case(), what, at, got: got[at], wanted: wanted[at] })
}

/// Fails unless the status word `got` says that all is well.
pub(super) fn expect_good(
    case: &dyn std::fmt::Display,
    what: &'static str,
    got: u64,
) -> Result<(), CheckError> {
    match Status::from_word(got) {
        Status::GOOD => Ok(()),
        got => Err(CheckError::Status { case: case.to_string(), what, got, wanted: Status::GOOD }),
    }
}

/// Fails unless the length word `got` is `wanted`.
pub(super) fn expect_len(
    case: &dyn std::fmt::Display,
    what: &'static str,
    got: u64,
    wanted: usize,
) -> Result<(), CheckError> {
    let wanted = wanted as u64;
    if got == wanted { Ok(()) } else { Err(CheckError::Length { case: case.to_string(), what, got, wanted }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert!(compare(&"x", "frame", &[1, 2], &[1, 2]).is_ok());
        let text = |got: &[u8], wanted: &[u8]| compare(&"x", "frame", got, wanted).unwrap_err().to_string();
        assert_eq!(text(&[1, 2, 3], &[1, 9, 9]), "x: byte 1 of frame is 0x02, not 0x09");
        assert_eq!(text(&[1], &[1, 9]), "x: frame has 1 bytes, not 2");
    }

    #[test]
    fn any_status_but_good_is_an_error() {
        assert!(expect_good(&"x", "y", 0).is_ok());
        assert!(expect_good(&"x", "y", 4).is_err() && expect_good(&"x", "y", 1 << 8).is_err());
        assert!(expect_len(&"x", "y", 4, 4).is_ok() && expect_len(&"x", "y", 5, 4).is_err());
    }
}
