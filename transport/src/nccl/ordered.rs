//! Reductions in the order of the ranks: bytes travel as in other calls, and numbers are combined on the host.

use mgcomp_codecs::device::{Device, DeviceError, Region, Stream};

use super::{NcclCommunicator, NcclError};
use crate::communicator::{Block, Datatype, Operation, combine, finish, shares};
use crate::executor::cuda::scratch::Scratch;

/// What is computed.
type Task = (Datatype, Operation);

/// Where the numbers of all ranks come together.
#[derive(Debug)]
pub(super) struct Combiner {
    stream: Stream,
    /// What the ranks have sent, in their order.
    room: Scratch,
}

impl Combiner {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { stream: device.stream()?, room: Scratch::default() })
    }
}

impl Drop for Combiner {
    fn drop(&mut self) {
        // What is on the stream ends, because the communicator has, one way or the other.
        if let Err(error) = self.stream.wait() {
            tracing::warn!(%error, "a stream does not come to its end");
        }
    }
}

impl NcclCommunicator {
    /// Each rank combines its share of the numbers and hands it on.
    pub(super) fn all_reduce_in_order(
        &mut self,
        stream: &Stream,
        (from, into): (Region<'_>, Region<'_>),
        task: Task,
    ) -> Result<(), NcclError> {
        let shares = shares(self.ranks as usize, from.len() as usize, task.0.width_bytes());
        let Block { offset, len } = shares[self.rank as usize];
        let own = into.slice(offset as u64..(offset + len) as u64);
        self.combine_in_order(stream, (from, &shares), own, task)?;
        self.all_gather_v(stream, own, (into, &shares), task.0.element()).map(drop)
    }

    /// Each rank combines its share of the numbers.
    pub(super) fn reduce_scatter_in_order(
        &mut self,
        stream: &Stream,
        (from, into): (Region<'_>, Region<'_>),
        task: Task,
    ) -> Result<(), NcclError> {
        let len = into.len() as usize;
        let shares: Vec<_> = (0..self.ranks as usize).map(|rank| Block { offset: rank * len, len }).collect();
        self.combine_in_order(stream, (from, &shares), into, task)
    }

    fn combine_in_order(
        &mut self,
        stream: &Stream,
        numbers: (Region<'_>, &[Block]),
        result: Region<'_>,
        task: Task,
    ) -> Result<(), NcclError> {
        let records = stream.is_capturing().map_err(NcclError::from);
        if self.kept(records)? {
            return Err(NcclError::Recorded);
        }
        let combined = match self.combiner.take().map_or_else(|| Combiner::new(&self.lane.device), Ok) {
            Ok(mut combiner) => {
                let combined = self.combine_with(&mut combiner, stream, numbers, result, task);
                // Also after an error: work may still use it.
                self.combiner = Some(combiner);
                combined
            }
            Err(error) => Err(error.into()),
        };
        self.kept(combined)
    }

    /// Everybody sends all shares to those whose they are; this rank combines its own.
    fn combine_with(
        &mut self,
        Combiner { stream, room }: &mut Combiner,
        after: &Stream,
        (from, shares): (Region<'_>, &[Block]),
        result: Region<'_>,
        (datatype, operation): Task,
    ) -> Result<(), NcclError> {
        let (ranks, len) = (self.ranks as usize, result.len() as usize);
        let room = room.room(&self.lane.device, (ranks * len) as u64)?;
        let blocks: Vec<_> = (0..ranks).map(|rank| Block { offset: rank * len, len }).collect();
        stream.follow(after)?;
        self.all_to_all_v(stream, (from, shares), (room, &blocks), datatype.element())?;
        self.handle.wait(stream, "the numbers of a reduction")?;
        self.lane.finish(&self.handle)?;
        if len == 0 {
            return Ok(());
        }
        let of_rank = |rank: usize| room.slice((rank * len) as u64..((rank + 1) * len) as u64);
        let (mut left, mut right) = (vec![0; len], vec![0; len]);
        stream.download(of_rank(0), &mut left)?;
        for rank in 1..ranks {
            stream.download(of_rank(rank), &mut right)?;
            combine(operation, datatype, &mut left, &right);
        }
        finish(operation, datatype, &mut left, self.ranks);
        Ok(stream.upload(&left, result)?)
    }
}
