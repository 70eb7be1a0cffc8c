//! Ranks that work together, of which one is killed and comes back, again and again; see `mgcomp_tests::soak`.
//!
//! `soak [--seconds N] [--ranks N] [--link tcp|shm] [--seed N]`; without them 20 seconds, 4 ranks, TCP, and a seed of the
//! clock.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgcomp_tests::soak::{self, Plan, Way};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, rank, way] = &arguments[..]
        && mode == soak::RANK_ARGUMENT
        && let (Ok(rank), Ok(way)) = (rank.parse(), way.parse())
    {
        return soak::rank(rank, way);
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let mut plan = Plan { duration: Duration::from_secs(20), ranks: 4, way: Way::Tcp, seed: clock };
    for pair in arguments.chunks(2) {
        let value = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        let way = pair.get(1).and_then(|value| value.parse().ok());
        match (pair[0].as_str(), value) {
            ("--link", _) if way.is_some() => plan.way = way.unwrap_or(plan.way),
            ("--seconds", Some(seconds)) => plan.duration = Duration::from_secs(seconds),
            ("--ranks", Some(ranks)) if (3..=16).contains(&ranks) => plan.ranks = ranks as usize,
            ("--seed", Some(seed)) => plan.seed = seed,
            _ => {
                eprintln!(
                    "soak: --seconds N, --ranks 3 to 16, --link tcp or shm, or --seed N, not {}",
                    pair.join(" ")
                );
                return ExitCode::from(2);
            }
        }
    }
    match soak::run(&plan) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("soak: {error} (seed {})", plan.seed);
            ExitCode::FAILURE
        }
    }
}
