//! What datatypes are like, and bringing data of any of them into one piece and back.
//!
//! Unsafe and sound as the calls in `mod.rs`.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use super::Mpi;
use crate::data::Data;
use crate::failure::{Failure, told, untold};
use crate::types::{Address, Comm, Type};

/// What a datatype is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of data in one.
    pub(crate) size: u64,
    /// Bytes from one to the next.
    pub(crate) extent: i64,
    /// Whether values lie one behind the other, in the order in which they are sent.
    pub(crate) is_dense: bool,
}

impl Mpi {
    /// Bytes of data in one value of a datatype.
    pub(crate) fn size_of(&self, datatype: Type) -> Result<u64, Failure> {
        let mut size = 0;
        // SAFETY: writes to the integer given.
        told(unsafe { self.calls.type_size_x(datatype, &mut size) })?;
        // Negative where it has no size.
        u64::try_from(size).map_err(|_| Failure::Untold(self.constants.err_other))
    }

    /// What a datatype is like.
    pub(crate) fn shape(&self, datatype: Type) -> Result<Shape, Failure> {
        let size = self.size_of(datatype)?;
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: writes to the integers given.
        told(unsafe { self.calls.type_extent(datatype, &mut lower, &mut extent) })?;
        let is_dense = lower == 0 && extent as u64 == size && self.is_plain(datatype, 0)?;
        Ok(Shape { size, extent: extent as i64, is_dense })
    }

    /// Whether it is predefined, or some of a predefined one in a row.
    fn is_plain(&self, datatype: Type, depth: u32) -> Result<bool, Failure> {
        match self.envelope(datatype)? {
            [.., 0] => Ok(true),
            envelope @ ([0 | 1, 0, 0, 1] | [0, 0, 1, 1]) if depth < 8 => {
                let inner = self.content(datatype, envelope)?;
                let is_plain = self.is_plain(inner, depth + 1);
                if self.envelope(inner)?[3] != 0 {
                    let mut inner = inner;
                    // SAFETY: a handle that MPI made for this call.
                    told(unsafe { self.calls.type_free(&mut inner) })?;
                }
                is_plain
            }
            _ => Ok(false),
        }
    }

    /// How many integers, addresses, large counts and datatypes went into it.
    fn envelope(&self, datatype: Type) -> Result<[i64; 4], Failure> {
        let mut combiner = 0;
        if self.calls.have_large_types() {
            let [mut i, mut a, mut c, mut d] = [0; 4];
            // SAFETY: writes to the integers given.
            told(unsafe {
                self.calls.type_envelope_c(datatype, &mut i, &mut a, &mut c, &mut d, &mut combiner)
            })?;
            return Ok([i, a, c, d]);
        }
        let [mut i, mut a, mut d] = [0; 3];
        // SAFETY: as above.
        told(unsafe { self.calls.type_envelope(datatype, &mut i, &mut a, &mut d, &mut combiner) })?;
        Ok([i.into(), a.into(), 0, d.into()])
    }

    /// The one datatype in a datatype of this envelope.
    fn content(&self, datatype: Type, [i, a, c, d]: [i64; 4]) -> Result<Type, Failure> {
        let (mut integer, mut address, mut count, mut inner) = (0, 0, 0, Type(0));
        // SAFETY: each array has room for one, and no more is asked for: [`is_plain`](Self::is_plain) looks.
        told(unsafe {
            match self.calls.have_large_types() {
                true => self.calls.type_contents_c(
                    datatype,
                    i,
                    a,
                    c,
                    d,
                    &mut integer,
                    &mut address,
                    &mut count,
                    &mut inner,
                ),
                false => self.calls.type_contents(
                    datatype,
                    i as c_int,
                    a as c_int,
                    d as c_int,
                    &mut integer,
                    &mut address,
                    &mut inner,
                ),
            }
        })?;
        Ok(self.datatype(inner))
    }

    /// Whether data of a datatype may be packed; tells nobody.
    pub(crate) fn is_packable(&self, datatype: Type, own: Comm) -> bool {
        let (mut room, mut position) = ([0u8; 8], 0);
        let at: Address = room.as_mut_ptr().cast();
        // SAFETY: of no values; the address stands for both sides, and there is room.
        unsafe { self.calls.pack(at, 0, datatype, at, 8, &mut position, own) == 0 }
    }

    /// Brings the values of `data` one behind the other into `bytes`, which is as long as they are.
    pub(crate) fn pack(&self, data: &Data, bytes: &mut [u8], own: Comm) -> Result<(), Failure> {
        let (Ok(room), Ok(count)) = (c_int::try_from(bytes.len()), c_int::try_from(data.count())) else {
            let into: Address = bytes.as_mut_ptr().cast();
            return self.with_many_bytes(bytes.len(), |many| self.copy(data, &Data::new(into, 1, many), own));
        };
        let (mut position, into) = (0, bytes.as_mut_ptr().cast());
        self.with_address(data, count, |address, count, datatype| {
            // SAFETY: no more is written than there is room for.
            untold(unsafe { self.calls.pack(address, count, datatype, into, room, &mut position, own) })
        })?;
        self.all(position, bytes.len())
    }

    /// Brings `bytes` to where the values of `data` belong.
    pub(crate) fn unpack(&self, bytes: &[u8], data: &Data, own: Comm) -> Result<(), Failure> {
        let (Ok(len), Ok(count)) = (c_int::try_from(bytes.len()), c_int::try_from(data.count())) else {
            let from: Address = bytes.as_ptr().cast_mut().cast();
            return self.with_many_bytes(bytes.len(), |many| self.copy(&Data::new(from, 1, many), data, own));
        };
        let (mut position, from) = (0, bytes.as_ptr().cast_mut().cast());
        self.with_address(data, count, |address, count, datatype| {
            // SAFETY: no more is read than there is.
            untold(unsafe { self.calls.unpack(from, len, &mut position, address, count, datatype, own) })
        })?;
        self.all(position, bytes.len())
    }

    /// Does `work` with an address, a count and a datatype that are the `count` values of `data`. At `MPI_BOTTOM`, which is no address to
    /// MPICH's functions that pack, they are those at another one of a datatype that begins so much before it.
    fn with_address(
        &self,
        data: &Data,
        count: c_int,
        work: impl FnOnce(Address, c_int, Type) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if count == 0 || !data.address().is_null() {
            return work(data.address(), count, data.datatype());
        }
        let address: Address = ptr::from_ref(self).cast_mut().cast();
        let before = (address.addr() as isize).wrapping_neg();
        self.with_blocks(&[count], &[before], data.datatype(), |blocks| work(address, 1, blocks))
    }

    fn all(&self, position: c_int, len: usize) -> Result<(), Failure> {
        match position as usize == len {
            true => Ok(()),
            false => Err(Failure::Length { expected: len as u64, found: position as u64 }),
        }
    }

    /// Copies data that no integer counts: this process sends it to itself.
    fn copy(&self, from: &Data, to: &Data, own: Comm) -> Result<(), Failure> {
        let receiving = self.receive_data(to, 0, own)?;
        // What nobody sends is not waited for: that the request is left behind is all that can be done.
        let sending = self.send_data(from, 0, own)?;
        receiving.wait().and(sending.wait())?;
        Ok(())
    }

    /// Does `work` with a datatype of `len` bytes in a row.
    fn with_many_bytes(
        &self,
        len: usize,
        work: impl FnOnce(Type) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        const PIECE: usize = 1 << 30;
        let offsets: Vec<isize> = (0..len).step_by(PIECE).map(|offset| offset as isize).collect();
        let lengths: Vec<c_int> =
            (0..len).step_by(PIECE).map(|offset| PIECE.min(len - offset) as c_int).collect();
        self.with_blocks(&lengths, &offsets, self.constants.byte, work)
    }

    /// Does `work` with a datatype of blocks of another, each so long, and so many bytes from where it is.
    fn with_blocks(
        &self,
        lengths: &[c_int],
        offsets: &[isize],
        of: Type,
        work: impl FnOnce(Type) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (count, mut blocks) = (lengths.len().min(offsets.len()) as c_int, Type(0));
        // SAFETY: the arrays are as long as they should be; the datatype is freed once.
        unsafe {
            untold(self.calls.type_hindexed(count, lengths.as_ptr(), offsets.as_ptr(), of, &mut blocks))?;
            let done = untold(self.calls.type_commit(&mut blocks)).and_then(|()| work(blocks));
            untold(self.calls.type_free(&mut blocks)).and(done)
        }
    }
}
