//! What can be wrong with compressed vectors.

/// Why vectors cannot be stored or loaded. Offsets count from the start of the data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZcompError {
    /// The destination is too short.
    #[error("{needed} bytes are to be written, there is room for {got}")]
    Room {
        /// Bytes to be written.
        needed: usize,
        /// Length of the destination.
        got: usize,
    },
    /// The data ends before a header or the elements that it promises do.
    #[error("truncated at byte {offset}: {needed} bytes are needed, {got} are left")]
    Truncated {
        /// Where the header or the elements start.
        offset: usize,
        /// Their length in bytes.
        needed: usize,
        /// What is left.
        got: usize,
    },
    /// Bytes are left over behind the last element.
    #[error("{extra} bytes after the last element, which ends at byte {offset}")]
    Trailing {
        /// Where the last element ends.
        offset: usize,
        /// How many bytes follow.
        extra: usize,
    },
    /// Headers of another length than the vectors need.
    #[error("headers of {got} bytes, {needed} are needed")]
    HeaderLength {
        /// What the vectors need.
        needed: usize,
        /// Length of the headers.
        got: usize,
    },
    /// The last header keeps an element that the buffer does not have.
    #[error("the last header keeps elements past the end of the buffer")]
    HeaderBits,
    /// A buffer of another length than the partitions have together.
    #[error("a buffer of {got} bytes, the partitions have {needed}")]
    RawLength {
        /// What the partitions have.
        needed: usize,
        /// Length of the buffer.
        got: usize,
    },
    /// A partition that is not the last one, but does not end with a whole vector.
    #[error("partition {index} has {raw_len} bytes: only the last may end within a vector of 64")]
    Uneven {
        /// Which partition.
        index: usize,
        /// Its raw bytes.
        raw_len: usize,
    },
    /// No partition or no thread at all was asked for.
    #[error("at least one partition and one thread are needed")]
    None,
}

impl ZcompError {
    /// The same error in data that starts `before` bytes further on.
    pub(super) fn behind(self, before: usize) -> Self {
        match self {
            Self::Truncated { offset, needed, got } => {
                Self::Truncated { offset: offset + before, needed, got }
            }
            other => other,
        }
    }
}
