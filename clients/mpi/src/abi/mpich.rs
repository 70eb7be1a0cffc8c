//! MPICH: handles are ints with their kind in the upper bits.

use super::{Constants, Reductions};
use crate::types::{Comm, Errhandler, Op, Type};

pub(super) const CONSTANTS: Constants = Constants {
    handle_bits: u32::MAX as usize,
    comm_null: Comm(0x0400_0000),
    comm_world: Comm(0x4400_0000),
    comm_self: Comm(0x4400_0001),
    datatype_null: Type(0x0c00_0000),
    byte: Type(0x4c00_010d),
    errors_return: Errhandler(0x5400_0001),
    in_place: usize::MAX,
    err_other: 15,
    err_intern: 16,
    frees_late: true,
};

/// C's integers of 4 and 8 bytes, by their names and then by their lengths.
const INTEGERS: [u32; 10] = [
    0x4c00_0405,
    0x4c00_0406,
    0x4c00_0807,
    0x4c00_0808,
    0x4c00_0809,
    0x4c00_0819,
    0x4c00_0439,
    0x4c00_043d,
    0x4c00_083a,
    0x4c00_083e,
];
/// `MPI_INTEGER`, and those of 4 and 8 bytes.
const FORTRAN: [u32; 3] = [0x4c00_041b, 0x4c00_0430, 0x4c00_0831];
/// `MPI_FLOAT`, `MPI_DOUBLE`, `MPI_REAL`, `MPI_DOUBLE_PRECISION`, and reals of 4 and 8 bytes.
const FLOATS: [u32; 6] = [0x4c00_040a, 0x4c00_080b, 0x4c00_041c, 0x4c00_081f, 0x4c00_0427, 0x4c00_0829];

pub(super) fn reductions() -> Reductions {
    let types = |numbers: &[u32]| numbers.iter().map(|number| Type(*number as usize)).collect();
    Reductions {
        // The numbers of MPI_MAX, MIN, SUM, PROD, BAND, BOR, BXOR, LAND, LOR and LXOR.
        operations: [1, 2, 3, 4, 6, 8, 10, 5, 7, 9].map(|number| Op(0x5800_0000 + number)),
        integers: types(&INTEGERS),
        fortran: types(&FORTRAN),
        floats: types(&FLOATS),
    }
}
