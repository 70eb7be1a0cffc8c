//! Settings of nodes, checked.
#![allow(unsafe_code)] // pointers of the program

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgcomp_selector::{PolicySpec, Steering};
use mgcomp_transport::attach::EnvSettings;
use mgcomp_transport::calibrate;
use mgcomp_transport::link::Link;
use mgcomp_transport::link::tcp::Connections;
use mgcomp_transport::message::Secret;
use mgcomp_transport::node::{Node, NodeConfig};

use super::Seat;
use super::ranks::mgcompNodeOptions;
use crate::error::Failure;
use crate::memory::{given, text};
use crate::number::flag;

/// Settings that were checked.
pub(super) struct Choice {
    pub(super) config: NodeConfig,
    /// With each peer, over TCP.
    pub(super) connections: Connections,
    policy: PolicySpec,
    steering: Steering,
}

impl Choice {
    /// # Safety
    /// If they are not NULL, options must be there.
    pub(super) unsafe fn new(options: *const mgcompNodeOptions) -> Result<Self, Failure> {
        let settings = EnvSettings::from_env().map_err(Failure::argument)?;
        let steering = Steering { lambda: settings.lambda, speeds: calibrate::speeds() };
        let (codec_threads, checksum) = (settings.codec_threads, settings.checksum);
        let config = NodeConfig { codec_threads, checksum, ..NodeConfig::default() };
        let connections = settings.connections.unwrap_or_default();
        let mut choice = Self { config, connections, policy: settings.policy, steering };
        // SAFETY: as for this one; any bits are options.
        if let Some(options) = unsafe { given("options", options) }? {
            // SAFETY: the header asks for a text, or NULL.
            unsafe { choice.take(&options) }?;
        }
        Ok(choice)
    }

    /// # Safety
    /// If it is not NULL, the policy must be a text.
    unsafe fn take(&mut self, options: &mgcompNodeOptions) -> Result<(), Failure> {
        if !options.policy.is_null() {
            // SAFETY: as for this one.
            let policy = unsafe { text("options.policy", options.policy) }?;
            self.policy = policy.parse().map_err(Failure::argument)?;
        }
        if options.connect_timeout_ns > 0 {
            self.config.greeting_timeout = Duration::from_nanos(options.connect_timeout_ns);
        }
        if options.silence_timeout_ns > 0 {
            self.config.silence_timeout = Duration::from_nanos(options.silence_timeout_ns);
        }
        if options.piece_bytes > 0 {
            self.config.piece_bytes = options.piece_bytes;
        }
        match options.codec_threads {
            0 => {}
            threads @ 1..=256 => self.config.codec_threads = threads as usize,
            threads => {
                let text = format!("options.codecThreads is {threads}: 1 to 256 are possible, or 0");
                return Err(Failure::argument(text));
            }
        }
        if flag("options.noChecksum", options.no_checksum)? {
            self.config.checksum = false;
        }
        Ok(())
    }

    pub(super) fn start(&self, link: Box<dyn Link>, secret: Secret) -> Result<Seat, Failure> {
        let config = NodeConfig { secret, ..self.config.clone() };
        let node = Node::start(link, self.policy.build(&self.steering), config)?;
        Ok(Seat {
            node: Arc::new(node),
            regions: Mutex::new(Some(BTreeMap::new())),
            lot: Arc::default(),
            has_world: AtomicBool::new(false),
        })
    }
}
