//! MPI 5: handles are as wide as pointers, predefined ones are small numbers.

use super::Constants;
use crate::types::{Comm, Errhandler, Type};

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
};
