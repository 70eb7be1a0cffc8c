//! What a program finds here instead of in its MPI.

mod c;
mod fortran;
mod life;
mod reductions;
