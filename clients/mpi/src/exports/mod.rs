//! What a program finds here instead of in its MPI.

mod c;
mod fortran;
mod free;
mod life;
mod reductions;
