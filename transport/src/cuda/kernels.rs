//! The kernels of a device, found once.

use std::collections::HashMap;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Coder, Device};
use mgcomp_codecs::frame::ChunkSize;

/// Codecs of a device by algorithm and chunk size.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Device,
    /// `None` for those that this device cannot have.
    coders: HashMap<(Algorithm, u8), Option<Coder>>,
}

impl Kernels {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), coders: HashMap::new() }
    }

    /// Whether the codec is there, or will never be: nothing has to be loaded.
    pub(crate) fn knows(&self, algorithm: Algorithm, chunk_size: ChunkSize) -> bool {
        self.coders.contains_key(&(algorithm, chunk_size.log2()))
    }

    /// The codec, if there are kernels of it. To load them the first time may take seconds.
    pub(crate) fn coder(&mut self, algorithm: Algorithm, chunk_size: ChunkSize) -> Option<&Coder> {
        let key = (algorithm, chunk_size.log2());
        if !self.coders.contains_key(&key) {
            let found = self.device.coder(algorithm, chunk_size);
            if let Err(error) = &found {
                tracing::warn!(%algorithm, %error, "the device does without these kernels");
                if !error.is_for_good() {
                    return None;
                }
            }
            self.coders.insert(key, found.ok());
        }
        self.coders.get(&key)?.as_ref()
    }
}
