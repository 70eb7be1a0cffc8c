//! Ranks that are joined by TCP.

use std::net::TcpListener;

use mgcomp_transport::link::Link;
use mgcomp_transport::link::tcp::{RankFile, Tcp, TcpConfig};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::NodeConfig;

use super::super::error::PerfError;
use super::super::options::Args;
use super::QUEUE_BYTES;

/// A rank that waits to hear where the others are.
pub(super) struct Waiting {
    rank: u32,
    listener: TcpListener,
    /// Where others reach it.
    pub(super) address: String,
}

impl Waiting {
    /// Listens on this machine alone.
    pub(super) fn start(rank: u32) -> Result<Self, PerfError> {
        let failed = |source| PerfError::Process { rank, source };
        let listener = Tcp::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        Ok(Self { rank, listener, address })
    }

    /// The link to the others, who are at `addresses`.
    pub(super) fn link(
        self,
        addresses: Vec<String>,
        secret: Secret,
        args: &Args,
    ) -> Result<Box<dyn Link>, PerfError> {
        let rank_file = RankFile { secret, addresses };
        Ok(Box::new(Tcp::new(self.listener, rank_file, Rank(self.rank), config(args)?)?))
    }
}

/// The link of a rank of `rank_file`.
pub(super) fn link_by_hand(rank_file: RankFile, rank: u32, args: &Args) -> Result<Box<dyn Link>, PerfError> {
    Ok(Box::new(Tcp::listen(rank_file, Rank(rank), config(args)?)?))
}

fn config(args: &Args) -> Result<TcpConfig, PerfError> {
    Ok(TcpConfig {
        queue_bytes: QUEUE_BYTES,
        connect_timeout: args.timeout,
        shaping: args.shaping()?,
        connections: args.connections,
        ..TcpConfig::new(NodeConfig::default().limits)
    })
}
