//! Calls of MPI by means that cannot go wrong in Rust: slices for buffers, errors as results, and buffers that belong to an
//! operation for as long as MPI uses them.
//!
//! Unsafe because the calls are foreign. What makes it sound: whoever makes an [`Mpi`] has seen to it that MPI runs; handles
//! come from MPI, or from the program, which vouches for them (`data.rs`); a buffer that MPI uses beyond a call belongs to its
//! [`Operation`].
#![allow(unsafe_code)]

mod datatypes;
mod operations;
mod reductions;

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use crate::abi::Constants;
use crate::calls::{Calls, CopyAttribute, DeleteAttribute};
use crate::failure::{Failure, told, untold};
pub(crate) use datatypes::Shape;
pub(crate) use operations::{Operation, Tag};

use crate::types::{Comm, Group, Op, Type};

/// Bytes of the longest name that an MPI has for an object, and more.
const LONGEST_NAME: usize = 1024;

/// An MPI that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mpi {
    pub(crate) calls: &'static Calls,
    pub(crate) constants: Constants,
}

impl Mpi {
    /// A handle as the program gave it, without bits that mean nothing.
    pub(crate) fn comm(&self, word: Comm) -> Comm {
        Comm(word.0 & self.constants.handle_bits)
    }

    /// The same for a datatype.
    pub(crate) fn datatype(&self, word: Type) -> Type {
        Type(word.0 & self.constants.handle_bits)
    }

    /// The same for an operation.
    pub(crate) fn op(&self, word: Op) -> Op {
        Op(word.0 & self.constants.handle_bits)
    }

    /// The communicator whose handle is at an address, if there is any.
    ///
    /// # Safety
    /// The program has a handle there, unless the address is null.
    pub(crate) unsafe fn comm_at(&self, at: *const Comm) -> Option<Comm> {
        let are_ints = self.constants.handle_bits == u32::MAX as usize;
        // SAFETY: whoever calls says that there is one; no more is read than its MPI's handles have.
        (!at.is_null()).then(|| unsafe {
            match are_ints {
                true => Comm(at.cast::<u32>().read() as usize),
                false => at.read(),
            }
        })
    }

    /// Ranks of a communicator, and which of them this process is.
    pub(crate) fn position(&self, comm: Comm) -> Result<(c_int, c_int), Failure> {
        let (mut size, mut rank) = (0, 0);
        // SAFETY: both write to the integer given.
        unsafe {
            told(self.calls.comm_size(comm, &mut size))?;
            told(self.calls.comm_rank(comm, &mut rank))?;
        }
        Ok((size, rank))
    }

    /// Whether it joins two groups.
    pub(crate) fn is_between_groups(&self, comm: Comm) -> Result<bool, Failure> {
        let mut flag = 0;
        // SAFETY: writes to the integer given.
        told(unsafe { self.calls.comm_test_inter(comm, &mut flag) })?;
        Ok(flag != 0)
    }

    /// What the ranks of `comm` are in `world`; negative where one is not in it.
    pub(crate) fn ranks_in(&self, world: Comm, comm: Comm, size: c_int) -> Result<Vec<c_int>, Failure> {
        let ranks: Vec<c_int> = (0..size).collect();
        let mut there = vec![-1; ranks.len()];
        let (mut of_world, mut of_comm) = (Group(0), Group(0));
        // SAFETY: the arrays have as many integers as `size` says; groups are written to the words given, and freed once.
        unsafe {
            told(self.calls.comm_group(world, &mut of_world))?;
            let found = told(self.calls.comm_group(comm, &mut of_comm)).and_then(|()| {
                let there = there.as_mut_ptr();
                told(self.calls.group_translate(of_comm, size, ranks.as_ptr(), of_world, there))
                    .and(told(self.calls.group_free(&mut of_comm)))
            });
            told(self.calls.group_free(&mut of_world)).and(found)?;
        }
        Ok(there)
    }

    /// A communicator of the same ranks, which this library alone knows. All of them call this.
    pub(crate) fn shadow(&self, comm: Comm, rank: c_int) -> Result<Comm, Failure> {
        let mut shadow = Comm(0);
        // SAFETY: writes to the word given.
        unsafe {
            told(self.calls.comm_split(comm, 0, rank, &mut shadow))?;
            untold(self.calls.comm_set_errhandler(shadow, self.constants.errors_return))?;
        }
        Ok(shadow)
    }

    /// A communicator of this process alone, which this library alone knows.
    pub(crate) fn own(&self) -> Result<Comm, Failure> {
        let mut own = Comm(0);
        // SAFETY: writes to the word given.
        unsafe {
            told(self.calls.comm_dup(self.constants.comm_self, &mut own))?;
            untold(self.calls.comm_set_errhandler(own, self.constants.errors_return))?;
        }
        Ok(own)
    }

    /// Frees a communicator of this library's own.
    pub(crate) fn free(&self, mut comm: Comm) {
        // SAFETY: writes to the word given. Nobody else knows it.
        let _ = unsafe { self.calls.comm_free(&mut comm) };
    }

    /// Names a communicator.
    pub(crate) fn set_name(&self, comm: Comm, name: &CStr) {
        // SAFETY: the name ends with NUL.
        let _ = unsafe { self.calls.comm_set_name(comm, name.as_ptr()) };
    }

    /// Whether a communicator is called that.
    pub(crate) fn has_name(&self, comm: Comm, name: &CStr) -> bool {
        let (mut found, mut len) = ([0u8; LONGEST_NAME], 0);
        // SAFETY: there is room for every name, and for the integer.
        let code = unsafe { self.calls.comm_get_name(comm, found.as_mut_ptr().cast(), &mut len) };
        code == 0 && CStr::from_bytes_until_nul(&found) == Ok(name)
    }

    /// Tells the communicator's error handler; returns what the program's call returns then.
    pub(crate) fn raise(&self, comm: Comm, code: c_int) -> c_int {
        // SAFETY: takes numbers alone.
        unsafe { self.calls.comm_call_errhandler(comm, code) };
        code
    }

    /// A key for attributes of communicators.
    pub(crate) fn keyval(&self, copy: CopyAttribute, delete: DeleteAttribute) -> Result<c_int, Failure> {
        let mut keyval = 0;
        // SAFETY: the functions are as MPI wants them, and stay: the library is never unloaded.
        told(unsafe { self.calls.create_keyval(copy, delete, &mut keyval, ptr::null_mut()) })?;
        Ok(keyval)
    }

    /// The attribute under a key of this library's own.
    pub(crate) fn attribute(&self, comm: Comm, keyval: c_int) -> Result<Option<*mut c_void>, Failure> {
        let (mut value, mut flag) = (ptr::null_mut(), 0);
        // SAFETY: writes to the pointer and the integer given.
        told(unsafe { self.calls.get_attr(comm, keyval, &mut value, &mut flag) })?;
        Ok((flag != 0).then_some(value))
    }

    /// Sets it.
    pub(crate) fn set_attribute(&self, comm: Comm, keyval: c_int, value: *mut c_void) -> Result<(), Failure> {
        // SAFETY: MPI keeps the pointer without looking behind it.
        told(unsafe { self.calls.set_attr(comm, keyval, value) })
    }

    /// Takes it away, which calls the function that deletes it.
    pub(crate) fn delete_attribute(&self, comm: Comm, keyval: c_int) -> Result<(), Failure> {
        // SAFETY: takes numbers alone.
        told(unsafe { self.calls.delete_attr(comm, keyval) })
    }

    /// Broadcasts bytes.
    pub(crate) fn bcast(&self, bytes: &mut [u8], root: c_int, comm: Comm) -> Result<(), Failure> {
        let (at, count) = (bytes.as_mut_ptr().cast(), len(bytes));
        // SAFETY: reads or writes as many bytes as there are.
        told(unsafe { self.calls.bcast(at, count, self.constants.byte, root, comm) })
    }

    /// Brings the same number of bytes of each rank to all.
    pub(crate) fn allgather(&self, own: &[u8], all: &mut [u8], comm: Comm) -> Result<(), Failure> {
        let (count, byte) = (len(own), self.constants.byte);
        let (from, into) = (own.as_ptr().cast_mut().cast(), all.as_mut_ptr().cast());
        // SAFETY: whoever calls has room for as many bytes of each rank.
        told(unsafe { self.calls.allgather(from, count, byte, into, count, byte, comm) })
    }
}

/// Bytes as MPI counts them. Messages of this library are short enough.
fn len(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("messages are shorter than 2 GiB")
}
