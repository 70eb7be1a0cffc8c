//! The rules of the policy `adaptive`, with numbers worked out by hand.

mod choice;
mod decoders;
mod kinds;
mod late;
mod rig;
mod sampling;
mod streams;
mod trials;
