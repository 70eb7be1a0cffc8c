//! The four messages of Figure 4 and their time on the bus.

/// Bytes that the bus takes in a cycle: 160 Gb/s at 1 GHz.
const BYTES_PER_CYCLE: u16 = 20;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    ReadRequest,
    DataReady,
    WriteRequest,
    WriteAck,
}

impl What {
    /// Bytes of the header: 128, 32, 104 and 32 bits.
    pub(super) const fn header_bytes(self) -> u16 {
        match self {
            Self::ReadRequest => 16,
            Self::DataReady | Self::WriteAck => 4,
            Self::WriteRequest => 13,
        }
    }

    /// Whether it asks for another message.
    pub(super) const fn is_request(self) -> bool {
        matches!(self, Self::ReadRequest | Self::WriteRequest)
    }
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) what: What,
    /// The transfer that it belongs to.
    pub(super) transfer: u32,
    /// The GPU that gets it.
    pub(super) to: u8,
    /// Header and payload.
    pub(super) bytes: u16,
    /// Cycles that the receiver's decompressor takes.
    pub(super) decompress: u16,
}

/// Whole cycles for a message of so many bytes: no two messages share one.
pub(super) const fn bus_cycles(bytes: u16) -> u64 {
    bytes.div_ceil(BYTES_PER_CYCLE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_figure_4() {
        // The paper's example: 62 bytes take 4 cycles.
        assert_eq!([1, 20, 21, 62, 80, 81].map(bus_cycles), [1, 1, 2, 4, 4, 5]);
        let cycles = |what: What, payload: u16| bus_cycles(what.header_bytes() + payload);
        assert_eq!([What::ReadRequest, What::WriteAck].map(|what| cycles(what, 0)), [1, 1]);
        // A raw line, 180 bits of BDI, and a zero line.
        assert_eq!([64, 23, 1].map(|payload| cycles(What::DataReady, payload)), [4, 2, 1]);
        assert_eq!([64, 23, 1].map(|payload| cycles(What::WriteRequest, payload)), [4, 2, 1]);
    }
}
