//! What calls from and to host memory need of the device.

use std::ops::Range;

use mgcomp_codecs::device::{
    BuddyEntries, Buffer, Device, DeviceError, EntryMover, EntryReport, MoveEntries, Stream, Workspace,
    workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;

use super::DeviceBuddyError;

/// Bytes of a range that a call from or to host memory brings to the device at a time: whole batches of entries.
pub const STAGE_LEN: u64 = 4 << 20;
/// Bytes that lie at multiples of this as they do in their entries are moved as units of so many.
const ALIGN: u64 = 16;

/// A stream with room for a piece of a range.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) stream: Stream,
    workspace: Workspace<'static>,
    report: Buffer,
    data: Buffer,
}

impl Stage {
    pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        let workspace = device.workspace(&stream, workspace_len(ChunkSize::SMALL, &[]))?;
        let (report, data) = (device.alloc(EntryReport::LEN)?, device.alloc(STAGE_LEN + ALIGN)?);
        // The workspace is zero by then, and may be freed.
        stream.wait()?;
        Ok(Self { stream, workspace, report, data })
    }

    /// Reads `range` to `out`, which is as long.
    pub(super) fn read(
        &mut self,
        mover: &EntryMover,
        entries: &BuddyEntries<'_>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), DeviceBuddyError> {
        for piece in pieces(&range) {
            let done = piece.start - range.start;
            let out = &mut out[done as usize..(piece.end - range.start) as usize];
            let data = self.data.slice(place(&piece));
            let wanted = MoveEntries { range: piece, data, report: self.report.region() };
            mover.read(&self.stream, &mut self.workspace, entries, &wanted)?;
            self.stream.download(data, out)?;
            self.check(done)?;
        }
        Ok(())
    }

    /// Writes `bytes` to `range`, which is as long.
    pub(super) fn write(
        &mut self,
        mover: &EntryMover,
        entries: &BuddyEntries<'_>,
        range: Range<u64>,
        bytes: &[u8],
    ) -> Result<(), DeviceBuddyError> {
        for piece in pieces(&range) {
            let done = piece.start - range.start;
            let bytes = &bytes[done as usize..(piece.end - range.start) as usize];
            let data = self.data.slice(place(&piece));
            self.stream.upload(bytes, data)?;
            let wanted = MoveEntries { range: piece, data, report: self.report.region() };
            mover.write(&self.stream, &mut self.workspace, entries, &wanted)?;
            self.check(done)?;
        }
        Ok(())
    }

    /// Waits for the report of a piece, before which `done` bytes of the range have been dealt with.
    fn check(&self, done: u64) -> Result<(), DeviceBuddyError> {
        let report = fetch(&self.stream, &self.report)?;
        report.check().map_err(|refused| DeviceBuddyError::Refused { refused, done })
    }
}

/// Where the bytes of a piece go in the stage.
const fn place(piece: &Range<u64>) -> Range<u64> {
    let skipped = piece.start % ALIGN;
    skipped..skipped + (piece.end - piece.start)
}

fn fetch(stream: &Stream, report: &Buffer) -> Result<EntryReport, DeviceError> {
    let mut bytes = [0; EntryReport::LEN as usize];
    stream.download(report.region(), &mut bytes)?;
    Ok(EntryReport::from_bytes(&bytes))
}

/// A range in pieces that start and end where batches of entries do, but for its own start and end.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { start, end } = *range;
    let first = start / STAGE_LEN;
    let count = if start == end { first } else { end.div_ceil(STAGE_LEN) };
    (first..count).map(move |piece| start.max(piece * STAGE_LEN)..end.min((piece + 1) * STAGE_LEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_range() {
        let all: Vec<_> = pieces(&(7..2 * STAGE_LEN + 1)).collect();
        assert_eq!(all, [7..STAGE_LEN, STAGE_LEN..2 * STAGE_LEN, 2 * STAGE_LEN..2 * STAGE_LEN + 1]);
        assert_eq!(pieces(&(STAGE_LEN..2 * STAGE_LEN)).count(), 1);
        assert_eq!(pieces(&(5..5)).count(), 0);
        assert_eq!(all.iter().map(place).collect::<Vec<_>>(), [7..STAGE_LEN, 0..STAGE_LEN, 0..1]);
    }
}
