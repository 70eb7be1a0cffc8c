//! The two ends of a ring. Each keeps its own place to itself and believes of the other's only what can be.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::segment::{Direction, Segment, Word};

/// Places in a ring are multiples of this: a record that follows another shares no line of the cache with it.
pub(super) const LINE: usize = 64;

/// The other side is told of so many bytes at a time, so that both copy at once.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// The peer says that it is where it cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) claimed: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

/// Looks at where the peer says it is: between `least` and `most`, both multiples of a line.
fn place(claimed: u64, least: u64, most: u64) -> Result<u64, Misplaced> {
    let possible = (least..=most).contains(&claimed) && claimed.is_multiple_of(LINE as u64);
    if possible { Ok(claimed) } else { Err(Misplaced { claimed, least, most }) }
}

/// The end that writes.
pub(super) struct Writer {
    segment: Arc<Segment>,
    direction: Direction,
    /// Bytes written, whether or not the reader was told.
    written: u64,
    /// Bytes read, as far as known.
    read: u64,
}

impl Writer {
    pub(super) fn new(segment: Arc<Segment>, direction: Direction) -> Self {
        Self { segment, direction, written: 0, read: 0 }
    }

    /// Bytes there is room for; looks anew only if `wanted` are not known to be.
    pub(super) fn room(&mut self, wanted: usize) -> Result<usize, Misplaced> {
        let ring_bytes = self.segment.ring_bytes();
        let known = ring_bytes - (self.written - self.read) as usize;
        if known >= wanted {
            return Ok(known);
        }
        let claimed = self.segment.word(self.direction, Word::Read).load(Ordering::Acquire);
        self.read = place(claimed, self.read, self.written)?;
        Ok(ring_bytes - (self.written - self.read) as usize)
    }

    /// Writes `bytes`, for which there must be room, `offset` bytes on; past the caches if it `streams`.
    pub(super) fn put(&self, offset: usize, bytes: &[u8], streams: bool) {
        self.segment.write(self.direction, self.written + offset as u64, bytes, streams);
    }

    /// Tells the reader that there are `len` bytes more, a multiple of a line.
    pub(super) fn publish(&mut self, len: usize) {
        self.written += len as u64;
        self.segment.word(self.direction, Word::Written).store(self.written, Ordering::Release);
    }

    /// Whether the reader is to be woken, now that there is more to read. Says so once.
    pub(super) fn must_wake_reader(&self) -> bool {
        take(&self.segment, self.direction, Word::ReaderSleeps)
    }

    /// The reader was to be woken and was not: whoever writes next tries again, at the latest to ask whether the peer is still there.
    pub(super) fn let_reader_sleep(&self) {
        self.segment.word(self.direction, Word::ReaderSleeps).store(1, Ordering::SeqCst);
    }

    /// Says whether the reader has to wake this side when it makes room.
    pub(super) fn set_sleeping(&self, sleeping: bool) {
        self.segment.word(self.direction, Word::WriterSleeps).store(sleeping.into(), Ordering::SeqCst);
    }
}

/// The end that reads.
pub(super) struct Reader {
    segment: Arc<Segment>,
    direction: Direction,
    /// Bytes read.
    read: u64,
    /// Bytes read that the writer was told of.
    told: u64,
    /// Bytes written, as far as known.
    written: u64,
}

impl Reader {
    pub(super) fn new(segment: Arc<Segment>, direction: Direction) -> Self {
        Self { segment, direction, read: 0, told: 0, written: 0 }
    }

    /// Bytes that are there to be read; looks anew only if `wanted` are not known to be.
    pub(super) fn available(&mut self, wanted: usize) -> Result<usize, Misplaced> {
        let known = (self.written - self.read) as usize;
        if known >= wanted {
            return Ok(known);
        }
        let claimed = self.segment.word(self.direction, Word::Written).load(Ordering::Acquire);
        // The writer knows of no room beyond what it was told of.
        let most = self.told + self.segment.ring_bytes() as u64;
        self.written = place(claimed, self.written, most)?;
        Ok((self.written - self.read) as usize)
    }

    /// Whether the writer has said anything since this side looked last.
    pub(super) fn has_news(&self) -> bool {
        self.segment.word(self.direction, Word::Written).load(Ordering::Relaxed) != self.written
    }

    /// Copies what comes next, which must be there, without going on.
    pub(super) fn peek(&self, bytes: &mut [u8]) {
        self.segment.read(self.direction, self.read, bytes);
    }

    /// Adds the next `len` bytes, which must be there, to `bytes`, which must have room.
    pub(super) fn take(&mut self, len: usize, bytes: &mut Vec<u8>) {
        self.segment.append(self.direction, self.read, len, bytes);
        self.read += len as u64;
    }

    /// Fills `bytes` with what comes next, which must be there.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.segment.read(self.direction, self.read, bytes);
        self.read += bytes.len() as u64;
    }

    /// Goes on by `len` bytes, which must be there.
    pub(super) fn skip(&mut self, len: usize) {
        self.read += len as u64;
    }

    /// Goes on to the next line. Lines are written as a whole, so it is there.
    pub(super) fn skip_to_line(&mut self) {
        self.read = self.read.next_multiple_of(LINE as u64);
    }

    /// Whether the writer should hear of what was read, so that it writes while this side reads.
    pub(super) fn should_publish(&self) -> bool {
        (self.read - self.told) as usize >= PIECE_BYTES.min(self.segment.ring_bytes() / 4)
    }

    /// Tells the writer what was read, in whole lines. Returns whether it is to be woken.
    pub(super) fn publish(&mut self) -> bool {
        let told = self.read - self.read % LINE as u64;
        if told == self.told {
            return false;
        }
        self.told = told;
        self.segment.word(self.direction, Word::Read).store(told, Ordering::Release);
        take(&self.segment, self.direction, Word::WriterSleeps)
    }

    /// The writer was to be woken and was not: whoever reads next tries again, and whatever is sent to it wakes it, too.
    pub(super) fn let_writer_sleep(&self) {
        self.segment.word(self.direction, Word::WriterSleeps).store(1, Ordering::SeqCst);
    }

    /// Says whether the writer has to wake this side when there is more.
    pub(super) fn set_sleeping(&self, sleeping: bool) {
        self.segment.word(self.direction, Word::ReaderSleeps).store(sleeping.into(), Ordering::SeqCst);
    }
}

/// Whether the other side says that it sleeps, which is then no longer so.
///
/// Whoever goes to sleep says so and then looks at the ring a last time; whoever changes the ring does so and then
/// looks whether the other sleeps. The fence keeps both in this order, so one of the two sees the other.
fn take(segment: &Segment, direction: Direction, word: Word) -> bool {
    fence(Ordering::SeqCst);
    let word = segment.word(direction, word);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (Writer, Reader, Arc<Segment>) {
        let segment = Arc::new(Segment::create(4096).unwrap().0);
        let direction = Direction::ToMaker;
        (Writer::new(segment.clone(), direction), Reader::new(segment.clone(), direction), segment)
    }

    #[test]
    fn bytes_go_round_and_round() {
        let (mut writer, mut reader, _) = ring();
        for round in 0..100u8 {
            assert_eq!(writer.room(4096), Ok(4096));
            writer.put(0, &[round; 1000], false);
            writer.put(1000, &[!round; 1000], true);
            assert_eq!(reader.available(1), Ok(0), "not told yet");
            writer.publish(2048);
            assert_eq!(writer.room(4096), Ok(2048));
            assert_eq!(reader.available(1), Ok(2048));
            let mut front = [0; 3];
            reader.peek(&mut front);
            assert_eq!(front, [round; 3]);
            let mut bytes = Vec::with_capacity(2000);
            reader.take(2000, &mut bytes);
            assert_eq!(bytes, [[round; 1000], [!round; 1000]].concat());
            reader.skip_to_line();
            assert!(reader.should_publish());
            assert!(!reader.publish());
        }
    }

    #[test]
    fn sleepers_are_woken_once() {
        let (mut writer, mut reader, _) = ring();
        reader.set_sleeping(true);
        writer.publish(64);
        assert!(writer.must_wake_reader() && !writer.must_wake_reader());
        writer.set_sleeping(true);
        assert!(!reader.publish(), "nothing was read");
        assert_eq!(reader.available(64), Ok(64));
        reader.skip(64);
        assert!(reader.publish());
        writer.set_sleeping(true);
        writer.set_sleeping(false);
        writer.publish(64);
        assert_eq!(reader.available(64), Ok(64));
        reader.skip(64);
        assert!(!reader.publish());
    }

    #[test]
    fn places_that_cannot_be_are_seen() {
        let set = |segment: &Segment, word, value| {
            segment.word(Direction::ToMaker, word).store(value, Ordering::SeqCst);
        };
        for claimed in [4096 + 64, 1, 63, 65, u64::MAX, u64::MAX - 63, 1 << 63] {
            let (_, mut reader, segment) = ring();
            set(&segment, Word::Written, claimed);
            assert_eq!(reader.available(1), Err(Misplaced { claimed, least: 0, most: 4096 }));
        }
        for claimed in [192, 1, 127, u64::MAX, 1 << 63] {
            let (mut writer, _, segment) = ring();
            writer.publish(128);
            set(&segment, Word::Read, claimed);
            assert_eq!(writer.room(4096), Err(Misplaced { claimed, least: 0, most: 128 }));
        }
        // Nor may either go back.
        let (mut writer, mut reader, segment) = ring();
        writer.publish(128);
        assert_eq!(reader.available(1), Ok(128));
        reader.skip(128);
        reader.publish();
        assert_eq!(writer.room(4096), Ok(4096));
        set(&segment, Word::Read, 64);
        set(&segment, Word::Written, 64);
        writer.publish(64);
        set(&segment, Word::Read, 64);
        assert_eq!(writer.room(4096), Err(Misplaced { claimed: 64, least: 128, most: 192 }));
        set(&segment, Word::Written, 64);
        assert_eq!(reader.available(1), Err(Misplaced { claimed: 64, least: 128, most: 128 + 4096 }));
    }
}
