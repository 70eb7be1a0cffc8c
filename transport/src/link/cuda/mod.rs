//! From the memory of one CUDA device to that of another.
//!
//! [`copy`] has copies that are compressed on their way, enqueued as a plain copy between devices would be.

pub mod copy;
