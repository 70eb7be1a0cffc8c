//! What happens to ranks on shared memory from outside: whoever waits for them hears of it, nobody else does, and nothing is
//! left.
//!
//! One test runs at a time: threads, descriptors and maps are counted. Peers that are killed or stopped are processes: this
//! program again.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

#[path = "../shm_hostile/bystanders.rs"]
mod bystanders;
#[path = "../shm_hostile/raw.rs"]
mod raw;

mod bells;
mod deaths;
mod peer;
mod process;
mod stalls;
mod strangers;

use common::fabric::{Fabric, shm_config};
use common::job::config;
use mgcomp_transport::node::NodeConfig;

use bystanders::Bystanders;

fn leaving_nothing(body: impl FnOnce() + Send + 'static) {
    common::footprint::leaving_nothing(Fabric::shm(), body);
}

/// Two ranks that wait for the others however long those take to start.
fn patient_job() -> Bystanders {
    job(&config())
}

/// The same with other settings.
fn job(config: &NodeConfig) -> Bystanders {
    Bystanders::start_with(config, shm_config(config.limits))
}

#[test]
#[ignore = "what the other tests start as a process"]
fn a_peer() {
    peer::act();
}
