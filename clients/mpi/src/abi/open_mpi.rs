//! Open MPI: a handle is the address of an object, and predefined objects are variables of the library, or of the program:
//! linkers move variables there that a program uses.

use super::Constants;
use crate::library::{Library, global_symbol};
use crate::types::{Comm, Errhandler, Type};

pub(super) fn constants(library: &Library) -> Option<Constants> {
    let object =
        |name| global_symbol(name).or_else(|| library.symbol(name)).map(|address| address.as_ptr() as usize);
    Some(Constants {
        handle_bits: usize::MAX,
        comm_null: Comm(object(c"ompi_mpi_comm_null")?),
        comm_world: Comm(object(c"ompi_mpi_comm_world")?),
        comm_self: Comm(object(c"ompi_mpi_comm_self")?),
        datatype_null: Type(object(c"ompi_mpi_datatype_null")?),
        byte: Type(object(c"ompi_mpi_byte")?),
        errors_return: Errhandler(object(c"ompi_mpi_errors_return")?),
        in_place: 1,
        err_other: 16,
        err_intern: 17,
    })
}
