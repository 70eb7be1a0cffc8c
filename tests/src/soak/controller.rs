//! Starts the ranks, kills one of them again and again, and judges what the others say.

use std::fmt;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::footprint::{Footprint, growth_kib, is_flat};
use super::process::Process;
use super::way::Way;
use crate::data::Random;

/// In which time a rank must have noticed that another is gone. Where that dies while they meet, the others try to
/// reach it for a while, and wait for its hello for as long; on a busy machine all of it takes longer.
const NOTICED: Duration = Duration::from_secs(120);
/// How long a rank may take for anything else.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the lines of ranks are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// For how long; the generation at hand is finished then.
    pub duration: Duration,
    /// Ranks, at least three.
    pub ranks: usize,
    /// The link between them.
    pub way: Way,
    /// Of everything that is random.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Report {
    plan: Plan,
    kills: u64,
    /// Of those, such that hit a rank before all had met.
    early: u64,
    /// Operations of all ranks together.
    steps: u64,
    slowest: Duration,
    /// What that rank said.
    slowest_says: String,
    /// Of rank 0, between generations.
    footprints: Vec<Footprint>,
    growth_kib: Option<u64>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoakError {
    /// A process cannot be started, told something or killed.
    #[error("a process: {0}")]
    Process(#[from] io::Error),
    /// A rank does not say what it should.
    #[error("rank {rank} said nothing in time, but {awaited} was to come")]
    Silent {
        /// Which.
        rank: usize,
        /// What it should have said.
        awaited: &'static str,
    },
    /// A rank says what it should not, such as that bytes are wrong.
    #[error("rank {rank} said: {line}")]
    Unexpected {
        /// Which.
        rank: usize,
        /// What it said.
        line: String,
    },
    /// A rank has more than at first.
    #[error("rank {rank} leaks: RSS in KiB, threads, descriptors are {now}, after {before} at first")]
    Leak {
        /// Which.
        rank: usize,
        /// What it has.
        now: Footprint,
        /// What it had.
        before: Footprint,
    },
    /// Rank 0 takes more and more memory.
    #[error("rank 0 grew by {growth_kib} KiB from the second to the last quarter")]
    Growth {
        /// By how much.
        growth_kib: u64,
    },
    /// No operation was ever finished.
    #[error("the ranks did nothing")]
    Idle,
}

/// Runs ranks and kills them as `plan` says.
///
/// # Errors
/// [`SoakError`] if anything is not as it should be.
pub fn run(plan: &Plan) -> Result<Report, SoakError> {
    let Plan { duration, ranks, way, seed } = *plan;
    println!("soak: {ranks} ranks over {}, {} s, seed {seed}", way.name(), duration.as_secs());
    let started = Instant::now();
    let mut soak = Soak {
        random: Random::new(seed),
        members: (0..ranks).map(|rank| Member::start(rank, way)).collect::<Result<_, _>>()?,
        report: Report {
            plan: *plan,
            kills: 0,
            early: 0,
            steps: 0,
            slowest: Duration::ZERO,
            slowest_says: String::new(),
            footprints: Vec::new(),
            growth_kib: None,
        },
    };
    while started.elapsed() < duration {
        soak.generation()?;
    }
    soak.end()
}

struct Soak {
    random: Random,
    members: Vec<Member>,
    report: Report,
}

/// A rank, and what it had when it was first looked at.
struct Member {
    process: Process,
    first: Option<Footprint>,
}

impl Member {
    fn start(rank: usize, way: Way) -> Result<Self, SoakError> {
        Ok(Self { process: Process::start(rank, way)?, first: None })
    }
}

impl Soak {
    /// Lets the ranks work together, kills one, waits until the others have noticed, and starts it again.
    fn generation(&mut self) -> Result<(), SoakError> {
        self.begin()?;
        let is_early = self.random.percent(25);
        let (least, most) = if is_early { (0, 60) } else { (200, 2500) };
        let lasting = Duration::from_millis((least + self.random.below(most - least)) as u64);
        self.watch(lasting)?;

        let victim = 1 + self.random.below(self.members.len() - 1);
        let mut killed = Member::start(victim, self.report.plan.way)?;
        std::mem::swap(&mut killed, &mut self.members[victim]);
        killed.process.kill()?;
        let at = Instant::now();
        self.report.kills += 1;
        self.report.early += u64::from(is_early);
        for rank in (0..self.members.len()).filter(|&rank| rank != victim) {
            self.survive(rank, at)?;
        }
        Ok(())
    }

    /// Tells all ranks of each other.
    fn begin(&mut self) -> Result<(), SoakError> {
        let mut addresses = Vec::new();
        for member in &self.members {
            let until = Instant::now() + PATIENCE;
            addresses.push(member.process.line("LISTENING", until, &mut self.report.steps)?.1);
        }
        let seed = self.random.bits();
        let secret = format!("{:016x}{:016x}", self.random.bits(), self.random.bits());
        let lines = format!("{seed}\n{{ \"secret\": \"{secret}\", \"ranks\": {addresses:?} }}\n");
        self.members.iter_mut().try_for_each(|member| Ok(member.process.tell(&lines)?))
    }

    /// Nothing may go wrong while all ranks live.
    fn watch(&mut self, lasting: Duration) -> Result<(), SoakError> {
        let started = Instant::now();
        while started.elapsed() < lasting {
            thread::sleep(LOOK.min(lasting));
            self.members.iter().try_for_each(|member| member.process.count_steps(&mut self.report.steps))?;
        }
        Ok(())
    }

    /// Waits until `rank` has noticed that one was killed at `at`, and looks at what it has left.
    fn survive(&mut self, rank: usize, at: Instant) -> Result<(), SoakError> {
        let member = &mut self.members[rank];
        let (noticed, error) = member.process.line("FAILED", at + NOTICED, &mut self.report.steps)?;
        let after = noticed.saturating_duration_since(at);
        if after >= self.report.slowest {
            (self.report.slowest, self.report.slowest_says) = (after, format!("rank {rank}: {error}"));
        }
        let (_, now) = member.process.line("QUIET", noticed + PATIENCE, &mut self.report.steps)?;
        let now: Footprint = now.parse().map_err(|_| SoakError::Unexpected { rank, line: now })?;
        let before = *member.first.get_or_insert(now);
        if now.threads > 1 || now.descriptors > before.descriptors {
            return Err(SoakError::Leak { rank, now, before });
        }
        if rank == 0 {
            self.report.footprints.push(now);
        }
        Ok(())
    }

    /// Lets the ranks go, and judges.
    fn end(mut self) -> Result<Report, SoakError> {
        for member in self.members {
            member.process.line("LISTENING", Instant::now() + PATIENCE, &mut self.report.steps)?;
            member.process.leave()?;
        }
        if self.report.steps == 0 {
            return Err(SoakError::Idle);
        }
        self.report.growth_kib = growth_kib(&self.report.footprints);
        match self.report.growth_kib.filter(|&growth_kib| !is_flat(growth_kib)) {
            Some(growth_kib) => Err(SoakError::Growth { growth_kib }),
            None => Ok(self.report),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, kills, early, steps, slowest, slowest_says, footprints, growth_kib } = self;
        writeln!(
            f,
            "{kills} kills, {early} of them while ranks met, each noticed by all within {slowest:.1?}, last by {slowest_says}"
        )?;
        writeln!(f, "{steps} operations of {} ranks, every byte as it should be", plan.ranks)?;
        let rss = |footprint: Option<&Footprint>| footprint.map_or(0, |footprint| footprint.rss_kib);
        let most = footprints.iter().map(|footprint| footprint.rss_kib).max().unwrap_or(0);
        let (first, last) = (rss(footprints.first()), rss(footprints.last()));
        write!(
            f,
            "rank 0 between generations: 1 thread, RSS {first} KiB at first, {last} at last, {most} at most; "
        )?;
        match growth_kib {
            Some(growth) => write!(f, "median of the last quarter {growth} KiB above that of the second"),
            None => write!(f, "too few generations to tell whether it grows"),
        }
    }
}
