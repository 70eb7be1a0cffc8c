//! A layer under MPI programs that compresses what their collectives move, without a change to them: a library to preload.
//!
//! ```sh
//! mpirun -x LD_PRELOAD=libmgcomp-mpi.so ./program          # Open MPI
//! mpirun -genv LD_PRELOAD libmgcomp-mpi.so ./program       # MPICH
//! ```
//!
//! It stands before the blocking collectives that move data (broadcast, allgather, alltoall, gather, scatter), and before
//! reductions where that was asked for, and carries them out with others of MPI's own, by their `PMPI_` names. What it does not
//! know goes on to MPI as it came.
//!
//! | module | what lives there |
//! |---|---|
//! | `exports` | what a program finds here instead of in its MPI: C and Fortran |
//! | `engine` | how a collective is carried out: one file per way |
//! | `version` | what ranks have to have in common |
//! | `layer`, `communicator` | what there is once in a process, and once for each communicator |
//! | `freed` | communicators from when the program frees them to when they go |
//! | `data`, `blocks` | what a call names as data, as bytes |
//! | `mpi` | calls of MPI by means that cannot go wrong in Rust |
//! | `calls`, `library`, `abi` | finding the MPI that the program runs on, and its constants |
//!
//! One library serves all MPIs: a handle is a machine word here, whatever it is there.

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("mgcomp runs on little-endian 64-bit targets only");

mod abi;
mod blocks;
mod calls;
mod communicator;
mod data;
mod engine;
mod exports;
mod failure;
mod freed;
mod layer;
mod library;
mod mpi;
mod pool;
mod rate;
mod types;
mod version;
