//! Numbers of several ranks, combined by a device.
#![allow(unsafe_code)] // launches a kernel

use std::sync::Arc;

use super::launch::{Numbers, REDUCTION_KERNEL, REDUCTION_STEP, form_number, operation_number};
use super::module::{Prepared, SmLimit};
use super::{Device, DeviceError, KernelSource, Region, Shared, Stream};
use crate::reduction::{Datatype, Operation};

/// Combines numbers in the memory of a device, with the bits that [`combine`](crate::reduction::combine) and
/// [`finish`](crate::reduction::finish) give.
///
/// A call enqueues one launch and returns; it allocates nothing and waits for nothing, so it can be recorded in a graph.
/// However many ranks there are, each number is read once and each result written once.
#[derive(Clone, Debug)]
pub struct Reducer {
    shared: Arc<Shared>,
    kernel: Prepared,
}

/// Numbers of several ranks, which are combined from the left, in the order of the ranks.
///
/// Regions may lie at any address. The device moves 16 bytes at a time where the result lies on a multiple of the
/// numbers' width.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// What they are.
    pub datatype: Datatype,
    /// What is computed.
    pub operation: Operation,
    /// How many ranks there are; of none nothing is done.
    pub ranks: u32,
    /// The numbers of the ranks: those of rank r start r · `stride` bytes into it, as many as `result` has.
    pub numbers: Region<'a>,
    /// How far apart the numbers of one rank and of the next start, in bytes.
    pub stride: u64,
    /// A rank whose numbers lie elsewhere, and where; nothing is read then where they would lie among the others.
    pub own: Option<(u32, Region<'a>)>,
    /// Where the result goes. It may be the region of `own`; else it has no byte in common with what is read.
    pub result: Region<'a>,
}

impl Device {
    /// What combines numbers.
    ///
    /// The first time this loads the kernel, as [`coder`](Self::coder) does.
    ///
    /// # Errors
    /// As [`coder`](Self::coder).
    pub fn reducer(&self) -> Result<Reducer, DeviceError> {
        let kernel = self.shared.with_module(KernelSource::of_reductions(), |module| {
            let entered = self.shared.context.enter()?;
            module.prepare_named(&entered, REDUCTION_KERNEL, 0, self.shared.info.shared_bytes)
        })?;
        Ok(Reducer { shared: Arc::clone(&self.shared), kernel })
    }
}

impl Reducer {
    /// Enqueues a reduction.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn reduce(&self, stream: &Stream, reduction: &Reduction<'_>) -> Result<(), DeviceError> {
        let numbers = reduction.check()?;
        if numbers.len == 0 {
            return Ok(());
        }
        // One more than bytes need whose first unit is whole.
        let wanted = numbers.len.div_ceil(REDUCTION_STEP) + 1;
        let blocks = self.kernel.blocks(wanted, SmLimit::NONE, &self.shared.info);
        let entered = self.shared.context.enter()?;
        // SAFETY: the kernel takes `Numbers`. `check` has found all regions as it wants them, and they are there as long
        // as their work lasts. Any bytes are numbers. `shared` keeps the kernel loaded.
        unsafe { self.kernel.launch(&entered, stream.handle, blocks, &numbers) }
    }
}

impl Reduction<'_> {
    /// As the kernel sees it.
    fn check(&self) -> Result<Numbers, DeviceError> {
        let Self { datatype, operation, ranks, numbers, stride, own, result } = *self;
        let (len, width) = (result.len(), datatype.width_bytes() as u64);
        if !len.is_multiple_of(width) {
            return Err(DeviceError::Width { len, datatype });
        }
        let own = own.filter(|(rank, _)| *rank < ranks);
        let last_elsewhere = (0..ranks).rev().find(|rank| own.is_none_or(|(own, _)| own != *rank));
        if let Some(last) = last_elsewhere {
            let needed = u64::from(last).checked_mul(stride).and_then(|start| start.checked_add(len));
            numbers.check_len("the numbers of all ranks", needed.unwrap_or(u64::MAX))?;
            check_apart("the numbers of other ranks", &numbers, &result)?;
        }
        if let Some((_, own)) = own {
            own.check_len("the own numbers", len)?;
            if own.address() != result.address() {
                check_apart("the own numbers", &own.slice(0..len), &result)?;
            }
        }
        Ok(Numbers {
            numbers: numbers.address(),
            stride,
            own: own.map_or(0, |(_, own)| own.address()),
            result: result.address(),
            len: if ranks == 0 { 0 } else { len },
            ranks,
            own_rank: own.map_or(ranks, |(rank, _)| rank),
            operation: operation_number(operation),
            form: form_number(datatype),
            is_signed: datatype.is_signed().into(),
            width: width as u32,
        })
    }
}

/// Fails if two regions have bytes in common.
fn check_apart(what: &'static str, read: &Region<'_>, result: &Region<'_>) -> Result<(), DeviceError> {
    let end = |region: &Region<'_>| region.address() + region.len();
    if read.is_empty() || result.is_empty() || end(read) <= result.address() || end(result) <= read.address()
    {
        Ok(())
    } else {
        Err(DeviceError::Overlap { what })
    }
}
