//! What the test programs of this crate share: data, watchdogs, links to test.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod end;
pub(crate) mod fabric;
pub(crate) mod footprint;
pub(crate) mod job;
#[cfg(feature = "mpi")]
pub(crate) mod mpi;
pub(crate) mod random;
pub(crate) mod stubborn;

use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use mgcomp_transport::message::{Limits, Secret};

pub(crate) use self::random::Random;

/// The secret of every job in the tests.
pub(crate) const SECRET: Secret = Secret::new(*b"a secret of 128b");

/// What every rank in the tests takes, where a test does not say otherwise.
pub(crate) const LIMITS: Limits =
    Limits { max_transfer_bytes: 256 << 20, window_bytes: 256 << 20, max_in_flight: 1 << 16 };

/// Nothing in the tests takes this long unless it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(120);
/// Longer: whoever waits in vain says itself what for.
const WATCHDOG: Duration = Duration::from_secs(150);

/// Runs `body` and fails if it does not end.
pub(crate) fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    if ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
        panic!("hangs: not over after {WATCHDOG:?}");
    }
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

/// Makes a test of each `part::test` for each link by its name: `on_every_link! { [part::test …] name: fabric; … }`.
#[allow(unused_macros, reason = "not every test program tests all links")]
macro_rules! on_every_link {
    (in $fabric:expr => [$($part:ident::$test:ident)*]) => {$(
        #[test]
        fn $test() {
            crate::common::watched(|| {
                if $fabric.is_possible() {
                    $part::$test($fabric);
                }
            });
        }
    )*};
    ($tests:tt $($(#[$condition:meta])* $name:ident: $fabric:expr;)*) => {$(
        $(#[$condition])*
        mod $name {
            use super::*;

            crate::common::on_every_link!(in $fabric => $tests);
        }
    )*};
}
#[allow(unused_imports, reason = "not every test program tests all links")]
pub(crate) use on_every_link;

/// Waits until `holds`, which must become true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANGS, "hangs: waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// `len` random bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// `len` bytes of the numbers from `first` on, as 32-bit words.
pub(crate) fn ramp(first: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| first.wrapping_add(i / 4).to_le_bytes()[i as usize % 4]).collect()
}

/// `len` bytes, mostly zero: one 32-bit word in eight is random.
pub(crate) fn sparse(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let word = |_| if random.below(8) == 0 { random.bits() as u32 } else { 0 };
    let mut bytes: Vec<u8> = (0..len.div_ceil(4)).map(word).flat_map(u32::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}
