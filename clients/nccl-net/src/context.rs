//! What runs for a process, and for each communicator in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mgcomp_selector::StreamId;
use mgcomp_transport::attach::{Coder, EnvSettings};
use mgcomp_transport::control::Identity;
use mgcomp_transport::link::Position;
use mgcomp_transport::message::Rank;

use crate::carrier::{self, Carrier};
use crate::error::NetError;
use crate::pool::Pool;

/// Up to this length, messages may be of the protocol LL, where nothing says that they are not: NCCL's buffers for it have
/// so many bytes in a step.
pub(crate) const LL_BYTES: usize = 64 << 10;

/// What runs for the process.
pub(crate) struct Engine {
    pub(crate) settings: EnvSettings,
    pub(crate) coder: Coder,
    pub(crate) pool: Pool,
    pub(crate) carrier: Box<dyn Carrier>,
    stopped: AtomicBool,
}

impl Engine {
    pub(crate) fn start() -> Result<Self, NetError> {
        let settings = EnvSettings::from_env()?;
        let Identity { rank, ranks, .. } = Identity::of_this_process();
        let rank = rank.unwrap_or(0);
        let position = Position { rank: Rank(rank), ranks: ranks.max(rank.saturating_add(1)) };
        Ok(Self {
            coder: Coder::new(position, &settings),
            pool: Pool::new(settings.codec_threads),
            carrier: carrier::from_env(rank, settings.connections)?,
            settings,
            stopped: AtomicBool::new(false),
        })
    }

    /// Ends all threads. Connections that are still open can do nothing any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.pool.stop();
        self.carrier.stop();
    }
}

/// What runs for a communicator.
pub(crate) struct Context {
    pub(crate) engine: Arc<Engine>,
    /// Numbers the communicator's streams.
    communicator: u16,
    /// Operation and protocol of what comes next, as NCCL says them: a bit each, or all of them.
    kind: AtomicU64,
}

impl Context {
    pub(crate) fn new(engine: Arc<Engine>, communicator: Option<u64>) -> Self {
        let folded = communicator.unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        Self { engine, communicator: folded as u16, kind: AtomicU64::new(u64::MAX) }
    }

    /// Keeps what NCCL says of the messages to come.
    pub(crate) fn set_kind(&self, operations: u32, protocols: u32) {
        self.kind.store(u64::from(protocols) << 32 | u64::from(operations), Ordering::Relaxed);
    }

    pub(crate) fn check(&self) -> Result<(), NetError> {
        if self.engine.stopped.load(Ordering::Acquire) { Err(NetError::NotStarted) } else { Ok(()) }
    }

    /// The stream that the next message belongs to.
    pub(crate) fn stream(&self) -> StreamId {
        let operation = self.kind().operations.trailing_zeros() & 0x1f;
        StreamId(u32::from(self.communicator) << 8 | operation)
    }

    /// Whether the next message, of so many bytes, may be coded.
    pub(crate) fn may_code(&self, bytes: usize) -> bool {
        !self.engine.settings.off && bytes > self.looked_at_bytes()
    }

    /// Messages of up to so many bytes NCCL's kernel may look at before it is told that they are there.
    pub(crate) fn looked_at_bytes(&self) -> usize {
        match self.kind().protocol() {
            Some(Protocol::Simple) => 0,
            Some(Protocol::LowLatency) => usize::MAX,
            None => LL_BYTES,
        }
    }

    fn kind(&self) -> Kind {
        let kind = self.kind.load(Ordering::Relaxed);
        Kind { operations: kind as u32, protocols: (kind >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// The kernel waits for word from the host.
    Simple,
    /// The kernel finds flags in the data.
    LowLatency,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    operations: u32,
    protocols: u32,
}

impl Kind {
    /// Broadcast, reduce, all-gather, reduce-scatter, all-reduce: of those alone NCCL says the protocol. For others it leaves
    /// what it said last.
    const WITH_PROTOCOL: u32 = 0b1_1111;
    const SIMPLE: u32 = 1 << 2;

    fn protocol(self) -> Option<Protocol> {
        if self.operations == 0 || self.operations & !Self::WITH_PROTOCOL != 0 {
            return None;
        }
        match self.protocols {
            Self::SIMPLE => Some(Protocol::Simple),
            0 | u32::MAX => None,
            _ => Some(Protocol::LowLatency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_counts_where_it_is_said() {
        let protocol = |operations, protocols| Kind { operations, protocols }.protocol();
        assert_eq!(protocol(1 << 4, 1 << 2), Some(Protocol::Simple));
        assert_eq!(protocol(1 << 0, 1 << 0), Some(Protocol::LowLatency));
        assert_eq!(protocol(1 << 2, 1 << 1), Some(Protocol::LowLatency));
        // Several at once, as at the start: some of them may look at the data.
        assert_eq!(protocol(0b1_1111, 0b111), Some(Protocol::LowLatency));
        // Sends and receives, and operations of later versions.
        for operation in 5..15 {
            assert_eq!(protocol(1 << operation, 1 << 2), None, "operation {operation}");
        }
        assert_eq!(protocol(u32::MAX, u32::MAX), None);
        assert_eq!(protocol(1, u32::MAX), None);
    }
}
