//! MPI 5: handles are as wide as pointers, predefined ones are small numbers.

use super::{Constants, Reductions};
use crate::types::{Comm, Errhandler, Op, Type};

pub(super) const CONSTANTS: Constants = Constants {
    handle_bits: usize::MAX,
    comm_null: Comm(0x100),
    comm_world: Comm(0x101),
    comm_self: Comm(0x102),
    datatype_null: Type(0x200),
    byte: Type(0x247),
    errors_return: Errhandler(0x143),
    in_place: 1,
    err_other: 16,
    err_intern: 17,
    frees_late: true,
};

pub(super) fn reductions() -> Reductions {
    let types = |numbers: &[usize]| numbers.iter().map(|number| Type(*number)).collect();
    // MPI_INT, LONG, LONG_LONG, their unsigned ones, and those of 32 and 64 bits.
    let integers = [0x209, 0x20a, 0x20b, 0x20d, 0x20e, 0x20f, 0x250, 0x251, 0x258, 0x259];
    Reductions {
        // MPI_MAX, MIN, SUM, PROD, BAND, BOR, BXOR, LAND, LOR and LXOR.
        operations: [0x23, 0x22, 0x21, 0x24, 0x28, 0x29, 0x2a, 0x30, 0x31, 0x32].map(Op),
        integers: types(&integers),
        // MPI_INTEGER, and those of 4 and 8 bytes.
        fortran: types(&[0x219, 0x2d1, 0x2d9]),
        // MPI_FLOAT, DOUBLE, REAL, DOUBLE_PRECISION, REAL4 and REAL8.
        floats: types(&[0x210, 0x214, 0x21a, 0x21c, 0x2d2, 0x2da]),
    }
}
