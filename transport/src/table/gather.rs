//! Rows by their indices.

use std::sync::{Mutex, PoisonError};

use mgcomp_codecs::ChunkError;
use mgcomp_codecs::ibp::{Form, Packer};

use super::shared::{piece_rows, share};
use super::{Table, TableError};

/// A device reads host memory in aligned pieces of so many bytes.
pub const PIECE_LEN: u64 = 128;

/// Rows that are asked for before they are needed: memory takes as long as several rows take to decode.
const AHEAD: usize = 8;
/// The part of the mean stored row that is asked for of each beyond it.
const SPARE_PART: u64 = 4;

/// What a gather read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// How many rows.
    pub rows: u64,
    /// How many of them were packed.
    pub packed_rows: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// The aligned pieces of [`PIECE_LEN`] bytes that these lie in: what a device that reads them where they are moves over
    /// its link.
    pub link_bytes: u64,
}

impl Gathered {
    pub(super) fn add(&mut self, other: Self) {
        let Self { rows, packed_rows, stored_bytes, link_bytes } = other;
        self.rows += rows;
        self.packed_rows += packed_rows;
        self.stored_bytes += stored_bytes;
        self.link_bytes += link_bytes;
    }
}

/// Bytes of the aligned pieces that `len` bytes from `start` on lie in.
#[inline]
fn piece_bytes(start: u64, len: u64) -> u64 {
    (start + len).next_multiple_of(PIECE_LEN) - start / PIECE_LEN * PIECE_LEN
}

impl<M: AsRef<[u8]> + Sync> Table<M> {
    /// Fills `out` with the rows that `indices` name, in that order. Nothing but these rows is decoded.
    ///
    /// # Errors
    /// [`TableError::Index`] and [`TableError::Buffer`] before anything is written; [`TableError::Row`] if somebody else wrote
    /// to the memory of the table, and then `out` holds anything.
    pub fn gather(&self, indices: &[u64], out: &mut [u8]) -> Result<Gathered, TableError> {
        let row_len = self.row_len();
        self.check_gather(indices, out)?;
        let rows = piece_rows(row_len);
        let (bytes, gathering) = (out.len(), Gathering::default());
        let pieces = indices.chunks(rows).zip(out.chunks_mut(rows * row_len)).enumerate();
        share(&self.shared.workers, bytes, pieces, |(number, (indices, out))| {
            gathering.add(self.gather_piece(rows * number, indices, out));
        });
        gathering.finish()
    }

    /// Refuses what is not there before anything is written.
    pub(super) fn check_gather(&self, indices: &[u64], out: &[u8]) -> Result<(), TableError> {
        let (rows, row_len, got) = (indices.len(), self.row_len(), out.len());
        if rows.checked_mul(row_len) != Some(got) {
            return Err(TableError::Buffer { rows, row_len, got });
        }
        // Without a way out of the loop, which is then several times as fast.
        if indices.iter().fold(0, |most, &index| most.max(index)) < self.rows {
            return Ok(());
        }
        indices.iter().enumerate().try_for_each(|(position, &index)| self.check_index(position, index))
    }

    /// Rows that are there, the first of them at `position` of the call.
    fn gather_piece(&self, position: usize, indices: &[u64], out: &mut [u8]) -> Result<Gathered, TableError> {
        let ahead = self.ahead_len();
        let near = |index: &u64| Packer::prefetch(&self.slot(*index).1[..ahead]);
        indices.iter().take(AHEAD).for_each(near);
        let damaged =
            |i: usize, source| TableError::Row { position: position + i, index: indices[i], source };
        let (pairs, last) = indices.as_chunks::<2>();
        let (of_pairs, of_last) = out.split_at_mut(2 * pairs.len() * self.row_len());
        let mut gathered = Gathered::default();
        for (i, (pair, out)) in pairs.iter().zip(of_pairs.chunks_exact_mut(2 * self.row_len())).enumerate() {
            let next = (2 * (i + 1) + AHEAD).min(indices.len());
            indices[(2 * i + AHEAD).min(next)..next].iter().for_each(near);
            let [first, second] = [self.slot(pair[0]), self.slot(pair[1])];
            match self.packer().unpack_pair([first, second], out) {
                Ok(lens) => {
                    gathered.add(self.read(pair[0], first.0, lens[0]));
                    gathered.add(self.read(pair[1], second.0, lens[1]));
                }
                Err((number, source)) => return Err(damaged(2 * i + number, source)),
            }
        }
        if let [index] = *last {
            let read = self.read_row(index, of_last);
            gathered.add(read.map_err(|source| damaged(indices.len() - 1, source))?);
        }
        Ok(gathered)
    }

    /// Decodes a row that is there.
    pub(super) fn read_row(&self, index: u64, out: &mut [u8]) -> Result<Gathered, ChunkError> {
        let (form, slot) = self.slot(index);
        Ok(self.read(index, form, self.packer().unpack(form, slot, out)?))
    }

    /// A row of this form and stored length.
    #[inline]
    fn read(&self, index: u64, form: Form, len: usize) -> Gathered {
        Gathered {
            rows: 1,
            packed_rows: u64::from(form != Form::Raw),
            stored_bytes: len as u64,
            link_bytes: piece_bytes(index * self.row_len() as u64, len as u64),
        }
    }

    /// How much of a row is asked for before it is needed.
    fn ahead_len(&self) -> usize {
        let mean = self.stored_bytes / self.rows.max(1);
        self.row_len().min((mean + mean / SPARE_PART) as usize)
    }
}

/// What the threads of a call have done.
#[derive(Default)]
pub(super) struct Gathering(Mutex<(Gathered, Option<TableError>)>);

impl Gathering {
    pub(super) fn add(&self, piece: Result<Gathered, TableError>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match piece {
            Ok(gathered) => all.0.add(gathered),
            Err(error) if all.1.as_ref().is_none_or(|first| position(&error) < position(first)) => {
                all.1 = Some(error);
            }
            Err(_) => {}
        }
    }

    /// All that was read, or what is wrong with the first row that is damaged.
    pub(super) fn finish(self) -> Result<Gathered, TableError> {
        let (gathered, error) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        error.map_or(Ok(gathered), Err)
    }
}

fn position(error: &TableError) -> usize {
    if let TableError::Row { position, .. } = error { *position } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_that_bytes_lie_in() {
        let cases = [(0, 1, 128), (0, 128, 128), (0, 129, 256), (127, 1, 128), (127, 2, 256), (130, 10, 128)];
        for (start, len, bytes) in cases {
            assert_eq!(piece_bytes(start, len), bytes, "{len} from {start}");
        }
    }
}
