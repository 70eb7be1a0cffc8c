//! Page-locked memory for what comes from devices to stay in host memory: it goes back from where it is.

#[cfg(feature = "cuda")]
use std::sync::{Arc, OnceLock};

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::{Device, Pinned};

#[cfg(feature = "cuda")]
use super::Rooms;
use crate::pool::Pool;

/// Room for what is kept, within the bound of a pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Shelf {
    #[cfg(feature = "cuda")]
    pool: Pool,
    /// From the first use on; any device reaches them.
    #[cfg(feature = "cuda")]
    rooms: Arc<OnceLock<Arc<Rooms<Pinned>>>>,
}

impl Shelf {
    /// What is on it counts in `pool`.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    pub(crate) fn within(pool: &Pool) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            pool: pool.clone(),
            #[cfg(feature = "cuda")]
            rooms: Arc::default(),
        }
    }

    /// Its rooms; `device` allocates them if none has yet.
    #[cfg(feature = "cuda")]
    pub(crate) fn rooms(&self, device: &Device) -> &Arc<Rooms<Pinned>> {
        self.rooms.get_or_init(|| Rooms::of_blocks(device, self.pool.clone()))
    }
}
