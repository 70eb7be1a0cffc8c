//! The C library: its header, and programs in C, C++ and Fortran that use it.

mod compiler;
mod header;
mod package;
mod programs;
