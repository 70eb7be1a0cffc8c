//! What is known of inputs: of those that are generated, and of those of the public programs that the paper's are versions of.

use super::super::super::generate::Bench;
use super::super::super::published::{TABLE_VI, patterns};
use super::super::super::runs::Done;

/// Columns of Table VI.
const FPC: usize = 0;
const BDI: usize = 2;

/// How the payloads of `done` were made up.
pub(super) fn of_generated(done: &Done, bench: Bench) -> Vec<String> {
    let mut about = vec![made(bench)];
    match bench {
        Bench::Fir => {
            let (reads, writes) = (done.character.reads, done.character.writes);
            let percent = 100.0 * writes as f64 / (reads + writes).max(1) as f64;
            about
                .push(format!("Outputs, {percent:.1} % of the transfers, are computed in single precision."));
        }
        Bench::Km => about.extend(zero_lines(done)),
        _ => {}
    }
    about
}

fn made(bench: Bench) -> String {
    match bench {
        Bench::Aes => {
            "Made of random bytes, and of arguments wherever a kernel starts; the paper's zero words (Table VI) say no more of where they \
were."
        }
        Bench::Bs => {
            "Only zero lines and the few words in others are known of the paper's payloads, so the places and values of those words are \
ours."
        }
        Bench::Fir => "Reads and writes follow from the program, and payloads are float32(i), its public input.",
        Bench::Gd => {
            "The authors' own program: parameters and gradients are read off Tables V and VI; that each group of wavefronts reads \
one array after the other, so that the adaptive scheme sees phases, is ours."
        }
        Bench::Km => {
            "BDI here has the smallest element as base, the paper's the first, which is mostly zero: on lines like the paper's ours would \
gain more than Table V has. So lines here hold two unlike values."
        }
        Bench::Mt => {
            "Made of small random integers, which the paper's tables point to; its input was not the public one, uint32(i)."
        }
        Bench::Sc => {
            let printed = printed(bench, BDI, 7);
            return format!(
                "Pixels are uint32(i), the public input of the time, and alone would give BDI more than Table V has; that partial sums are \
read back, once for each channel, is our reading of the paper's counts and of its {printed} % of lines with 2-byte deltas (Table VI); \
where the sums and masks were, and what they weighed, it does not say."
            );
        }
    }
    .to_owned()
}

/// What KM's lines are made up with to have the ratio of Table V, if it shows.
fn zero_lines(done: &Done) -> Option<String> {
    let [_, _, bdi] = done.character.dominant();
    let &(_, percent) = bdi.iter().find(|(number, _)| *number == 1)?;
    let printed = printed(Bench::Km, BDI, 1);
    let is_more = printed.parse().is_ok_and(|paper: f64| percent > paper);
    is_more.then(|| {
        format!("For the same reason more lines are zero, {percent:.1} % for {printed} % in Table VI.")
    })
}

/// What the public program moves in a newer simulator, beside what the paper's did.
pub(super) fn of_public(bench: Bench) -> String {
    match bench {
        Bench::Aes => {
            "the public program encrypts random bytes, and the paper's had the entropy of such. What a trace of it gains comes from code and \
arguments of kernels, which are a larger part of a short run and have less entropy."
        }
        Bench::Bs => {
            let zero_lines = printed(bench, BDI, 1);
            return format!(
                "the public program sorts uniformly random 32-bit keys, and those do not shrink; what does in a trace of it is mostly writes \
of parts of lines, whose other bytes the simulator sends as zeros. Of the paper's lines {zero_lines} % are zero (Table VI), so it sorted \
other keys, or its payloads were not the keys."
            );
        }
        Bench::Fir => {
            "the public program filters float32(i), and so did the paper's by its tables. How near such neighbours are depends on i: from 2^19 \
on BDI needs deltas of one byte (pattern 6), below that of two (7), so in a shorter run more samples need two. Caches that hold repeated \
reads back make outputs weigh more, too."
        }
        Bench::Gd => {
            "the public simulator has no such program, and what another one computes need not be like the paper's."
        }
        Bench::Km => {
            let zero_words = printed(bench, FPC, 2);
            return format!(
                "the public program clusters uniformly random float32 features, and those hardly shrink. Of the paper's words {zero_words} % \
are zero (Table VI), so it had another input."
            );
        }
        Bench::Mt => {
            "the public program turns uint32(i): FPC has no pattern for most numbers from 2^15 on, while BDI takes deltas of one byte along \
rows, and larger ones across them. The paper's patterns are those of small random integers, which FPC codes best."
        }
        Bench::Sc => {
            "the public program had pixels uint32(i) when the paper was written, and the paper's tables fit those; since then they are all ones, \
which all three codecs shrink. Of uint32(i), a smaller image has more of the numbers below 2^15 that FPC has a pattern for, and caches that \
hold overlapping reads back make sums and outputs weigh more."
        }
    }
    .to_owned()
}

/// The share in percent that Table VI prints for a pattern, which is among the first three.
fn printed(bench: Bench, column: usize, number: usize) -> &'static str {
    let mut all = patterns(TABLE_VI[bench as usize][column]);
    all.find(|(other, _)| *other == number).map_or("<1", |(_, percent)| percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_table_vi_are_those_that_are_meant() {
        let all = [(Bench::Bs, BDI, 1), (Bench::Km, FPC, 2), (Bench::Km, BDI, 1), (Bench::Sc, BDI, 7)];
        assert_eq!(
            all.map(|(bench, column, number)| printed(bench, column, number)),
            ["89", "86", "18", "8"]
        );
    }
}
