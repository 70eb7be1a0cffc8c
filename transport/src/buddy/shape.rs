//! Where the entries of an allocation lie, and which of them a range touches.

use std::ops::Range;

use super::form::{padded_len, slot_len, spill_len};
use super::{Form, Target};

/// An allocation's places in the two memories. They never change while it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) target: Target,
    /// Length in bytes, as asked for.
    pub(super) len: u64,
    /// Where the slots start in device memory, where the metadata does, and where the rest is in buddy memory.
    pub(super) device_at: u64,
    pub(super) metadata_at: u64,
    pub(super) buddy_at: u64,
}

/// Entries that are dealt with together, and the bytes of the allocation that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) entries: Range<u64>,
    pub(super) bytes: Range<u64>,
}

impl Shape {
    const fn entry_len(&self) -> u64 {
        self.form.entry_len() as u64
    }

    /// The first byte of entry `entry`.
    pub(super) const fn start(&self, entry: u64) -> u64 {
        entry * self.entry_len()
    }

    /// The byte behind entry `entry`, with the zeros that fill up the last one.
    pub(super) fn end(&self, entry: u64) -> u64 {
        padded_len(self.len).min(self.start(entry + 1))
    }

    /// Raw bytes of entry `entry`, whole units of 128.
    pub(super) fn raw_len(&self, entry: u64) -> usize {
        (self.end(entry) - self.start(entry)) as usize
    }

    /// The bytes of entry `entry` that have a place in device memory.
    pub(super) fn slot_len(&self, entry: u64) -> usize {
        slot_len(self.raw_len(entry), self.target)
    }

    /// Where its slot starts.
    pub(super) const fn slot_at(&self, entry: u64) -> u64 {
        self.device_at + entry * slot_len(self.form.entry_len(), self.target) as u64
    }

    /// Where its place in buddy memory starts.
    pub(super) const fn spill_at(&self, entry: u64) -> u64 {
        self.buddy_at + entry * spill_len(self.form.entry_len(), self.target) as u64
    }

    /// Whether `bytes` are all that entries `entries` have, filling included.
    pub(super) fn is_whole(&self, span: &Span) -> bool {
        span.bytes.start == self.start(span.entries.start) && span.bytes.end == self.end(span.entries.end - 1)
    }

    /// The pieces in which `range` is dealt with; of nothing none.
    pub(super) fn spans(&self, range: Range<u64>) -> impl Iterator<Item = Span> + use<> {
        let (entry_len, batch_len) = (self.entry_len(), self.entry_len() * self.form.batch() as u64);
        let first = range.start / batch_len;
        let end = if range.is_empty() { first } else { range.end.div_ceil(batch_len) };
        (first..end).map(move |batch| {
            let bytes = range.start.max(batch * batch_len)..range.end.min((batch + 1) * batch_len);
            Span { entries: bytes.start / entry_len..bytes.end.div_ceil(entry_len), bytes }
        })
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::*;

    fn shape(form: Form, target: Target, len: u64) -> Shape {
        Shape { form, target, len, device_at: 1000, metadata_at: 5000, buddy_at: 2000 }
    }

    #[test]
    fn entries_lie_at_fixed_places() {
        let shape = shape(Form::Bpc, Target::FourThirds, 1000);
        assert_eq!((shape.slot_at(3), shape.slot_len(3), shape.spill_at(3)), (1288, 96, 2096));
        assert_eq!((shape.raw_len(7), shape.end(7)), (128, 1024));
    }

    #[test]
    fn the_last_entry_may_be_shorter() {
        let shape = shape(Form::Xp(Element::F16), Target::Two, (32 << 10) + 300);
        assert_eq!((shape.slot_at(1), shape.slot_len(1), shape.spill_at(1)), (17_384, 192, 18_384));
        assert_eq!((shape.raw_len(0), shape.raw_len(1)), (32 << 10, 384));
    }

    #[test]
    fn ranges_fall_into_batches() {
        // Batches of 64 entries are 8192 bytes.
        let shape = shape(Form::Bpc, Target::Two, 20_000);
        let spans: Vec<Span> = shape.spans(8190..16_385).collect();
        let span = |entries, bytes| Span { entries, bytes };
        assert_eq!(
            spans,
            [span(63..64, 8190..8192), span(64..128, 8192..16_384), span(128..129, 16_384..16_385)]
        );
        assert_eq!(spans.iter().map(|span| shape.is_whole(span)).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(shape.spans(8190..8190).count(), 0);
        let tail = span(155..157, 19_840..20_096);
        assert!(shape.is_whole(&tail));
    }
}
