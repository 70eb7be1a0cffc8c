//! Records, one by one.

use std::io::Read;

use super::super::transfer::{GPUS, Kind, MAX_PAYLOAD_LEN, Transfer};
use super::{TraceError, fill_up};

const HEADER_LEN: usize = 24;

/// Reads and checks records.
pub(super) struct Reader<R> {
    source: R,
    record: u64,
    /// Where the record starts.
    offset: u64,
    /// The time of the record before.
    time: u64,
    payload: [u8; MAX_PAYLOAD_LEN],
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, record: 0, offset: 0, time: 0, payload: [0; MAX_PAYLOAD_LEN] }
    }

    /// Records so far.
    pub(super) const fn count(&self) -> u64 {
        self.record
    }

    /// The next record, none at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Transfer<'_>>, TraceError> {
        let (record, offset) = (self.record, self.offset);
        let mut header = [0; HEADER_LEN];
        let got = fill_up(&mut self.source, &mut header).map_err(|source| TraceError::Unreadable {
            record,
            offset,
            source,
        })?;
        if got == 0 {
            return Ok(None);
        }
        if got < HEADER_LEN {
            return Err(TraceError::Truncated { record, offset, needed: HEADER_LEN, got });
        }
        let [kind, from, to, ..] = header;
        let kind = match kind {
            0 => Kind::Read,
            1 => Kind::Write,
            _ => return Err(TraceError::Kind { record, offset, kind }),
        };
        let [from, to] = [self.gpu("sender", from)?, self.gpu("receiver", to)?];
        if from == to {
            return Err(TraceError::OneGpu { record, offset, gpu: from + 1 });
        }
        let bytes = u32::from_le_bytes(field(&header, 4));
        let len = bytes as usize;
        if !(1..=MAX_PAYLOAD_LEN).contains(&len) {
            return Err(TraceError::Length { record, offset, bytes });
        }
        let (time, before) = (u64::from_le_bytes(field(&header, 16)), self.time);
        if time < before {
            return Err(TraceError::Time { record, offset, time, before });
        }
        let got = HEADER_LEN
            + fill_up(&mut self.source, &mut self.payload[..len])
                .map_err(|source| TraceError::Unreadable { record, offset, source })?;
        let needed = HEADER_LEN + len;
        if got < needed {
            return Err(TraceError::Truncated { record, offset, needed, got });
        }
        (self.record, self.offset, self.time) = (record + 1, offset + needed as u64, time);
        Ok(Some(Transfer { kind, from, to, payload: &self.payload[..len] }))
    }

    /// A GPU's number, from 0.
    fn gpu(&self, field: &'static str, gpu: u8) -> Result<u8, TraceError> {
        let (record, offset) = (self.record, self.offset);
        match gpu.checked_sub(1) {
            Some(number) if usize::from(number) < GPUS => Ok(number),
            _ => Err(TraceError::Gpu { record, offset, field, gpu }),
        }
    }
}

fn field<const N: usize>(header: &[u8; HEADER_LEN], at: usize) -> [u8; N] {
    std::array::from_fn(|i| header[at + i])
}
