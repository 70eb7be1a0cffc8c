//! MPICH: handles are ints with their kind in the upper bits.

use super::Constants;
use crate::types::{Comm, Errhandler, Type};

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
};
