//! Words that streams wait for.

use mgcomp_codecs::device::DeviceError;
use mgcomp_tests::stub::{Libraries, ends, with_stub};

use crate::rig::{self, download};

#[test]
fn a_stream_waits_for_a_count() {
    with_stub("signals::a_stream_waits_for_a_count", Libraries::DriverAndCompiler, |stub| {
        for seed in 0..10 {
            stub.set("threads", seed);
            let device = rig::open();
            let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
            let words = device.alloc(16).unwrap();
            let [count, data] = [0, 8].map(|offset| words.region().word(offset));
            first.zero(words.region()).unwrap();
            first.wait().unwrap();
            // The count runs over.
            first.post(count, u32::MAX).unwrap();
            first.wait().unwrap();
            second.wait_for(count, u32::MAX - 5).unwrap();
            second.wait_for(count, 1).unwrap();
            second.copy(data.region(), count.region()).unwrap();
            first.upload(&[9; 8], data.region()).unwrap();
            first.post(count, 2).unwrap();
            assert_eq!(download(&second, count.region()).unwrap(), [9; 8], "seed {seed}");
        }
    });
}

#[test]
fn counts_are_aligned_words_of_the_device() {
    with_stub("signals::counts_are_aligned_words_of_the_device", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let words = device.alloc(16).unwrap();
        let odd = words.slice(4..16).word(0);
        let misaligned = |address| DeviceError::Misaligned { what: "a count", address, align: 8 };
        assert_eq!(stream.post(odd, 1), Err(misaligned(odd.address())));
        assert_eq!(stream.wait_for(odd, 1), Err(misaligned(odd.address())));
        let error = stream.capture(|| stream.wait_for(words.region().word(0), 1)).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { code: 900, .. }), "{error}");
    });
}

#[test]
fn a_count_that_nobody_writes_is_found() {
    let test = "signals::a_count_that_nobody_writes_is_found";
    ends(test, "a stream waits for a value that nothing will write", |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let words = device.alloc(8).unwrap();
        let word = words.region().word(0);
        stream.zero(words.region()).unwrap();
        stream.wait_for(word, 1).unwrap();
        // Too late: behind what waits.
        stream.post(word, 1).unwrap();
        stream.wait().unwrap();
    });
}

#[test]
fn streams_that_wait_for_each_other_are_found() {
    let test = "signals::streams_that_wait_for_each_other_are_found";
    ends(test, "streams wait for each other", |_| {
        let device = rig::open();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let words = device.alloc(8).unwrap();
        let word = words.region().word(0);
        first.zero(words.region()).unwrap();
        first.wait_for(word, 1).unwrap();
        second.follow(&first).unwrap();
        second.post(word, 1).unwrap();
        first.wait().unwrap();
    });
}
