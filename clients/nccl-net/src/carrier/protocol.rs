//! What both sides of a connection agree on.

/// The version of handles and first words. Messages have one of their own.
pub(super) const PROTOCOL: u16 = 1;
/// What they begin with.
pub(super) const MAGIC: [u8; 8] = *b"mgcnccl\0";

/// CRC32C.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The `N` bytes at `at`.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}
