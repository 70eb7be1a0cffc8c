//! Entries as bytes in the two memories, form by form.
//!
//! Of each entry there is a *state*, its metadata, which says how many bytes are stored of it and what they are.

mod bpc;
mod state;
mod xp;

use super::Form;
use super::error::EntryError;
pub(super) use state::{load, sector_at, store};

/// The most entries that are dealt with together.
pub(super) const BATCH: usize = bpc::BATCH;

impl Form {
    /// Entries that are dealt with together: those whose states share a sector, or one.
    pub(super) const fn batch(self) -> usize {
        match self {
            Self::Bpc => bpc::BATCH,
            Self::Xp(_) => 1,
        }
    }

    /// The bytes that are stored of an entry of `raw_len` bytes in `state`, if that has a meaning.
    pub(super) const fn stored_len(self, state: u16, raw_len: usize) -> Option<usize> {
        match self {
            Self::Bpc => bpc::stored_len(state),
            Self::Xp(_) => xp::stored_len(state, raw_len),
        }
    }

    /// Codes the entries in `raw` and gives the number of each, its state and what is to be stored to `keep`.
    pub(super) fn encode(
        self,
        raw: &[u8],
        scratch: &mut Vec<u8>,
        keep: impl FnMut(usize, u16, &[u8]) -> Result<(), EntryError>,
    ) -> Result<(), EntryError> {
        match self {
            Self::Bpc => bpc::encode(raw, scratch, keep),
            Self::Xp(element) => xp::encode(element, raw, scratch, keep),
        }
    }

    /// Decodes the entries of `states`, the first of which is number `first`, to `raw`; `fetch` gets the number of
    /// one of them and brings what is stored of it.
    pub(super) fn decode(
        self,
        first: u64,
        states: &[u16],
        scratch: &mut Vec<u8>,
        fetch: impl FnMut(usize, &mut [u8]) -> Result<(), EntryError>,
        raw: &mut [u8],
    ) -> Result<(), EntryError> {
        let damaged = |entry, source| EntryError::Damaged { entry: first + entry as u64, source };
        let unknown = |entry: usize| EntryError::State { entry: first + entry as u64, state: states[entry] };
        match self {
            Self::Bpc => bpc::decode(states, scratch, fetch, raw, (&unknown, &damaged)),
            Self::Xp(element) => xp::decode(element, states, scratch, fetch, raw, (&unknown, &damaged)),
        }
    }

    /// The state of each entry in `raw`, without keeping any.
    pub(super) fn states(self, raw: &[u8], scratch: &mut Vec<u8>, mut see: impl FnMut(u16)) {
        match self {
            Self::Bpc => bpc::states(raw, scratch, see),
            Self::Xp(element) => see(xp::state(element, raw)),
        }
    }
}

/// How a decoder tells what is wrong with an entry of a batch: its state, or its code.
pub(super) type Faults<'a> =
    (&'a dyn Fn(usize) -> EntryError, &'a dyn Fn(usize, mgcomp_codecs::ChunkError) -> EntryError);

/// Makes `scratch` hold at least `len` bytes, of which nothing is known.
fn room(scratch: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    &mut scratch[..len]
}
