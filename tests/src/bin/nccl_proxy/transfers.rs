//! What goes right.
#![allow(unsafe_code)] // memory that is lent to the plugin

use std::fs;
use std::path::{Path, PathBuf};

use mgcomp_nccl_net::abi::OPTIONAL_RECV_COMPLETION;
use mgcomp_tests::data::{Kind, bytes};
use mgcomp_tests::pages::until_taken;
use mgcomp_tests::proxy::relay::{Fault, Relay};
use mgcomp_tests::proxy::transfer::{Plan, cut, exchange};
use mgcomp_tests::proxy::{Plugin, connected, library, lines};

use super::Outcome;

/// All-reduce, by its bit, as `setNetAttr` says it; and a send.
const ALL_REDUCE: u32 = 1 << 4;
const SEND_RECV: u32 = 1 << 5;
/// Protocols.
const LL: u32 = 1;
const SIMPLE: u32 = 1 << 2;

/// A tensor of the repository.
pub(crate) fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/cli/samples");
    fs::read(folder.join(name)).expect("the sample is there")
}

/// Two plugins in one process, each loaded from a file of its own, so that they share nothing.
pub(crate) struct Two {
    pub(crate) plugins: [Plugin; 2],
    copy: PathBuf,
}

impl Two {
    pub(crate) fn start(version: u32) -> Result<Self, Box<dyn std::error::Error>> {
        let copy = std::env::temp_dir().join(format!("mgcomp-nccl-{}.so", std::process::id()));
        fs::copy(library(), &copy)?;
        let plugins = [library(), copy.clone()].map(|path| Plugin::start(&path, version, 77));
        let [first, second] = plugins;
        Ok(Self { plugins: [first?, second?], copy })
    }

    pub(crate) fn finalize(&self) -> Result<(), Box<dyn std::error::Error>> {
        Ok(self.plugins.iter().try_for_each(|plugin| plugin.finalize())?)
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        // It lies where such things are cleared away.
        let _ = fs::remove_file(&self.copy);
    }
}

/// What each version is like to NCCL.
pub(crate) fn versions() -> Outcome {
    for version in 8..=12 {
        let plugin = Plugin::start(&library(), version, 1)?;
        let loaded = plugin.loaded();
        assert_eq!((loaded.version(), loaded.name().as_str()), (version, "mgcomp"));
        // SAFETY: the plugin is started.
        let (devices, facts) = unsafe { (loaded.devices()?, loaded.facts(0)?) };
        assert!(devices >= 1);
        assert_eq!((facts.ptr_support, facts.device, facts.pci_path.0), (1, 0, std::ptr::null()));
        assert!(facts.speed_mbps > 0 && facts.max_comms > 1000 && facts.max_bytes >= 1 << 30);
        assert_eq!(mgcomp_nccl_net::abi::loaded::text(facts.name), "lo");
        // SAFETY: as above.
        assert!(unsafe { loaded.facts(devices as i32) }.is_err(), "there is no such device");
        plugin.finalize()?;
    }
    Ok(String::new())
}

/// The longest message that the first device takes.
pub(crate) fn longest() -> Outcome {
    let plugin = Plugin::start(&library(), 12, 1)?;
    // SAFETY: the plugin is started.
    let facts = unsafe { plugin.loaded().facts(0) }?;
    plugin.finalize()?;
    Ok(facts.max_bytes.to_string())
}

/// Real tensors in slices of all lengths that NCCL uses; says how many bytes went over the network for 1,000.
pub(crate) fn slices(version: &str) -> Outcome {
    let two = Two::start(version.parse()?)?;
    let [from, to] = two.plugins;
    let (mut raw, mut passed) = (0, 0);
    from.set_kind(ALL_REDUCE, SIMPLE)?;
    to.set_kind(ALL_REDUCE, SIMPLE)?;
    for slice in [1 << 20, 512 << 10, 128 << 10, 64 << 10] {
        let mut relay = None;
        let (sender, receiver) =
            connected(from, to, |handle| relay = Some(Relay::before(handle, Fault::None)))?;
        for name in ["weights.bf16.bin", "relu.f32.bin", "edges.i64.bin"] {
            // More than the slots hold at once.
            let data = sample(name).repeat(if slice > 128 << 10 { 20 } else { 4 });
            exchange(sender, receiver, &data, Plan { slice, marker: 0 })?;
            raw += data.len() as u64;
        }
        sender.close_send()?;
        receiver.close_recv()?;
        passed += relay.map_or(0, |relay| relay.passed());
    }
    two.finalize()?;
    Ok((passed * 1000 / raw).to_string())
}

/// What codecs make of it makes no difference, and neither does the length.
pub(crate) fn kinds(version: &str) -> Outcome {
    let two = Two::start(version.parse()?)?;
    let [from, to] = two.plugins;
    let (sender, receiver) = connected(from, to, |_| ())?;
    for (op, proto) in [(ALL_REDUCE, SIMPLE), (SEND_RECV, LL), (ALL_REDUCE, LL)] {
        from.set_kind(op, proto)?;
        to.set_kind(op, proto)?;
        for (kind, marker) in [Kind::Mixed, Kind::Dense].into_iter().zip([0, OPTIONAL_RECV_COMPLETION]) {
            for slice in [1, 7, 8, 100, 4096, 65_537, 200_000] {
                let data = bytes(kind, slice * 25, slice as u64);
                exchange(sender, receiver, &data, Plan { slice, marker })?;
            }
        }
    }
    // Messages without a byte, which NCCL sends where a rank has nothing.
    let request = |request: Option<_>| request.expect("there is room");
    // SAFETY: there are no bytes.
    let (sent, received) = unsafe {
        let nothing = std::ptr::null_mut();
        (request(sender.send(nothing, 0)?), request(receiver.receive(nothing, 0, 0)?))
    };
    for (end, request) in [(sender, sent), (receiver, received)] {
        assert_eq!(mgcomp_tests::proxy::poll("nothing", || end.test(request))?, 0);
    }
    sender.close_send()?;
    receiver.close_recv()?;
    two.finalize()?;
    Ok(String::new())
}

/// Messages that codecs may see and others that they may not; says how many there were, and how long all were together.
pub(crate) fn counts() -> Outcome {
    let two = Two::start(12)?;
    let [from, to] = two.plugins;
    let (sender, receiver) = connected(from, to, |_| ())?;
    let (data, slice) = (sample("weights.bf16.bin"), 128 << 10);
    let (mut messages, mut bytes) = (0, 0);
    for (op, proto) in [(ALL_REDUCE, SIMPLE), (ALL_REDUCE, LL), (SEND_RECV, LL)] {
        from.set_kind(op, proto)?;
        to.set_kind(op, proto)?;
        exchange(sender, receiver, &data, Plan { slice, marker: 0 })?;
        messages += cut(data.len(), slice).len();
        bytes += data.len();
    }
    sender.close_send()?;
    receiver.close_recv()?;
    until_taken();
    two.finalize()?;
    Ok(format!("{messages} {bytes}"))
}

/// Memory that is looked at while it is received: said to be so, not said, and said not to be so.
pub(crate) fn lines(version: &str) -> Outcome {
    let two = Two::start(version.parse()?)?;
    let [from, to] = two.plugins;
    let (sender, receiver) = connected(from, to, |_| ())?;
    for (op, proto) in [(ALL_REDUCE, LL), (SEND_RECV, SIMPLE), (ALL_REDUCE, SIMPLE)] {
        from.set_kind(op, proto)?;
        to.set_kind(op, proto)?;
        for words in [2, 512, 8192] {
            lines::exchange(sender, receiver, 24, words, OPTIONAL_RECV_COMPLETION)?;
        }
        // Longer than such messages are. The receiver is not told what they are.
        if (op, proto) != (ALL_REDUCE, SIMPLE) {
            lines::exchange(sender, receiver, 12, 20_000, OPTIONAL_RECV_COMPLETION)?;
        }
    }
    sender.close_send()?;
    receiver.close_recv()?;
    two.finalize()?;
    Ok(String::new())
}
