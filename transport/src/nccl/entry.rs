//! What ranks tell each other before the bytes themselves: a header for each region, in device memory.
//!
//! ```text
//! byte  0 ..  7   length of the frame: written by the kernel that encodes
//! byte  8 .. 15   its status word: written by that kernel too
//! byte 16 .. 23   raw length
//! byte 24         algorithm; 0 = the raw bytes follow, whatever the first two words say
//! byte 25         base-2 logarithm of the chunk size
//! byte 26 .. 27   version of this header
//! byte 28 .. 31   which call this is
//! ```
//!
//! All little-endian. Both sides work out from it what follows: the frame if there is a good one that is shorter than the
//! raw bytes, else those.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::Status;
use mgcomp_codecs::frame::ChunkSize;

use super::NcclError;

/// Length in bytes.
pub(super) const ENTRY_LEN: u64 = 32;
/// Of this header, and of the rules by which ranks decide alike.
pub(super) const VERSION: u64 = 1;

/// How a region is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coding {
    pub(super) algorithm: Algorithm,
    pub(super) chunk_size: ChunkSize,
}

/// The header of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) raw_len: u64,
    frame_len: u64,
    status: Status,
    /// As it was announced: the frame may yet be no good.
    coding: Option<Coding>,
    call: u32,
}

impl Entry {
    /// Before anything is encoded.
    pub(super) const fn new(raw_len: u64, coding: Option<Coding>, call: u32) -> Self {
        Self { raw_len, frame_len: 0, status: Status::GOOD, coding, call }
    }

    /// How it is coded, if a frame follows.
    pub(super) fn coding(&self) -> Option<Coding> {
        let is_shorter = 0 < self.frame_len && self.frame_len < self.raw_len;
        self.coding.filter(|_| is_shorter && self.status == Status::GOOD)
    }

    /// How many bytes follow.
    pub(super) fn stored_len(&self) -> u64 {
        if self.coding().is_some() { self.frame_len } else { self.raw_len }
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY_LEN as usize] {
        let (algorithm, log2) = self.coding.map_or((0, 0), |c| (c.algorithm.number(), c.chunk_size.log2()));
        let facts = u64::from(algorithm) | u64::from(log2) << 8 | VERSION << 16 | u64::from(self.call) << 32;
        let words = [self.frame_len, 0, self.raw_len, facts].map(u64::to_le_bytes);
        let mut bytes = [0; ENTRY_LEN as usize];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// The header that `rank` has sent for `call`.
    pub(super) fn read(bytes: &[u8], rank: u32, call: u32) -> Result<Self, NcclError> {
        let word = |i: usize| {
            u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("the length of the range"))
        };
        let facts = word(3);
        if facts >> 16 & 0xffff != VERSION || facts >> 32 != u64::from(call) {
            return Err(NcclError::OtherCall { rank });
        }
        let algorithm = Algorithm::try_from(facts as u8).map_err(|_| NcclError::NoKernels { rank })?;
        let coding = match ChunkSize::from_log2((facts >> 8) as u8) {
            _ if algorithm == Algorithm::None => None,
            Some(chunk_size) => Some(Coding { algorithm, chunk_size }),
            None => return Err(NcclError::NoKernels { rank }),
        };
        let status = Status::from_word(word(1));
        Ok(Self { raw_len: word(2), frame_len: word(0), status, coding, call })
    }

    /// Fails unless `rank` sends as many raw bytes as are expected of it.
    pub(super) const fn check_len(&self, rank: u32, expected: u64) -> Result<(), NcclError> {
        let got = self.raw_len;
        if got == expected { Ok(()) } else { Err(NcclError::WrongLength { rank, got, expected }) }
    }
}

/// The number of a call, by all that ranks must agree on.
pub(super) fn call_number(facts: &[u64]) -> u32 {
    let mut number = 0xcbf2_9ce4_8422_2325u64;
    for byte in facts.iter().flat_map(|fact| fact.to_le_bytes()) {
        number = (number ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    (number ^ number >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODING: Coding = Coding { algorithm: Algorithm::Xp, chunk_size: ChunkSize::DEFAULT };

    #[test]
    fn a_header_lies_as_its_drawing_says() {
        let entry = Entry { frame_len: 0x1234, ..Entry::new(0x5678, Some(CODING), 0xa1b2_c3d4) };
        let mut expected = [0; 32];
        (expected[0], expected[1]) = (0x34, 0x12);
        (expected[16], expected[17]) = (0x78, 0x56);
        (expected[24], expected[25], expected[26]) = (9, 14, 1);
        expected[28..].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(entry.to_bytes(), expected);
        assert_eq!(Entry::read(&expected, 1, 0xa1b2_c3d4), Ok(entry));
        assert_eq!((entry.coding(), entry.stored_len()), (Some(CODING), 0x1234));
    }

    #[test]
    fn raw_bytes_follow_unless_there_is_a_good_frame_that_is_shorter() {
        let entry = Entry::new(1000, Some(CODING), 1);
        for (frame_len, status, stored) in [(0, 0, 1000), (999, 0, 999), (1000, 0, 1000), (5, 3, 1000)] {
            let mut bytes = Entry { frame_len, ..entry }.to_bytes();
            bytes[8] = status;
            let read = Entry::read(&bytes, 1, 1).unwrap();
            assert_eq!((read.stored_len(), read.coding().is_some()), (stored, stored != 1000));
        }
        let raw = Entry { frame_len: 5, ..Entry::new(1000, None, 1) };
        assert_eq!(raw.stored_len(), 1000);
    }

    #[test]
    fn headers_of_other_calls_and_nonsense_are_refused() {
        let good = Entry::new(1000, Some(CODING), 7).to_bytes();
        assert_eq!(Entry::read(&good, 2, 8), Err(NcclError::OtherCall { rank: 2 }));
        for (byte, value) in [(26, 2), (27, 1), (28, 0), (31, 1)] {
            let mut bad = good;
            bad[byte] = value;
            assert_eq!(Entry::read(&bad, 2, 7), Err(NcclError::OtherCall { rank: 2 }), "{byte}");
        }
        for (byte, value) in [(24, 11), (24, 15), (24, 200), (25, 11), (25, 17)] {
            let mut bad = good;
            bad[byte] = value;
            assert_eq!(Entry::read(&bad, 2, 7), Err(NcclError::NoKernels { rank: 2 }), "{byte}");
        }
    }
}
