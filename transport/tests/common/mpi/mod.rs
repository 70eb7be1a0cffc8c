//! Links over MPI under test. They are ends in processes under mpirun, which do what the test process tells them over a
//! connection of its own: so the tests that know all ends of a link at once serve here too.

pub(crate) mod agent;
mod control;
pub(crate) mod launch;
pub(crate) mod remote;

/// The test that a process under mpirun runs, in every test program that has links over MPI.
#[allow(unused_macros, reason = "not every test program has agents")]
macro_rules! mpi_agent {
    () => {
        #[test]
        #[ignore = "runs under mpirun, which the tests start"]
        fn mpi_agent() {
            crate::common::mpi::agent::serve();
        }
    };
}
#[allow(unused_imports, reason = "not every test program has agents")]
pub(crate) use mpi_agent;
