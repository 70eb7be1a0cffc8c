//! What all ranks have to be told alike, and what was told to one of them that was not to another.
//!
//! That is all that changes what a row means. Ranks that are started by hand could else measure something that no flags
//! of theirs say. What says only how a rank takes part is its own: its device, where its data lies, whom it tells what was
//! measured, how long it waits. How long all takes is for rank 0 to decide, and how many connections two ranks have, for the
//! higher one.

use std::fmt;

use mgcomp_transport::communicator::{Communicator, CommunicatorError};

use super::agreement::{digest, texts_everywhere, words_everywhere};
use super::data::Data;
use super::options::{Args, Mode};

/// A flag, and what it was, or what was taken without it.
type Setting = (&'static str, String);

/// What the bytes of the data are, which is no flag.
const DIGEST: &str = "the digest of the data";

/// What of one rank is not what it is of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    flag: String,
    own: String,
    others: String,
}

/// Another rank that was told something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    pub(super) other: u32,
    pub(super) differences: Vec<Difference>,
}

/// What a rank of so many was told.
pub(super) fn told(args: &Args, ranks: usize, data: &Data) -> String {
    text(&settings(args, ranks, data))
}

/// The first rank that was [told](told) something else than this one, if there is any. Then there is one for every rank.
pub(super) fn disagreement(
    world: &Communicator,
    own: &str,
) -> Result<Option<Disagreement>, CommunicatorError> {
    let word = digest(own.as_bytes());
    if words_everywhere(world, word)?.iter().all(|&other| other == word) {
        return Ok(None);
    }
    let mut texts = (0..).zip(texts_everywhere(world, own)?);
    let found = texts.find(|(_, others)| *others != own);
    Ok(found.map(|(other, others)| Disagreement { other, differences: differences(own, &others) }))
}

fn settings(args: &Args, ranks: usize, data: &Data) -> Vec<Setting> {
    // A file may be called something else on another machine.
    let name = args.pattern_name().unwrap_or("a file");
    let modes: Vec<_> =
        args.modes().iter().map(|mode| if *mode == Mode::Raw { "raw" } else { "compressed" }).collect();
    let ops: Vec<_> = args.op.iter().map(|op| op.name()).collect();
    vec![
        ("--rank-file", format!("of {ranks} ranks")),
        ("--op", ops.join(",")),
        ("--reduction", args.reduction.to_string()),
        ("--ordered", said(args.ordered.then_some("given"))),
        ("--min", args.min.0.to_string()),
        ("--max", args.max.0.to_string()),
        ("--factor", args.factor.to_string()),
        ("--iters", said(args.iters)),
        ("--warmup", said(args.warmup)),
        ("--pause-us", args.pause_us.to_string()),
        ("--element", args.values().to_string()),
        ("--data or --pattern", name.to_owned()),
        ("--raw or --interleave", modes.join(" and ")),
        ("--policy", args.policy.to_string()),
        ("--lambda", said(args.lambda)),
        ("--link-gbps", said(args.link_gbps)),
        ("--latency-us", args.latency_us.to_string()),
        // As it was given: what is taken without it goes by the cores of each machine.
        ("--codec-threads", said(args.codec_threads)),
        // What is in a file, and what machines that may round otherwise have made of a pattern.
        (DIGEST, format!("{:016x}", data.digest())),
    ]
}

fn said(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "not given".to_owned(), |value| value.to_string())
}

/// A line for each.
fn text(settings: &[Setting]) -> String {
    let lines: Vec<_> = settings.iter().map(|(flag, value)| format!("{flag}\t{value}")).collect();
    lines.join("\n")
}

/// What is not the same in two texts.
fn differences(own: &str, others: &str) -> Vec<Difference> {
    let lines = |text: &str| {
        let line =
            |line: &str| line.split_once('\t').map(|(flag, value)| (flag.to_owned(), value.to_owned()));
        text.lines().filter_map(line).collect::<Vec<_>>()
    };
    let (own, others) = (lines(own), lines(others));
    // One may be of a version that knows flags that the other one does not.
    let of_one_alone = others.iter().filter(|(flag, _)| value_of(&own, flag).is_none());
    let flags = own.iter().chain(of_one_alone).map(|(flag, _)| flag);
    let mut differences: Vec<_> = flags
        .map(|flag| Difference {
            flag: flag.clone(),
            own: said(value_of(&own, flag)),
            others: said(value_of(&others, flag)),
        })
        .filter(|Difference { own, others, .. }| own != others)
        .collect();
    // No more of a pattern is made than is needed: other data may be all that other flags have led to.
    if differences.len() > 1 {
        differences.retain(|difference| difference.flag != DIGEST);
    }
    differences
}

fn value_of<'a>(lines: &'a [(String, String)], flag: &str) -> Option<&'a str> {
    lines.iter().find(|(other, _)| other == flag).map(|(_, value)| &value[..])
}

/// Differences as a sentence tells them.
pub(super) struct Told<'a> {
    pub(super) rank: u32,
    pub(super) other: u32,
    pub(super) differences: &'a [Difference],
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, other, differences } = self;
        for (index, Difference { flag, own, others }) in differences.iter().enumerate() {
            let gap = if index > 0 { "; " } else { "" };
            // What another rank has sent goes to a terminal.
            let [flag, others] = [flag, others].map(|text| text.escape_debug());
            write!(f, "{gap}{flag}: {others} on rank {other}, {own} on rank {rank}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn told(flags: &str) -> String {
        let args = Line::parse_from(flags.split_whitespace()).args;
        let data = args.load(2).unwrap();
        super::told(&args, 2, &data)
    }

    /// What is different of a rank with such flags.
    fn different(flags: &str) -> Vec<(String, String, String)> {
        let max = if flags.contains("--max") { "" } else { "--max 1K" };
        let differences = differences(&told("perf --max 1K"), &told(&format!("perf {max} {flags}")));
        differences.into_iter().map(|Difference { flag, own, others }| (flag, own, others)).collect()
    }

    #[test]
    fn all_that_changes_what_a_row_means_is_compared() {
        for (flags, flag, own, others) in [
            ("--op barrier,read", "--op", "all_reduce", "barrier,read"),
            ("--reduction max", "--reduction", "sum", "max"),
            ("--ordered", "--ordered", "not given", "given"),
            ("--min 1K", "--min", "8", "1024"),
            ("--factor 3", "--factor", "2", "3"),
            ("--max 2K", "--max", "1024", "2048"),
            ("--element i8", "--element", "f32", "i8"),
            ("--pattern zeros", "--data or --pattern", "normal", "zeros"),
            ("--iters 4", "--iters", "not given", "4"),
            ("--warmup 0", "--warmup", "not given", "0"),
            ("--pause-us 5", "--pause-us", "0", "5"),
            ("--raw", "--raw or --interleave", "compressed", "raw"),
            ("--interleave", "--raw or --interleave", "compressed", "raw and compressed"),
            ("--policy fixed:bdi", "--policy", "adaptive", "fixed:bdi"),
            ("--lambda 0", "--lambda", "not given", "0"),
            ("--link-gbps 2.5", "--link-gbps", "not given", "2.5"),
            ("--codec-threads 1", "--codec-threads", "not given", "1"),
        ] {
            assert_eq!(different(flags), [(flag.into(), own.into(), others.into())], "{flags}");
        }
        let differences = different("--link-gbps 1 --latency-us 7");
        assert_eq!(differences.last(), Some(&("--latency-us".into(), "0".into(), "7".into())));
    }

    #[test]
    fn what_is_a_ranks_own_is_not() {
        for flags in
            ["", "--timeout 3 --json", "--plot x.svg", "--seconds 3", "--device cuda:1 --op all_reduce"]
        {
            assert_eq!(different(flags), [], "{flags}");
        }
        assert_eq!(different("--min 8 --element f32 --pattern normal --latency-us 0 --link-gbps 1").len(), 1);
    }

    #[test]
    fn data_is_the_same_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let flags = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            format!("perf --max 1K --data {}/{name}", folder.path().display())
        };
        let one = told(&flags("one.f32.bin", b"12345678"));
        assert_eq!(differences(&one, &told(&flags("two.f32.bin", b"12345678"))), []);
        let found = differences(&one, &told(&flags("three.f32.bin", b"12345679")));
        assert!(found.len() == 1 && found[0].flag == DIGEST, "{found:?}");
    }

    #[test]
    fn a_rank_that_knows_less_is_told_of() {
        let told = differences("--op\tread\n--new\t1", "--op\twrite");
        let told = Told { rank: 0, other: 3, differences: &told }.to_string();
        assert_eq!(told, "--op: write on rank 3, read on rank 0; --new: not given on rank 3, 1 on rank 0");
        let told = differences("--op\tread", "--op\tread\n--\u{1b}[2Jnew\t\u{7}1");
        let told = Told { rank: 0, other: 3, differences: &told }.to_string();
        assert_eq!(told, "--\\u{1b}[2Jnew: \\u{7}1 on rank 3, not given on rank 0");
    }
}
