//! Ranks that work together, of which one is killed and comes back, again and again; see `mgcomp_tests::soak`.
//!
//! `soak [--seconds N] [--ranks N] [--seed N]`; without them 20 seconds, 4 ranks, and a seed of the clock.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgcomp_tests::soak::{self, Plan};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, rank] = &arguments[..]
        && mode == soak::RANK_ARGUMENT
    {
        return rank.parse().map_or(ExitCode::from(2), soak::rank);
    }
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let mut plan = Plan { duration: Duration::from_secs(20), ranks: 4, seed: clock };
    for pair in arguments.chunks(2) {
        let value = pair.get(1).and_then(|value| value.parse::<u64>().ok());
        match (pair[0].as_str(), value) {
            ("--seconds", Some(seconds)) => plan.duration = Duration::from_secs(seconds),
            ("--ranks", Some(ranks)) if (3..=16).contains(&ranks) => plan.ranks = ranks as usize,
            ("--seed", Some(seed)) => plan.seed = seed,
            _ => {
                eprintln!("soak: --seconds N, --ranks 3 to 16 or --seed N, not {}", pair.join(" "));
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
