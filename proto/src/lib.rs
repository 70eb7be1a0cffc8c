//! The control interface of `mgcomp-daemon`: messages, client and server, generated from
//! `mgcomp/v1/control.proto`, where every field is explained.
//!
//! The generated code is kept beside the definition, so building needs no protoc. A test generates it anew and
//! compares; `MGCOMP_PROTO=write cargo test -p mgcomp-proto` renews it.
//!
//! Clients need the feature `client`, and some stream to the daemon for a `Channel`.
//!
//! ```
//! use mgcomp_proto::v1::Scope;
//!
//! let peer = Scope { job: "train-7".into(), peer: Some(3), stream: None };
//! assert!(peer.stream.is_none());
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod channel;

#[cfg(feature = "client")]
pub use channel::Channel;

/// Version 1 of the interface.
#[allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all, clippy::pedantic, reason = "generated")]
pub mod v1 {
    include!("generated/mgcomp.v1.rs");
}

/// The definition as a `FileDescriptorSet`, for reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("generated/mgcomp.v1.bin");
