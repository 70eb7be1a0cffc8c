//! A rank on shared memory among strangers, liars and the dead.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod bystanders;
mod members;
mod raw;
mod strangers;
#[cfg(feature = "cuda")]
mod windows;
