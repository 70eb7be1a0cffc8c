//! Reductions: NCCL's own, with its order and its rounding, or those in the order of the ranks.

use mgcomp_codecs::device::{Region, Stream};

use super::{NcclCommunicator, NcclError, Reductions, count_plain};
use crate::communicator::{CommunicatorError, Datatype, Operation};

impl NcclCommunicator {
    /// Combines the numbers of all ranks, and leaves them in `into` on all. `from` may be `into`.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn all_reduce(
        &mut self,
        stream: &Stream,
        (from, into): (Region<'_>, Region<'_>),
        datatype: Datatype,
        operation: Operation,
    ) -> Result<(), NcclError> {
        self.usable()?;
        let count = count(from, into.len(), datatype)?;
        if self.reductions == Reductions::Ordered {
            return self.all_reduce_in_order(stream, (from, into), (datatype, operation));
        }
        let numbers = codes(datatype, operation)?;
        let done = self.lane.plain_group(&self.handle, stream, |handle, stream| {
            handle.all_reduce((from, into), count, numbers, stream)
        });
        self.kept_on(stream, done)?;
        count_plain(&mut self.stats, from.len());
        Ok(())
    }

    /// Combines the numbers of all ranks, and leaves each rank its share of them in `into`, which may be that share of
    /// `from`.
    ///
    /// # Errors
    /// [`NcclError`]; see "Failures" of this module.
    pub fn reduce_scatter(
        &mut self,
        stream: &Stream,
        (from, into): (Region<'_>, Region<'_>),
        datatype: Datatype,
        operation: Operation,
    ) -> Result<(), NcclError> {
        self.usable()?;
        let all = into.len().saturating_mul(self.ranks.into());
        let count = count(from, all, datatype)? / self.ranks as usize;
        if self.reductions == Reductions::Ordered {
            return self.reduce_scatter_in_order(stream, (from, into), (datatype, operation));
        }
        let numbers = codes(datatype, operation)?;
        let done = self.lane.plain_group(&self.handle, stream, |handle, stream| {
            handle.reduce_scatter((from, into), count, numbers, stream)
        });
        self.kept_on(stream, done)?;
        count_plain(&mut self.stats, from.len());
        Ok(())
    }
}

/// How many numbers there are.
fn count(from: Region<'_>, expected: u64, datatype: Datatype) -> Result<usize, CommunicatorError> {
    let (got, expected, width) = (from.len() as usize, expected as usize, datatype.width_bytes());
    if got != expected {
        return Err(CommunicatorError::Length { what: "what is reduced", got, expected });
    }
    if got.is_multiple_of(width) {
        Ok(got / width)
    } else {
        Err(CommunicatorError::Width { len: got, datatype })
    }
}

/// The `ncclDataType_t` and the `ncclRedOp_t`.
const fn codes(datatype: Datatype, operation: Operation) -> Result<(i32, i32), NcclError> {
    let numbers = match datatype {
        Datatype::I8 => 0,
        Datatype::U8 => 1,
        Datatype::I32 => 2,
        Datatype::U32 => 3,
        Datatype::I64 => 4,
        Datatype::U64 => 5,
        Datatype::F16 => 6,
        Datatype::F32 => 7,
        Datatype::F64 => 8,
        Datatype::Bf16 => 9,
        Datatype::I16 | Datatype::U16 => return Err(NcclError::Unsupported { operation, datatype }),
    };
    let operation = match operation {
        Operation::Sum => 0,
        Operation::Max => 2,
        Operation::Min => 3,
        Operation::Avg => 4,
    };
    Ok((numbers, operation))
}
