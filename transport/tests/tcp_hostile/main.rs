//! A rank on TCP among strangers, liars and the dead.

#[path = "../common/mod.rs"]
mod common;

mod bystanders;
mod connecting;
mod joins;
mod listening;
mod members;
mod offers;
mod raw;
mod silence;
mod strangers;
