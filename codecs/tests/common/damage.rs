//! Ways to damage a frame, or a chunk alone.

use super::Random;

/// What happens to the frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    /// Up to four bits flipped.
    Bits,
    /// Up to four bytes set to telling values.
    Bytes,
    /// A stretch of the frame copied over another.
    Splice,
    /// A stretch left out, what follows moves up.
    Cut,
    /// A stretch repeated, what follows moves down.
    Repeat,
    /// A header byte set.
    Header,
    /// A table entry set, to another's value or close to it.
    Table,
    /// The front of a chunk, where its tags are.
    Tags,
}

pub(crate) const KINDS_OF_DAMAGE: [Damage; 8] = [
    Damage::Bits,
    Damage::Bytes,
    Damage::Splice,
    Damage::Cut,
    Damage::Repeat,
    Damage::Header,
    Damage::Table,
    Damage::Tags,
];

/// The kinds that know nothing of a frame.
pub(crate) const KINDS_OF_CHUNK_DAMAGE: [Damage; 6] =
    [Damage::Bits, Damage::Bytes, Damage::Splice, Damage::Cut, Damage::Repeat, Damage::Tags];

const TELLING: [u8; 8] = [0x00, 0xff, 0x80, 0x7f, 0x01, 0x10, 0x55, 0xfe];

/// Where tables of the sample frames end at the latest, and how far the tags of their first chunk reach.
const TABLE_END: usize = 48;
const TAGS_LEN: usize = 160;

/// A damaged copy of `frame`, which starts with a header and a table.
pub(crate) fn damage(random: &mut Random, frame: &[u8], kind: Damage) -> Vec<u8> {
    damage_behind(random, frame, kind, TABLE_END)
}

/// A damaged copy of the code of one chunk, which must not be empty.
pub(crate) fn damage_chunk(random: &mut Random, coded: &[u8], kind: Damage) -> Vec<u8> {
    damage_behind(random, coded, kind, 0)
}

/// Damage to `bytes`, whose tags start at `tags`.
fn damage_behind(random: &mut Random, bytes: &[u8], kind: Damage, tags: usize) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let len = bytes.len();
    let (from, to) = (random.below(len), random.below(len));
    let stretch = 1 + random.below(64).min(len - 1 - from.max(to));
    match kind {
        Damage::Bits => {
            (0..=random.below(4)).for_each(|_| damaged[random.below(len)] ^= 1 << random.below(8));
        }
        Damage::Bytes => {
            (0..=random.below(4)).for_each(|_| damaged[random.below(len)] = TELLING[random.below(8)]);
        }
        Damage::Splice => damaged.copy_within(from..from + stretch, to),
        Damage::Cut => drop(damaged.drain(from..from + stretch)),
        Damage::Repeat => {
            let again = bytes[from..from + stretch].to_vec();
            drop(damaged.splice(to..to, again));
        }
        Damage::Header => damaged[random.below(16)] = random.next() as u8,
        Damage::Table => {
            let entry = 16 + 4 * random.below((TABLE_END - 16) / 4);
            let other = 16 + 4 * random.below((TABLE_END - 16) / 4);
            damaged.copy_within(other..other + 4, entry);
            damaged[entry] = damaged[entry].wrapping_add(random.below(3) as u8);
        }
        Damage::Tags => {
            damaged[tags + random.below(TAGS_LEN.min(len - tags))] ^= random.next() as u8;
        }
    }
    damaged
}
