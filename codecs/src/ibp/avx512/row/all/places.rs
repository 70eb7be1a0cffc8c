//! Where the kept bits of each byte are in tensors of which all granules participate.

use super::{AllGranules, LINE, Line, LineTable, Reach, WORD, unpack_of};
use crate::ibp::bits::ones;
use crate::ibp::plan::Plan;

impl AllGranules {
    /// For tensors with the invariant bits of `plan`.
    pub(in crate::ibp) fn new(plan: &Plan) -> Self {
        let kept = KeptBits::new(plan);
        let reach = kept.reach();
        let lines = 0..kept.len.div_ceil(LINE);
        let fields = lines.clone().flat_map(|line| (0..plan.scatter.count).map(move |field| (line, field)));
        Self {
            unpack: unpack_of(plan.scatter.count, reach),
            unpack_pair: unpack_of(plan.scatter.count, reach),
            participation: kept.participation(),
            bits: kept.before(kept.len),
            places: lines.clone().map(|line| kept.place(line) as u32).collect(),
            lines: lines.clone().map(|line| kept.line(plan, line)).collect(),
            fields: fields.map(|(line, field)| kept.field(plan, reach, line, field)).collect(),
        }
    }
}

/// Where the kept bits of each byte of a tensor are.
struct KeptBits {
    granule: usize,
    /// Bytes of all granules.
    len: usize,
    /// How many bits are kept of the granules before each, and in the end of all.
    sums: Vec<usize>,
}

impl KeptBits {
    fn new(plan: &Plan) -> Self {
        let mut sums = vec![0];
        for phase in (0..plan.period).step_by(plan.granule) {
            sums.push(sums[sums.len() - 1] + plan.keep(phase).count_ones() as usize);
        }
        Self { granule: plan.granule, len: plan.period, sums }
    }

    /// Kept bits of the granules before the one of a byte.
    fn before(&self, byte: usize) -> usize {
        self.sums[byte.min(self.len) / self.granule]
    }

    /// The byte of the kept bits that those of a line start in.
    fn place(&self, line: usize) -> usize {
        self.before(LINE * line) / 8
    }

    /// How far the kept bits lie apart.
    fn reach(&self) -> Reach {
        // Whether those of so many bytes are in eight.
        let near = |count: usize| {
            (0..self.len)
                .step_by(count)
                .all(|byte| self.before(byte + count) - self.before(byte) / 8 * 8 <= 64)
        };
        match (near(LINE), near(WORD)) {
            (true, _) => Reach::Line,
            (_, true) => Reach::Word,
            _ => Reach::Wide,
        }
    }

    fn participation(&self) -> Vec<u8> {
        let granules = self.len / self.granule;
        (0..granules).step_by(8).map(|first| ones((granules - first).min(8) as u32) as u8).collect()
    }

    fn line(&self, plan: &Plan, line: usize) -> Line {
        let word = |byte| self.before(byte / WORD * WORD);
        Line {
            bitvals: LineTable::of_line(line, |byte| usize::from(plan.lines[Plan::BITVALS][byte])),
            bytes: LineTable::of_line(line, |byte| word(byte) / 8 - self.place(line) + byte % WORD),
            shifts: LineTable::of_line(line, |byte| if byte % WORD == 0 { word(byte) % 8 } else { 0 }),
        }
    }

    /// Starts and keeps of one of the fields that scatter bits.
    fn field(&self, plan: &Plan, reach: Reach, line: usize, field: usize) -> [LineTable; 2] {
        let [starts, keeps] = [0, 1].map(|table| &plan.lines[plan.scatter.first + 2 * field + table]);
        let first = |byte| match reach {
            Reach::Line => 8 * self.place(line),
            Reach::Word => self.before(byte / WORD * WORD) / 8 * 8,
            Reach::Wide => self.before(byte / WORD * WORD),
        };
        let start = |byte: usize| (usize::from(starts[byte]) + self.before(byte) - first(byte)) % 64;
        [LineTable::of_line(line, start), LineTable::of_line(line, |byte| usize::from(keeps[byte]))]
    }
}
