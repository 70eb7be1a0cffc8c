//! Samples that were asked for and are not paid off yet.

use std::collections::VecDeque;

use mgcomp_codecs::Algorithm;

use super::LOST_AFTER;

/// Samples that are remembered.
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
    /// The part of it that the account for what is dear pays.
    pub(super) dear_ns: f64,
    /// Only looks for kinds of data that are known, and has an account of its own.
    pub(super) is_glance: bool,
}

/// Those that were asked for, by transfer. While nothing is known of a stream, several may be under way, and come back in any
/// order; some never do, and of some it is never heard what they took.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedSamples {
    samples: VecDeque<Entry>,
    /// Transfers that have passed.
    passed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    asked: Asked,
    /// How many transfers had passed when it was asked for.
    at: u32,
    /// Its estimates have come.
    came: bool,
}

impl AskedSamples {
    /// A transfer passes.
    pub(super) fn pass(&mut self) {
        self.passed = self.passed.wrapping_add(1);
    }

    pub(super) fn put(&mut self, asked: Asked) {
        if self.samples.len() == MOST {
            self.samples.pop_front();
        }
        self.samples.push_back(Entry { asked, at: self.passed, came: false });
    }

    /// The estimates of a transfer have come.
    pub(super) fn has_come(&mut self, raw_bytes: u64) -> Option<Asked> {
        let place = self.find(raw_bytes, false)?;
        let entry = self.samples.get_mut(place)?;
        entry.came = true;
        Some(entry.asked)
    }

    /// What the sample of a transfer took is known: it is forgotten.
    pub(super) fn pay_off(&mut self, raw_bytes: u64) -> Option<Asked> {
        let place = self.find(raw_bytes, true)?;
        self.samples.remove(place).map(|entry| entry.asked)
    }

    /// The one of a transfer: that was asked for first, but for those that are lost by now. Else these would be taken for later ones of
    /// the same length, and those for later ones still. Of lost ones, the last: it is late.
    fn find(&self, raw_bytes: u64, came: bool) -> Option<usize> {
        let is_it = |entry: &Entry| entry.came == came && entry.asked.raw_bytes == raw_bytes;
        let is_lost = |entry: &Entry| self.passed.wrapping_sub(entry.at) >= LOST_AFTER;
        let in_time = self.samples.iter().position(|entry| is_it(entry) && !is_lost(entry));
        in_time.or_else(|| self.samples.iter().rposition(is_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(raw_bytes: u64, sample_bytes: u64) -> Asked {
        Asked { raw_bytes, sample_bytes, before: None, expected_ns: 1.0, dear_ns: 0.0, is_glance: false }
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
    fn what_never_comes_back_is_not_taken_for_what_does() {
        let mut samples = AskedSamples::default();
        (0..1000).for_each(|bytes| samples.put(asked(bytes, bytes)));
        assert_eq!(samples.samples.len(), MOST);
        assert!(samples.has_come(0).is_none() && samples.has_come(999).is_some());
        let mut samples = AskedSamples::default();
        samples.put(asked(4096, 1));
        (0..LOST_AFTER).for_each(|_| samples.pass());
        samples.put(asked(4096, 2));
        assert_eq!(samples.has_come(4096), Some(asked(4096, 2)));
        // What is late is still told from others.
        samples.put(asked(600, 4));
        (0..LOST_AFTER).for_each(|_| samples.pass());
        assert_eq!(samples.has_come(600), Some(asked(600, 4)));
        // What is not paid off is not taken for others either.
        (0..LOST_AFTER).for_each(|_| samples.pass());
        samples.put(asked(4096, 3));
        assert_eq!(
            (samples.has_come(4096), samples.pay_off(4096)),
            (Some(asked(4096, 3)), Some(asked(4096, 3)))
        );
    }
}
