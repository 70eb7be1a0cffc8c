//! How fast the codecs are on this machine and its devices: measured once, kept in files, and handed to policies as numbers.
//!
//! Each codec is timed on generated data of each element: sparse, dense and noise, so that times are known for data
//! that compresses well, somewhat and not at all; at a few lengths, so that they are known for messages and for
//! buffers that no cache holds. On the host one thread works, as one does on each transfer; on a device, one stream by the
//! device's clock.
//!
//! ```no_run
//! use mgcomp_codecs::ElementSet;
//! use mgcomp_transport::calibrate::{SpeedsFile, calibrate};
//!
//! let speeds = calibrate(ElementSet::all(), &|done_bytes| eprintln!("{done_bytes}"))?;
//! let file = SpeedsFile::default_path()?.ok_or("no folder to keep it in")?;
//! SpeedsFile::of_this_machine(&speeds).save(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod data;
mod device;
mod file;
mod host;

use mgcomp_codecs::device::{DeviceError, Refused};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::speeds::Series;

pub use self::device::{calibrate_device, calibrated_device_bytes};
pub use self::file::{SpeedsFile, SpeedsFileError, device_speeds, speeds};
pub use self::host::{calibrate, calibrated_bytes};

/// Two kinds of data that become about the same tell nothing apart.
const LEAST_DIFFERENCE: f64 = 0.02;

/// Brings series into their order. Of those that say the same, one stays.
fn sort(series: &mut Vec<Series>) {
    series.sort_by(|a, b| a.fraction.total_cmp(&b.fraction));
    series.dedup_by(|b, a| b.fraction - a.fraction < LEAST_DIFFERENCE);
}

/// Why codecs were not timed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A codec refuses data that it must take.
    #[error("codec {algorithm} fails on {element}")]
    Codec {
        /// Which codec.
        algorithm: Algorithm,
        /// On what.
        element: Element,
    },
    /// A codec brought back other bytes.
    #[error("codec {algorithm} does not bring back what it was given as {element}")]
    NotEqual {
        /// Which codec.
        algorithm: Algorithm,
        /// On what.
        element: Element,
    },
    /// A kernel refuses data that it must take.
    #[error("the kernels of {algorithm} fail on {element}: {refused}")]
    Kernel {
        /// Whose kernels.
        algorithm: Algorithm,
        /// On what.
        element: Element,
        /// What they say.
        refused: Refused,
    },
    /// The driver, or the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Times that make no sense.
    #[error(transparent)]
    Speeds(#[from] mgcomp_selector::speeds::SpeedsError),
}
