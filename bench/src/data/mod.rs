//! The data that benches measure: files, what they hold, and the samples of the repository.

mod corpus;
mod files;
mod random;
mod tile;

pub(crate) use files::{Item, fill, list, read, read_first, shape};
pub(crate) use random::Random;
pub(crate) use tile::tile;

/// Where the data is that the repository itself has.
pub(crate) const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/cli/samples");
