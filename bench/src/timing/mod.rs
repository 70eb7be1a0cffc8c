//! What is timed, and how: candidates on buffers, against each other.

mod buffer;
mod candidate;
mod lockstep;
mod memcpy;
mod race;

pub(crate) use buffer::{Buffer, bring_back};
pub(crate) use candidate::{Blocks, Candidate, CandidateError, Framed};
pub(crate) use lockstep::lockstep;
pub(crate) use memcpy::memcpy;
pub(crate) use race::race;
