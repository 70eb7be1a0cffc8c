//! What ranks tell each other beside what is measured: whether they measure the same, and how far to go.

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Communicator, CommunicatorError};
use mgcomp_transport::memory::HostBuffer;

use super::operation::ROOT;

/// A number that is different for other bytes (FNV-1a).
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The first rank whose word is not this one's.
pub(super) fn first_other(world: &Communicator, word: u64) -> Result<Option<u32>, CommunicatorError> {
    let all = HostBuffer::zeroed(8 * world.size() as usize);
    world.all_gather(&buffer(&[word]).all(), &all.all(), Element::U64)?;
    Ok((0..).zip(words(&all)).find(|(_, other)| *other != word).map(|(rank, _)| rank))
}

/// The word of the root, at every rank.
pub(super) fn word_of_root(world: &Communicator, word: u64) -> Result<u64, CommunicatorError> {
    let buffer = buffer(&[word]);
    world.broadcast(ROOT as u32, &buffer.all(), Element::U64)?;
    Ok(words(&buffer).next().unwrap_or_default())
}

/// The words of all ranks, one rank after the other, at the root; none elsewhere.
pub(super) fn words_of_all(world: &Communicator, own: &[u64]) -> Result<Vec<u64>, CommunicatorError> {
    let is_root = world.rank() as usize == ROOT;
    let all = HostBuffer::zeroed(if is_root { 8 * own.len() * world.size() as usize } else { 0 });
    world.gather(ROOT as u32, &buffer(own).all(), &all.all(), Element::U64)?;
    Ok(words(&all).collect())
}

fn buffer(words: &[u64]) -> HostBuffer {
    HostBuffer::from(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

fn words(buffer: &HostBuffer) -> std::vec::IntoIter<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    buffer.all().read(|bytes| bytes.chunks_exact(8).map(word).collect::<Vec<u64>>()).into_iter()
}
