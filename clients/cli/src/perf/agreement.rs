//! What ranks tell each other beside what is measured: whether they measure the same, and how far to go.

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Communicator, CommunicatorError};
use mgcomp_transport::memory::HostBuffer;

use super::operation::ROOT;

/// Texts that ranks tell each other are short.
const MOST_TEXT_BYTES: u64 = 64 << 10;

/// A number that is different for other bytes (FNV-1a).
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The words of all ranks, at every rank.
pub(super) fn words_everywhere(world: &Communicator, own: u64) -> Result<Vec<u64>, CommunicatorError> {
    let all = HostBuffer::zeroed(8 * world.size() as usize);
    world.all_gather(&buffer(&[own]).all(), &all.all(), Element::U64)?;
    Ok(words(&all).collect())
}

/// Whether all ranks say so, which is the same at every rank.
pub(super) fn is_said_by_all(world: &Communicator, says: bool) -> Result<bool, CommunicatorError> {
    Ok(words_everywhere(world, says.into())?.iter().all(|&word| word != 0))
}

/// The texts of all ranks, at every rank; no more of each than [`MOST_TEXT_BYTES`].
pub(super) fn texts_everywhere(world: &Communicator, own: &str) -> Result<Vec<String>, CommunicatorError> {
    let longest = words_everywhere(world, own.len() as u64)?.into_iter().max().unwrap_or_default();
    // What others say is not believed as far as memory goes.
    let len = longest.clamp(1, MOST_TEXT_BYTES) as usize;
    let mut bytes = own.as_bytes().to_vec();
    bytes.resize(len, 0);
    let all = HostBuffer::zeroed(len * world.size() as usize);
    world.all_gather(&HostBuffer::from(bytes).all(), &all.all(), Element::U8)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    Ok(all.all().read(|bytes| bytes.chunks_exact(len).map(text).collect()))
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
