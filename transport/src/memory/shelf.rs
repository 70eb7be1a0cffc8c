//! Page-locked memory for what comes from devices to stay in host memory: it goes back from where it is.

#[cfg(feature = "cuda")]
use std::sync::{Arc, OnceLock};

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::{Device, Pinned};

#[cfg(feature = "cuda")]
use super::Rooms;
#[cfg(feature = "cuda")]
use crate::pool::block_len;
use crate::pool::{Pool, Pooled};

/// Room for what is kept, within the bound of a pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Shelf {
    pool: Pool,
    /// From the first use on; any device reaches them.
    #[cfg(feature = "cuda")]
    rooms: Arc<OnceLock<Arc<Rooms<Pinned>>>>,
}

impl Shelf {
    /// What is on it counts in `pool`.
    pub(crate) fn within(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            #[cfg(feature = "cuda")]
            rooms: Arc::default(),
        }
    }

    /// An ordinary block of the pool for `len` bytes; rooms that nobody uses make room for it.
    pub(crate) fn block(&self, len: usize) -> Pooled {
        #[cfg(feature = "cuda")]
        if let Some(rooms) = self.rooms.get() {
            return rooms.within_bound(&self.pool, block_len(len), || self.pool.take(len));
        }
        self.pool.take(len)
    }

    /// Its rooms; `device` allocates them if none has yet.
    #[cfg(feature = "cuda")]
    pub(crate) fn rooms(&self, device: &Device) -> &Arc<Rooms<Pinned>> {
        self.rooms.get_or_init(|| Rooms::of_blocks(device, self.pool.clone()))
    }
}
