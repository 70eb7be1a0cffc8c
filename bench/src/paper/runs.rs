//! Every workload under every scheme, on as many threads as there are cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mgcomp_selector::{Fixed, Lambda, Paper, PaperConfig, Policy};

use super::character::Character;
use super::fabric::{CODECS, Outcome, Requests, System, simulate};
use super::generate::{Bench, Share};
use super::workload::{Shown, Workload};

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Lengths of the phases; λ is that of the scheme.
    pub(super) phases: PaperConfig,
    pub(super) lambdas: Vec<Lambda>,
    /// Figures are those of the first.
    pub(super) systems: Vec<System>,
    /// Whether all schemes run on the others, and not just one adaptive one.
    pub(super) sweeps_all: bool,
    pub(super) share: Share,
    pub(super) as_paper: bool,
}

/// Where transfers come from.
pub(super) enum Job {
    Trace(Box<Workload>),
    Bench(Bench),
}

/// How payloads are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    None,
    /// Always this one of [`CODECS`].
    Codec(usize),
    /// The paper's adaptive scheme.
    Adaptive(Lambda),
}

impl Scheme {
    /// Its name in tables.
    pub(super) fn label(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Codec(codec) => ["BDI", "FPC", "C-Pack+Z"][codec].into(),
            Self::Adaptive(lambda) => format!("λ={lambda}"),
        }
    }

    fn policy(self, phases: PaperConfig) -> Box<dyn Policy> {
        match self {
            Self::None => Box::new(Fixed::BYPASS),
            Self::Codec(codec) => Box::new(Fixed::try_new(CODECS[codec]).expect("all three have codecs")),
            Self::Adaptive(lambda) => {
                Box::new(Paper::try_new(PaperConfig { lambda, ..phases }).expect("phases are checked"))
            }
        }
    }
}

/// A workload under one scheme.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) scheme: Scheme,
    pub(super) system: System,
    pub(super) outcome: Outcome,
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) bench: Option<Bench>,
    pub(super) is_trace: bool,
    pub(super) character: Character,
    /// Raw bits over coded bits: BDI, FPC, C-Pack+Z.
    pub(super) ratios: [f64; 3],
    pub(super) shown: Vec<Shown>,
    pub(super) runs: Vec<Run>,
}

impl Done {
    /// The run of `scheme` on `system`.
    pub(super) fn outcome(&self, scheme: Scheme, system: System) -> &Outcome {
        let run = self.runs.iter().find(|run| run.scheme == scheme && run.system == system);
        &run.expect("the plan has this scheme on this system").outcome
    }
}

impl Plan {
    pub(super) fn schemes(&self) -> Vec<Scheme> {
        let adaptive = self.lambdas.iter().map(|&lambda| Scheme::Adaptive(lambda));
        [Scheme::None].into_iter().chain((0..CODECS.len()).map(Scheme::Codec)).chain(adaptive).collect()
    }

    /// Those that run on every system.
    pub(super) fn swept(&self) -> Vec<Scheme> {
        let mut schemes = self.schemes();
        if !self.sweeps_all {
            let central = Scheme::Adaptive(self.central_lambda());
            schemes.retain(|scheme| !matches!(scheme, Scheme::Adaptive(_)) || *scheme == central);
        }
        schemes
    }

    /// λ = 6 if that is run, else the smallest.
    pub(super) fn central_lambda(&self) -> Lambda {
        *self.lambdas.iter().find(|&&lambda| lambda == Lambda::PAPER).unwrap_or(&self.lambdas[0])
    }

    fn run(&self, job: Job) -> Done {
        let workload = match job {
            Job::Trace(workload) => *workload,
            Job::Bench(bench) => {
                let mut workload = Workload::new(bench.to_string(), Some(bench), false, self.as_paper);
                bench.generate(self.share, &mut |transfer| workload.push(transfer));
                workload.finish()
            }
        };
        let requests = Requests::of(&workload.transfers);
        let mut runs = Vec::new();
        for (number, &system) in self.systems.iter().enumerate() {
            for scheme in if number == 0 { self.schemes() } else { self.swept() } {
                let policy = || scheme.policy(self.phases);
                let outcome = simulate(&workload.transfers, &requests, system, policy);
                runs.push(Run { scheme, system, outcome });
            }
        }
        let ratios = workload.ratios();
        let Workload { name, bench, is_trace, character, shown, .. } = workload;
        Done { name, bench, is_trace, character, ratios, shown, runs }
    }
}

/// Does all jobs; results are in their order.
pub(super) fn run(jobs: Vec<Job>, plan: &Plan) -> Vec<Done> {
    let jobs: Vec<Mutex<Option<Job>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let done: Vec<Mutex<Option<Done>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        // From the last: the largest benchmarks are MT and SC, and start first.
        while let Some(i) = jobs.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
            let job = jobs[i].lock().expect("no other thread has it").take();
            *done[i].lock().expect("no other thread has it") = job.map(|job| plan.run(job));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let taken = done.into_iter().filter_map(|done| done.into_inner().ok().flatten());
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::super::published::{TABLE_V, assert_like_table_v};
    use super::*;

    /// The mean over all benchmarks of what `of` tells, relative to no compression.
    fn mean(done: &[Done], plan: &Plan, lambda: Lambda, of: fn(&Outcome) -> u64) -> f64 {
        let share = |done: &Done| {
            let outcome = |scheme| of(done.outcome(scheme, plan.systems[0])) as f64;
            outcome(Scheme::Adaptive(lambda)) / outcome(Scheme::None)
        };
        done.iter().map(share).sum::<f64>() / done.len() as f64
    }

    fn assert_like_the_papers(done: &Done) {
        let (bench, character) = (done.bench.unwrap(), &done.character);
        assert_like_table_v(bench, done.ratios, character);
        let row = TABLE_V[bench as usize];
        for (ours, paper) in [(character.reads, row.reads), (character.writes, row.writes)] {
            assert!((ours as f64 / paper as f64 - 1.0).abs() < 0.03, "{bench}: {ours} transfers for {paper}");
        }
    }

    #[test]
    #[ignore = "most of a minute: all transfers of all benchmarks"]
    fn whole_runs_are_like_the_papers() {
        let [least, central, most] = [0.0, 6.0, 32.0].map(|gbps| Lambda::try_new(gbps).unwrap());
        let plan = Plan {
            phases: PaperConfig::default(),
            lambdas: vec![least, central, most],
            systems: vec![System { outstanding: 64, memory_cycles: 100 }],
            sweeps_all: true,
            share: Share::WHOLE,
            as_paper: false,
        };
        let done = run(Bench::ALL.map(Job::Bench).into(), &plan);
        assert_eq!(done.iter().filter_map(|done| done.bench).collect::<Vec<_>>(), Bench::ALL);
        done.iter().for_each(assert_like_the_papers);
        // λ = 0 sends least and λ = 32 most; λ = 6 is done first, and λ = 0, which waits for C-Pack+Z, last.
        let traffic = [least, central, most].map(|lambda| mean(&done, &plan, lambda, |of| of.fabric_bytes));
        assert!(traffic.is_sorted() && traffic[2] < 1.0, "{traffic:?}");
        let time = [central, most, least].map(|lambda| mean(&done, &plan, lambda, |of| of.cycles));
        assert!(time.is_sorted() && time[2] < 1.0, "{time:?}");
    }
}
