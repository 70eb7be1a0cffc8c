//! What was measured of a workload, beside what the paper prints of its benchmark.

use mgcomp_selector::{Lambda, table3};

use super::super::super::fabric::{CODECS, Outcome};
use super::super::super::generate::Bench;
use super::super::super::published::{LAMBDAS, TABLE_V, TABLE_VI, patterns};
use super::super::super::runs::{Done, Scheme};
use super::super::{Quantity, Report};

/// Nearer than this, ratios are not told one by one.
const NEAR_PERCENT: f64 = 10.0;
/// Half of the last digit of the entropies in Table V.
const ENTROPY_ROUNDING: f64 = 0.005;
/// In the order of ratios, and of [`CODECS`].
const NAMES: [&str; 3] = ["BDI", "FPC", "C-Pack+Z"];
/// In the order of Table VI.
const PATTERN_NAMES: [&str; 3] = ["FPC", "C-Pack+Z", "BDI"];

/// Sentences that hold for `done`.
pub(super) fn clauses(report: &Report, done: &Done, bench: Bench) -> Vec<String> {
    let table = [order(done, bench), ratios(done, bench)].into_iter().chain(entropy(done, bench));
    let runs = [codecs(report, done, bench)].into_iter().chain(adaptive(report, done, bench));
    table.chain([most_frequent(done, bench)]).chain(runs).collect()
}

fn order(done: &Done, bench: Bench) -> String {
    let (ours, paper) = (ordered(done.ratios), ordered(TABLE_V[bench as usize].ratios));
    if ours == paper {
        format!("the order of codecs is the paper's, {ours}.")
    } else {
        format!("the order of codecs is {ours}, the paper's {paper}.")
    }
}

/// The codecs from the best ratio to the worst. Those that tables show as the same are.
fn ordered(ratios: [f64; 3]) -> String {
    let shown = ratios.map(|ratio| (1000.0 * ratio).round() as u64);
    let mut order = [0, 1, 2];
    order.sort_by_key(|&codec| std::cmp::Reverse(shown[codec]));
    let mut text = NAMES[order[0]].to_owned();
    for pair in order.windows(2) {
        let sign = if shown[pair[0]] == shown[pair[1]] { '=' } else { '>' };
        text += &format!(" {sign} {}", NAMES[pair[1]]);
    }
    text
}

fn ratios(done: &Done, bench: Bench) -> String {
    let pairs = done.ratios.into_iter().zip(TABLE_V[bench as usize].ratios);
    let far: Vec<String> = NAMES
        .into_iter()
        .zip(pairs)
        .filter(|(_, (ours, paper))| is_far(*ours, *paper))
        .map(|(name, (ours, paper))| format!("{name} {ours:.2} for {paper:.2}"))
        .collect();
    if far.is_empty() {
        return format!("All ratios are within {NEAR_PERCENT} % of the paper's.");
    }
    format!("More than {NEAR_PERCENT} % off the paper's ratios: {}.", far.join(", "))
}

fn is_far(ours: f64, paper: f64) -> bool {
    (ours / paper - 1.0).abs() > NEAR_PERCENT / 100.0
}

fn entropy(done: &Done, bench: Bench) -> Option<String> {
    let (ours, paper) = (done.character.entropy(), TABLE_V[bench as usize].entropy);
    let is_other = is_far(ours, paper) && (ours - paper).abs() > ENTROPY_ROUNDING;
    is_other.then(|| format!("The entropy is {ours:.2}, the paper's {paper:.2}."))
}

/// The first pattern of each codec.
fn most_frequent(done: &Done, bench: Bench) -> String {
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for ((name, ours), entry) in
        PATTERN_NAMES.into_iter().zip(done.character.dominant()).zip(TABLE_VI[bench as usize])
    {
        let (Some(&(number, percent)), Some((paper, printed))) = (ours.first(), patterns(entry).next())
        else {
            continue;
        };
        // Several may be as frequent.
        if ours.iter().any(|&(also, share)| also == paper && share >= percent) {
            same.push(format!("{name} ({paper})"));
        } else {
            other.push(format!(
                "{name} ({number}) with {percent:.1} %, the paper's ({paper}) with {printed} %"
            ));
        }
    }
    match (same.is_empty(), other.is_empty()) {
        (_, true) => format!("The most frequent pattern of each codec is the paper's: {}.", same.join(", ")),
        (true, false) => format!("The most frequent patterns: {}.", other.join("; ")),
        (false, false) => {
            format!(
                "The most frequent patterns: {}; the paper's as well: {}.",
                other.join("; "),
                same.join(", ")
            )
        }
    }
}

/// Which codec alone does best, and which makes things worse.
fn codecs(report: &Report, done: &Done, bench: Bench) -> String {
    let shares = |quantity: Quantity| {
        std::array::from_fn(|codec| quantity.share(done, Scheme::Codec(codec), report.system()))
    };
    let (traffic, time): ([f64; 3], [f64; 3]) = (shares(Quantity::Traffic), shares(Quantity::Time));
    let sends = least(traffic).map_or("none sends less than no compression".to_owned(), |(names, share)| {
        format!("{names} {} least (traffic {share:.3})", verb(&names, "sends", "send"))
    });
    let done_first = least(time).map_or("none is done sooner".to_owned(), |(names, share)| {
        format!("{names} {} done first (time {share:.3})", verb(&names, "is", "are"))
    });
    let mut text = format!("Of the codecs alone, {sends}, and {done_first}.");
    let slow = (0..3).filter(|&codec| thousandths(time[codec]) > 1000);
    for codec in slow {
        let cycles = table3(CODECS[codec]).map_or(0, |cycles| cycles.compress);
        // The paper says so of this benchmark and codec alone.
        let too = if bench == Bench::Aes && NAMES[codec] == "C-Pack+Z" { ", as in the paper" } else { "" };
        text += &format!(
            " {} takes longer than no compression (time {:.3}; its compressor is busy for {cycles} cycles with each line){too}.",
            NAMES[codec], time[codec]
        );
    }
    text
}

/// As figures show them.
fn thousandths(share: f64) -> u64 {
    (1000.0 * share).round() as u64
}

/// The codecs with the least of these shares, if that is less than 1.
fn least(shares: [f64; 3]) -> Option<(String, f64)> {
    let least = shares.into_iter().fold(f64::INFINITY, f64::min);
    let names: Vec<&str> =
        (0..3).filter(|&i| thousandths(shares[i]) == thousandths(least)).map(|i| NAMES[i]).collect();
    (thousandths(least) < 1000).then(|| (names.join(" and "), least))
}

fn verb(names: &str, one: &'static str, several: &'static str) -> &'static str {
    if names.contains(" and ") { several } else { one }
}

/// What the adaptive scheme does at the λ that the paper's text is about, as far as they were run, or else at the
/// least λ.
fn adaptive(report: &Report, done: &Done, bench: Bench) -> Vec<String> {
    let outcome = |lambda| done.outcome(Scheme::Adaptive(lambda), report.system());
    let at = |gbps: f64| report.plan.lambdas.iter().copied().find(|lambda| lambda.gbps() == gbps);
    let mut lambdas: Vec<Lambda> = LAMBDAS.into_iter().filter_map(at).collect();
    if lambdas.is_empty() {
        lambdas.push(report.plan.central_lambda());
    }
    let mut sentences: Vec<String> =
        lambdas.iter().map(|&lambda| of_lambda(report, done, lambda, outcome(lambda))).collect();
    let [least, central, most] = LAMBDAS.map(at);
    if let (Some(least), Some(central)) = (least, central)
        && matches!(bench, Bench::Aes | Bench::Bs)
    {
        // Of these two the paper says that λ = 0 loses time.
        let time =
            |lambda| thousandths(Quantity::Time.share(done, Scheme::Adaptive(lambda), report.system()));
        let is_later = time(least) > time(central);
        sentences.push(if is_later {
            format!("λ = {least} is done later than λ = {central}, as in the paper.")
        } else {
            format!("λ = {least} is done no later than λ = {central}, where the paper has a loss of time.")
        });
    }
    if let Some(most) = most
        && let Some(codec @ ("FPC" | "C-Pack+Z")) = most_sent(outcome(most)).0
    {
        sentences.push(format!("λ = {most} picks {codec} here; the paper's nearly always picks BDI."));
    }
    sentences
}

fn of_lambda(report: &Report, done: &Done, lambda: Lambda, outcome: &Outcome) -> String {
    let scheme = Scheme::Adaptive(lambda);
    let share = |quantity: Quantity| quantity.share(done, scheme, report.system());
    let (name, percent) = most_sent(outcome);
    let traffic = |scheme| thousandths(Quantity::Traffic.share(done, scheme, report.system()));
    let is_least = (0..3).all(|codec| traffic(scheme) < traffic(Scheme::Codec(codec)));
    format!(
        "λ = {lambda} sends {} most often ({percent:.0} % of payloads): traffic {:.3}{}, time {:.3}.",
        name.unwrap_or("raw payloads"),
        share(Quantity::Traffic),
        if is_least { ", less than with any codec alone" } else { "" },
        share(Quantity::Time)
    )
}

/// The codec that most payloads were sent with, none for raw ones, and how many in percent. Ties go to the lower number.
fn most_sent(outcome: &Outcome) -> (Option<&'static str>, f64) {
    let mut best = (None, outcome.sent[0]);
    for (name, codec) in NAMES.into_iter().zip(CODECS) {
        let count = outcome.sent[usize::from(codec.number())];
        if count > best.1 {
            best = (Some(name), count);
        }
    }
    let all: u64 = outcome.sent.iter().sum();
    (best.0, 100.0 * best.1 as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_ties_where_tables_do() {
        assert_eq!(ordered([1.003, 1.007, 1.01]), "C-Pack+Z > FPC > BDI");
        assert_eq!(ordered([2.0, 2.0004, 3.0]), "C-Pack+Z > BDI = FPC");
        assert_eq!(ordered([1.0; 3]), "BDI = FPC = C-Pack+Z");
    }

    #[test]
    fn the_least_share_may_be_of_several() {
        assert_eq!(least([0.5, 0.25, 0.75]), Some(("FPC".into(), 0.25)));
        assert_eq!(least([0.25, 0.5, 0.25]), Some(("BDI and C-Pack+Z".into(), 0.25)));
        assert_eq!(least([1.0, 0.9997, 1.2]), None);
    }

    #[test]
    fn what_was_sent_most_is_counted() {
        let mut outcome = Outcome { sent: [1, 2, 5, 2], ..Outcome::default() };
        assert_eq!(most_sent(&outcome), (Some("FPC"), 50.0));
        outcome.sent = [2, 2, 0, 0];
        assert_eq!(most_sent(&outcome), (None, 50.0));
    }
}
