//! The two ends of a connection. Each has a ring of slots, one for each request that may be under way; a slot goes from
//! stage to stage until NCCL has asked whether its request is done and was told so.

mod common;
mod receiving;
mod ring;
mod sending;

pub(crate) use receiving::{Arrived, Receiver, Receiving, Room};
pub(crate) use ring::{Ring, Stage};
pub(crate) use sending::{Sender, Sending};
