//! What tests of copies between devices share: which ends there are, copiers of them, and slow links.

use mgcomp_codecs::device::{Buffer, Cache, Device, DeviceError, Stream};
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::Stub;
use mgcomp_transport::peer_copy::{CopyPath, PeerCopier, PeerCopyConfig};

pub(crate) const SEGMENT_BYTES: u64 = 20_000;
pub(crate) const GATE_BYTES: u64 = 100;
pub(crate) const MOST_BYTES: u64 = 150_000;

/// Which memory the two ends have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ends {
    Peers,
    /// Devices of which neither reaches the other.
    Strangers,
    Contexts,
    One,
}

impl Ends {
    pub(crate) const ALL: [Self; 4] = [Self::Peers, Self::Strangers, Self::Contexts, Self::One];

    pub(crate) fn open(self, stub: &Stub) -> [Device; 2] {
        stub.set("devices", 2);
        stub.set("no_peers", u64::from(self == Self::Strangers));
        let first = Device::open_with(0, Cache::Off).unwrap();
        let second = match self {
            Self::Peers | Self::Strangers => Device::open_with(1, Cache::Off),
            Self::Contexts => Device::open_apart(0, Cache::Off),
            Self::One => Ok(first.clone()),
        };
        [first, second.unwrap()]
    }

    pub(crate) fn is_direct(self) -> bool {
        matches!(self, Self::Peers | Self::One)
    }

    /// How bytes go that are coded with `algorithm`.
    pub(crate) fn path(self, algorithm: Algorithm) -> CopyPath {
        match (algorithm, self.is_direct()) {
            (Algorithm::None, _) if self == Self::Strangers => CopyPath::PlainThroughHost,
            (Algorithm::None, _) => CopyPath::Plain,
            (_, true) => CopyPath::Coded(algorithm),
            (_, false) => CopyPath::CodedThroughHost(algorithm),
        }
    }
}

pub(crate) fn config(policy: &str) -> PeerCopyConfig {
    PeerCopyConfig {
        policy: policy.parse().unwrap(),
        algorithms: AlgorithmSet::from_iter([Algorithm::Zvc, Algorithm::Bdi]),
        gate_bytes: GATE_BYTES,
        segment_bytes: SEGMENT_BYTES,
        most_bytes: MOST_BYTES,
        ..PeerCopyConfig::default()
    }
}

pub(crate) fn filled(device: &Device, stream: &Stream, bytes: &[u8]) -> Result<Buffer, DeviceError> {
    let buffer = device.alloc(bytes.len() as u64)?;
    stream.upload(bytes, buffer.region())?;
    Ok(buffer)
}

pub(crate) fn bytes_of(stream: &Stream, buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.region().len() as usize];
    stream.download(buffer.region(), &mut bytes).unwrap();
    bytes
}

/// Nothing known, as a program finds it; but the gate and the lengths of these tests.
pub(crate) fn as_it_comes() -> PeerCopyConfig {
    PeerCopyConfig { policy: PeerCopyConfig::default().policy, ..config("fixed:none") }
}

/// Copies sparse bytes again and again, and says how each went.
pub(crate) fn ways(
    copier: &mut PeerCopier,
    [from, to]: &[Device; 2],
    stream: &Stream,
    (len, times): (u64, u64),
) -> Vec<CopyPath> {
    let (source, into) = (from.alloc(len).unwrap(), to.alloc(len).unwrap());
    let copy = |round| {
        let raw = data::bytes(Kind::Sparse, len as usize, round % 3);
        stream.upload(&raw, source.region()).unwrap();
        let copy = copier.copy(stream, Element::U32, source.region(), into.region()).unwrap();
        assert!(bytes_of(stream, &into) == raw, "{round}");
        copy.path
    };
    (0..times).map(copy).collect()
}

/// A link of 1 Gb/s: 8.192 us for each KiB.
pub(crate) const SLOW_NS_PER_KIB: u64 = 8192;
