//! Samples that were asked for and are not paid off yet.

use std::collections::VecDeque;

use mgcomp_codecs::Algorithm;

/// Samples that are remembered: more are asked for at once only of a stream that nothing is known of.
const MOST: usize = 16;

/// A sample that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    /// Of a transfer of so many bytes.
    pub(super) raw_bytes: u64,
    /// Bytes that it looks at.
    pub(super) sample_bytes: u64,
    /// What it is to confirm.
    pub(super) before: Option<Algorithm>,
    /// What it was expected to take, in nanoseconds.
    pub(super) expected_ns: f64,
    /// The part of it that is dear.
    pub(super) dear_ns: f64,
}

/// Those that were asked for, by transfer. Several may be under way, and come back in any order.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedSamples {
    /// With whether its estimates have come.
    samples: VecDeque<(Asked, bool)>,
}

impl AskedSamples {
    pub(super) fn put(&mut self, asked: Asked) {
        if self.samples.len() == MOST {
            self.samples.pop_front(); // its transfer was lost
        }
        self.samples.push_back((asked, false));
    }

    /// The estimates of a transfer have come.
    pub(super) fn has_come(&mut self, raw_bytes: u64) -> Option<Asked> {
        let awaited = self.samples.iter_mut().find(|(asked, came)| !came && asked.raw_bytes == raw_bytes);
        awaited.map(|(asked, came)| {
            *came = true;
            *asked
        })
    }

    /// What the sample of a transfer took is known: it is forgotten.
    pub(super) fn pay_off(&mut self, raw_bytes: u64) -> Option<Asked> {
        let place = self.samples.iter().position(|(asked, came)| *came && asked.raw_bytes == raw_bytes)?;
        self.samples.remove(place).map(|(asked, _)| asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(raw_bytes: u64, sample_bytes: u64) -> Asked {
        Asked { raw_bytes, sample_bytes, before: None, expected_ns: 1.0, dear_ns: 0.0 }
    }

    #[test]
    fn samples_are_found_again_by_their_transfers_in_any_order() {
        let mut samples = AskedSamples::default();
        let all = [asked(1 << 20, 65_536), asked(4096, 4096), asked(1 << 20, 8192)];
        all.into_iter().for_each(|asked| samples.put(asked));
        assert_eq!(samples.has_come(4096), Some(all[1]));
        assert_eq!(samples.has_come(4096), None, "there was one");
        assert_eq!(samples.pay_off(1 << 20), None, "it has not come");
        assert_eq!(samples.has_come(1 << 20), Some(all[0]));
        assert_eq!((samples.pay_off(1 << 20), samples.pay_off(1 << 20)), (Some(all[0]), None));
        assert_eq!(samples.has_come(1 << 20), Some(all[2]));
        assert_eq!(samples.pay_off(4096), Some(all[1]));
    }

    #[test]
    fn what_never_comes_back_is_forgotten() {
        let mut samples = AskedSamples::default();
        (0..1000).for_each(|bytes| samples.put(asked(bytes, bytes)));
        assert_eq!(samples.samples.len(), MOST);
        assert!(samples.has_come(0).is_none() && samples.has_come(999).is_some());
    }
}
