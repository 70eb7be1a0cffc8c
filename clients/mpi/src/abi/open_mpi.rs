//! Open MPI: a handle is the address of an object, and predefined objects are variables of the library, or of the program:
//! linkers move variables there that a program uses.

use std::ffi::CString;

use super::reductions::OPERATIONS;
use super::{Constants, Reductions};
use crate::library::{Library, global_symbol};
use crate::types::{Comm, Errhandler, Op, Type};

/// C's integers, as its variables name them.
const INTEGERS: [&str; 10] = [
    "int",
    "unsigned",
    "long",
    "unsigned_long",
    "long_long_int",
    "unsigned_long_long",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
];
/// Fortran's.
const FORTRAN: [&str; 3] = ["integer", "integer4", "integer8"];
/// Floats of both.
const FLOATS: [&str; 6] = ["float", "double", "real", "dblprec", "real4", "real8"];

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
        frees_late: false,
    })
}

pub(super) fn reductions(library: &Library) -> Option<Reductions> {
    let object = |prefix: &str, name: &str| {
        let name = CString::new(format!("ompi_mpi_{prefix}{name}")).ok()?;
        global_symbol(&name).or_else(|| library.symbol(&name)).map(|address| address.as_ptr() as usize)
    };
    // Those of Fortran may be missing.
    let types = |names: &[&str]| names.iter().filter_map(|name| object("", name)).map(Type).collect();
    let operations: Option<Vec<Op>> = OPERATIONS.iter().map(|name| object("op_", name).map(Op)).collect();
    Some(Reductions {
        operations: operations?.try_into().ok()?,
        integers: types(&INTEGERS),
        fortran: types(&FORTRAN),
        floats: types(&FLOATS),
    })
}
