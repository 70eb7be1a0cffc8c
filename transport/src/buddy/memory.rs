//! The two memories of a pool.

/// A range that a memory does not have, or that it failed to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no memory of that size.
    #[error("no memory of {bytes} bytes is to be had")]
    Unavailable {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The range ends behind the memory.
    #[error("{len} bytes at {at} are outside a memory of {size} bytes")]
    Outside {
        /// Where the range starts.
        at: u64,
        /// Its length.
        len: usize,
        /// Length of the memory.
        size: u64,
    },
}

/// Memory that a pool keeps slots or overflow in: of the host, or of a device.
pub trait Memory {
    /// Length in bytes.
    fn size(&self) -> u64;

    /// Copies what lies at `at` to `to`.
    ///
    /// # Errors
    /// If that is outside, or cannot be reached.
    fn load(&self, at: u64, to: &mut [u8]) -> Result<(), MemoryError>;

    /// Copies `from` to `at`.
    ///
    /// # Errors
    /// If that is outside, or cannot be reached.
    fn store(&mut self, at: u64, from: &[u8]) -> Result<(), MemoryError>;
}

/// Memory of the host.
#[derive(Debug)]
pub struct HostMemory {
    bytes: Vec<u8>,
}

impl HostMemory {
    /// `bytes` zero bytes.
    ///
    /// # Errors
    /// If there is not as much memory.
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        let unavailable = MemoryError::Unavailable { bytes };
        let len = usize::try_from(bytes).map_err(|_| unavailable)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).map_err(|_| unavailable)?;
        memory.resize(len, 0);
        Ok(Self { bytes: memory })
    }

    fn outside(&self, at: u64, len: usize) -> MemoryError {
        MemoryError::Outside { at, len, size: self.size() }
    }
}

impl Memory for HostMemory {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn load(&self, at: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.bytes.get(at as usize..).and_then(|bytes| bytes.get(..to.len()));
        to.copy_from_slice(from.ok_or(self.outside(at, to.len()))?);
        Ok(())
    }

    fn store(&mut self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        let outside = self.outside(at, from.len());
        let to = self.bytes.get_mut(at as usize..).and_then(|bytes| bytes.get_mut(..from.len()));
        to.ok_or(outside)?.copy_from_slice(from);
        Ok(())
    }
}
