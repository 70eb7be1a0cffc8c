//! Sends and receives on communicators of this library's own.
//!
//! Unsafe and sound as the calls in `mod.rs`: MPI uses buffers beyond a call, so they belong to the [`Operation`] until it was
//! waited for.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem;

use super::{Mpi, len};
use crate::data::Data;
use crate::failure::{Failure, untold};
use crate::types::{Address, Comm, Request};

/// So many messages that one rank has for another may be with MPI there before they are asked for.
const MOST_AHEAD: usize = 16;

/// More than any MPI's status takes.
type Status = [u64; 16];

/// What a message is, on communicators of this library's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// A piece of a block, or what is to be known of one.
    Data = 1,
    /// How long it took.
    Time = 2,
}

impl Mpi {
    /// Sends the front of a buffer on a communicator of this library's own.
    pub(crate) fn send(
        &self,
        buffer: Vec<u8>,
        count: usize,
        to: c_int,
        tag: Tag,
        shadow: Comm,
    ) -> Result<Operation, Failure> {
        self.start_send((buffer, count), false, to, tag, shadow)
    }

    /// Sends a message of a block, before which there were so many. MPI takes short ones however far their receiver is behind, and would keep
    /// them there: so now and then one is over only when its receiver has begun to take it.
    pub(crate) fn send_message(
        &self,
        (buffer, count): (Vec<u8>, usize),
        before: usize,
        to: c_int,
        shadow: Comm,
    ) -> Result<Operation, Failure> {
        let is_held_up = before % MOST_AHEAD == MOST_AHEAD - 1;
        self.start_send((buffer, count), is_held_up, to, Tag::Data, shadow)
    }

    /// As [`send`](Self::send). What is held up is over once its receiver has begun to take it.
    fn start_send(
        &self,
        (buffer, count): (Vec<u8>, usize),
        is_held_up: bool,
        to: c_int,
        tag: Tag,
        shadow: Comm,
    ) -> Result<Operation, Failure> {
        let mut operation = Operation { mpi: *self, request: None, buffer, sent: count };
        let bytes = &mut operation.buffer[..count];
        let mut request = Request(0);
        let (at, count) = (bytes.as_mut_ptr().cast(), len(bytes));
        let (byte, tag) = (self.constants.byte, tag as c_int);
        // SAFETY: the buffer belongs to the operation, which waits.
        untold(unsafe {
            match is_held_up {
                true => self.calls.issend(at, count, byte, to, tag, shadow, &mut request),
                false => self.calls.isend(at, count, byte, to, tag, shadow, &mut request),
            }
        })?;
        operation.request = Some(request);
        Ok(operation)
    }

    /// Receives at most as many bytes as the buffer has.
    pub(crate) fn receive(
        &self,
        buffer: Vec<u8>,
        from: c_int,
        tag: Tag,
        shadow: Comm,
    ) -> Result<Operation, Failure> {
        let mut operation = Operation { mpi: *self, request: None, buffer, sent: 0 };
        let mut request = Request(0);
        let (at, count) = (operation.buffer.as_mut_ptr().cast(), len(&operation.buffer));
        // SAFETY: the buffer belongs to the operation, which waits.
        untold(unsafe {
            self.calls.irecv(at, count, self.constants.byte, from, tag as c_int, shadow, &mut request)
        })?;
        operation.request = Some(request);
        Ok(operation)
    }

    /// Sends data from where it is.
    pub(crate) fn send_data(&self, data: &Data, to: c_int, shadow: Comm) -> Result<Operation, Failure> {
        let mut request = Request(0);
        let (at, datatype) = (data.address(), data.datatype());
        // SAFETY: the program lends the data until its call returns, and the operation is waited for before that.
        untold(unsafe {
            match c_int::try_from(data.count()) {
                Ok(count) => {
                    self.calls.isend(at, count, datatype, to, Tag::Data as c_int, shadow, &mut request)
                }
                Err(_) => self.calls.isend_c(
                    at,
                    data.count(),
                    datatype,
                    to,
                    Tag::Data as c_int,
                    shadow,
                    &mut request,
                ),
            }
        })?;
        Ok(Operation { mpi: *self, request: Some(request), buffer: Vec::new(), sent: 0 })
    }

    /// Receives data to where it belongs.
    pub(crate) fn receive_data(&self, data: &Data, from: c_int, shadow: Comm) -> Result<Operation, Failure> {
        let mut request = Request(0);
        let (at, datatype) = (data.address(), data.datatype());
        // SAFETY: as in `send_data`.
        untold(unsafe {
            match c_int::try_from(data.count()) {
                Ok(count) => {
                    self.calls.irecv(at, count, datatype, from, Tag::Data as c_int, shadow, &mut request)
                }
                Err(_) => self.calls.irecv_c(
                    at,
                    data.count(),
                    datatype,
                    from,
                    Tag::Data as c_int,
                    shadow,
                    &mut request,
                ),
            }
        })?;
        Ok(Operation { mpi: *self, request: Some(request), buffer: Vec::new(), sent: 0 })
    }
}

/// A send or a receive under way, and the buffer that it uses.
#[derive(Debug)]
#[must_use = "MPI uses the buffer until this is waited for"]
pub(crate) struct Operation {
    mpi: Mpi,
    request: Option<Request>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are sent.
    sent: usize,
}

impl Operation {
    /// What is being sent from the buffer, which MPI only reads; nothing where it receives.
    pub(crate) fn sent(&self) -> &[u8] {
        &self.buffer[..self.sent]
    }

    /// Waits until it is over; returns the buffer, and how many bytes were received.
    pub(crate) fn wait(mut self) -> Result<(Vec<u8>, usize), Failure> {
        let (mut status, mut count): (Status, c_int) = ([0; 16], 0);
        let Some(mut request) = self.request.take() else { return Ok((mem::take(&mut self.buffer), 0)) };
        let at: Address = status.as_mut_ptr().cast();
        // SAFETY: the request is waited for once; the status has room for that of any MPI.
        unsafe {
            untold(self.mpi.calls.wait(&mut request, at))?;
            untold(self.mpi.calls.get_count(at, self.mpi.constants.byte, &mut count))?;
        }
        Ok((mem::take(&mut self.buffer), usize::try_from(count).unwrap_or(0)))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // After an error: MPI may still use the buffer, and waiting might take forever.
        if self.request.is_some() {
            mem::forget(mem::take(&mut self.buffer));
        }
    }
}
