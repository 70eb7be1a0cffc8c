//! The binary interfaces of MPIs: what handles are and which values constants have.

mod mpich;
mod open_mpi;
mod reductions;
mod standard;

use std::ffi::{CStr, c_int};

pub(crate) use reductions::Reductions;

use crate::library::Library;
use crate::types::{Comm, Errhandler, Type};

/// A binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Open MPI 4 and 5: handles and constants are addresses.
    OpenMpi,
    /// MPICH from 3.1 on, and those that agreed on it: Intel MPI, MVAPICH, Cray MPI. Handles are ints.
    Mpich,
    /// That of MPI 5.
    Standard,
}

impl Family {
    /// A symbol that a library of this interface has.
    pub(crate) fn landmark(self) -> &'static CStr {
        match self {
            Self::OpenMpi => c"ompi_mpi_comm_world",
            Self::Mpich | Self::Standard => c"PMPI_Bcast",
        }
    }

    /// A symbol that a library of another interface has which goes by the same name: Open MPI 1.10 is a `libmpi.so.12`, too.
    pub(crate) fn stranger(self) -> Option<&'static CStr> {
        (self == Self::Mpich).then(|| Self::OpenMpi.landmark())
    }

    /// Its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Standard => "MPI-5",
        }
    }

    /// Its constants, as `library` has them.
    pub(crate) fn constants(self, library: &Library) -> Option<Constants> {
        match self {
            Self::OpenMpi => open_mpi::constants(library),
            Self::Mpich => Some(mpich::CONSTANTS),
            Self::Standard => Some(standard::CONSTANTS),
        }
    }

    /// Its operations and what they are for, as `library` has them.
    pub(crate) fn reductions(self, library: &Library) -> Option<Reductions> {
        match self {
            Self::OpenMpi => open_mpi::reductions(library),
            Self::Mpich => Some(mpich::reductions()),
            Self::Standard => Some(standard::reductions()),
        }
    }
}

/// Values that differ from MPI to MPI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    /// The bits of a word that a handle has.
    pub(crate) handle_bits: usize,
    pub(crate) comm_null: Comm,
    pub(crate) comm_world: Comm,
    pub(crate) comm_self: Comm,
    pub(crate) datatype_null: Type,
    pub(crate) byte: Type,
    pub(crate) errors_return: Errhandler,
    /// The address that stands for "in place".
    pub(crate) in_place: usize,
    pub(crate) err_other: c_int,
    pub(crate) err_intern: c_int,
    /// A communicator may go long after the call that frees it.
    pub(crate) frees_late: bool,
}
