//! What stands in the calls of every MPI: addresses and handles.

use std::ffi::c_void;

/// The address of a buffer; may be one of MPI's special values.
pub(crate) type Address = *mut c_void;

/// A communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Comm(pub(crate) usize);

/// A datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Type(pub(crate) usize);

/// An error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Errhandler(pub(crate) usize);

/// A group of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Group(pub(crate) usize);

/// Something under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Request(pub(crate) usize);

/// An operation of reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Op(pub(crate) usize);
