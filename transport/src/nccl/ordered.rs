//! Reductions in the order of the ranks: bytes travel as in other calls, and a kernel combines the numbers.

use mgcomp_codecs::device::{Device, DeviceError, Reducer, Reduction, Region, Stream};

use super::{NcclCommunicator, NcclError};
use crate::communicator::{Block, Datatype, Operation, shares};
use crate::cuda::scratch::Scratch;

/// What is computed.
type Task = (Datatype, Operation);

/// The numbers of each rank start on multiples of this in the room.
const ALIGN: usize = 16;

/// Where the numbers of all ranks come together. Dropped when its stream has come to its end.
#[derive(Debug)]
pub(super) struct Combiner {
    stream: Stream,
    reducer: Reducer,
    /// What the ranks have sent, in their order.
    room: Scratch,
}

impl Combiner {
    pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
        let mut room = Scratch::default();
        // The least that there is, so that short reductions never wait for more.
        room.room(device, 0)?;
        Ok(Self { stream: device.stream()?, reducer: device.reducer()?, room })
    }

    /// Where numbers come together.
    pub(super) const fn stream(&self) -> &Stream {
        &self.stream
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
        if self.kept_on(stream, records)? {
            return Err(NcclError::Recorded);
        }
        // Should what follows panic, it is left: work may still use it.
        let mut combiner = self.combiner.take().expect("there is one for the reductions that come here");
        let combined = self.relaxed(|world| world.combine_with(&mut combiner, stream, numbers, result, task));
        // Also after an error: work may still use it, which is waited for.
        self.combiner = Some(combiner);
        self.kept_on(stream, combined)
    }

    /// Everybody sends all shares to those whose they are; this rank combines its own.
    fn combine_with(
        &mut self,
        Combiner { stream, reducer, room }: &mut Combiner,
        after: &Stream,
        (from, shares): (Region<'_>, &[Block]),
        result: Region<'_>,
        (datatype, operation): Task,
    ) -> Result<(), NcclError> {
        let (ranks, len) = (self.ranks as usize, result.len() as usize);
        // The same on all ranks, whose shares may differ: they find more room in the same call.
        let longest = shares.iter().map(|share| share.len).max().unwrap_or(0);
        let stride = longest.next_multiple_of(ALIGN);
        let room_len = (ranks * stride) as u64;
        let grows = room.must_grow(room_len);
        if grows {
            // The driver may wait for what is on its way anywhere: not without a limit, as far as this communicator knows
            // of it.
            self.lane.finish(&self.handle)?;
            stream.follow(after)?;
            self.handle.wait(stream, "the numbers of a reduction")?;
        }
        let room = room.room(&self.lane.device, room_len)?;
        if grows {
            self.neighbours.meet(&self.handle, 0..self.ranks)?;
        }
        let blocks: Vec<_> = (0..ranks).map(|rank| Block { offset: rank * stride, len }).collect();
        stream.follow(after)?;
        self.all_to_all_v(stream, (from, shares), (room, &blocks), datatype.element())?;
        let (ranks, stride_bytes, own) = (self.ranks, stride as u64, None);
        let reduction =
            Reduction { datatype, operation, ranks, numbers: room, stride: stride_bytes, own, result };
        reducer.reduce(stream, &reduction)?;
        Ok(after.follow(stream)?)
    }
}
