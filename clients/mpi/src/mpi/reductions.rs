//! What reductions need of MPI: its arithmetic, and putting parts of a result together.
//!
//! Unsafe and sound as the calls in `mod.rs`.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::Mpi;
use crate::blocks::{Blocks, Numbers};
use crate::failure::{Failure, untold};
use crate::types::{Address, Comm, Op, Type};

impl Mpi {
    /// Makes `other ∘ values` of each of the `count` values of a datatype in `values`, as MPI reckons it.
    pub(crate) fn reduce(
        &self,
        other: &[u8],
        values: &mut [u8],
        (count, datatype): (usize, Type),
        op: Op,
    ) -> Result<(), Failure> {
        assert_eq!(other.len(), values.len(), "as many of one as of the other");
        let count = c_int::try_from(count).map_err(|_| Failure::Untold(self.constants.err_other))?;
        let (from, into) = (other.as_ptr().cast_mut().cast(), values.as_mut_ptr().cast());
        // SAFETY: whoever calls has `count` values in both.
        untold(unsafe { self.calls.reduce_local(from, into, count, datatype, op) })
    }

    /// Brings blocks of values to all, each from the rank whose it is, where it is at its place already; MPI's own code.
    pub(crate) fn allgather_in_place(&self, blocks: &Blocks, ranks: c_int, comm: Comm) -> c_int {
        let (in_place, none) = (self.constants.in_place as Address, self.constants.datatype_null);
        let all = |numbers: &Numbers| (0..ranks).map(|rank| numbers.at(rank)).collect::<Vec<_>>();
        let (counts, places) = (all(&blocks.counts), all(&blocks.places));
        let ints = |numbers: &[i64]| numbers.iter().map(|number| c_int::try_from(*number)).collect();
        let (into, datatype) = (blocks.address, blocks.datatype);
        let (short_counts, short_places): (Result<Vec<_>, _>, Result<Vec<_>, _>) =
            (ints(&counts), ints(&places));
        // SAFETY: a count and a place for each rank; the program lends the values to its call.
        unsafe {
            match (short_counts, short_places) {
                (Ok(counts), Ok(places)) => {
                    let (counts, places) = (counts.as_ptr(), places.as_ptr());
                    self.calls.allgatherv(in_place, 0, none, into, counts, places, datatype, comm)
                }
                // Whoever called with that many has the functions for it.
                _ => {
                    let (counts, places) = (counts.as_ptr(), places.as_ptr().cast());
                    self.calls.allgatherv_c(in_place, 0, none, into, counts, places, datatype, comm)
                }
            }
        }
    }
}
