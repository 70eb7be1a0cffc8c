//! Ranks in processes of their own do collectives, one of them is killed in the middle, the others hear of it and work
//! on with the one that takes its place; for as long as one likes.
//!
//! Ranks talk over TCP or shared memory. All of them do the same random operations, check every byte that they get, and give everything
//! back when one of them fails: then memory, threads and descriptors are looked at. Rank 0 is never killed, so it is the
//! one to show what leaks.

mod controller;
mod footprint;
mod member;
mod operations;
mod process;
mod way;

pub use controller::{Plan, Report, SoakError, run};
pub use footprint::Footprint;
pub use member::rank;
pub use way::Way;

/// The first argument of a process that is a rank; its number and its link follow.
pub const RANK_ARGUMENT: &str = "rank";
