//! Tables of packed rows: worked out by hand, against plain buffers, in files whole and damaged, and cached.

mod cached;
mod document;
mod hostile;
mod killed;
mod known;
#[path = "../common/random.rs"]
mod random;
mod refused;
mod rows;
mod saved;
mod series;
