//! Who a process is: what its page says of it.

use std::env;
use std::sync::Once;

/// The longest job id or program name in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Variables that name the job, the first that is set wins.
const JOB_VARIABLES: [&str; 6] =
    ["MGCOMP_JOB", "SLURM_JOB_ID", "PMIX_NAMESPACE", "PMI_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID"];
/// What torchrun calls every job that nobody has given a name.
const NO_NAME: (&str, &str) = ("TORCHELASTIC_RUN_ID", "none");

/// Variables in which launchers tell a process its rank, and how many there are, in the job and on the node. What a launcher started by another one says
/// comes first: `srun mpirun` and `srun torchrun` are the usual way.
const LAUNCHERS: [Launcher; 8] = [
    Launcher { rank: "MGCOMP_RANK", ranks: None, local_ranks: None, needs_ranks: false },
    // torchrun, and whoever starts PyTorch by hand. The names might be anybody's: they count if they make sense together.
    Launcher {
        rank: "RANK",
        ranks: Some("WORLD_SIZE"),
        local_ranks: Some("LOCAL_WORLD_SIZE"),
        needs_ranks: true,
    },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: Some("OMPI_COMM_WORLD_SIZE"),
        local_ranks: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
        needs_ranks: false,
    },
    Launcher {
        rank: "MV2_COMM_WORLD_RANK",
        ranks: Some("MV2_COMM_WORLD_SIZE"),
        local_ranks: Some("MV2_COMM_WORLD_LOCAL_SIZE"),
        needs_ranks: false,
    },
    Launcher { rank: "PMIX_RANK", ranks: None, local_ranks: None, needs_ranks: false },
    Launcher {
        rank: "PMI_RANK",
        ranks: Some("PMI_SIZE"),
        local_ranks: Some("MPI_LOCALNRANKS"),
        needs_ranks: false,
    },
    Launcher {
        rank: "SLURM_PROCID",
        ranks: Some("SLURM_NTASKS"),
        local_ranks: Some("SLURM_NTASKS_PER_NODE"),
        needs_ranks: false,
    },
    Launcher { rank: "FLUX_TASK_RANK", ranks: Some("FLUX_JOB_SIZE"), local_ranks: None, needs_ranks: false },
];

/// How a launcher tells a rank.
struct Launcher {
    rank: &'static str,
    ranks: Option<&'static str>,
    local_ranks: Option<&'static str>,
    needs_ranks: bool,
}

impl Launcher {
    /// The rank, and how many there are or 0, if that is what the variables say.
    fn says(&self, value: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
        let rank: u32 = value(self.rank)?.trim().parse().ok()?;
        let ranks = self.ranks.and_then(value).and_then(|ranks| ranks.trim().parse().ok());
        match ranks.filter(|ranks| rank < *ranks) {
            Some(ranks) => Some((rank, ranks)),
            None => (!self.needs_ranks && rank != u32::MAX).then_some((rank, 0)),
        }
    }

    /// How many ranks are on this node, if it has told a rank at all.
    fn says_local_ranks(&self, value: impl Fn(&str) -> Option<String>) -> Option<u32> {
        self.says(&value)?;
        let local_ranks = value(self.local_ranks?)?.trim().parse().ok()?;
        (local_ranks > 0).then_some(local_ranks)
    }
}

/// How many ranks of the job are on this node, if a launcher tells.
pub(crate) fn local_ranks() -> Option<u32> {
    LAUNCHERS.iter().find_map(|launcher| launcher.says_local_ranks(|name| env::var(name).ok()))
}

/// Who a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The job: 1 to 64 printable ASCII characters without spaces.
    pub job: String,
    /// The program's name, likewise.
    pub program: String,
    /// Version of mgcomp in it.
    pub release: String,
    /// Its number, as the process itself sees it.
    pub pid: u32,
    /// Its rank and the ranks of the job, as far as it knows.
    pub rank: Option<u32>,
    /// How many ranks its job has; 0 = not known.
    pub ranks: u32,
    /// When it opened its page: nanoseconds since 1970.
    pub started_ns: u64,
}

impl Identity {
    /// This process. Its job is that of `MGCOMP_JOB`, else of SLURM, PMIx, PMI, Flux or torchrun, else the process alone; its
    /// rank that of `MGCOMP_RANK`, else of torchrun, Open MPI, MVAPICH, PMIx, PMI, SLURM or Flux.
    #[must_use]
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        let value = |name: &str| env::var(name).ok().filter(|value| (name, value.as_str()) != NO_NAME);
        let job = first(&JOB_VARIABLES, value);
        job.iter().for_each(|job| warn_if_long(job));
        let rank = LAUNCHERS.iter().find_map(|launcher| launcher.says(value));
        let program =
            env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            job: job.map_or_else(|| format!("pid-{pid}"), |job| name(&job)),
            program: program.map_or_else(|| "unknown".to_owned(), |program| name(&program)),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid,
            rank: rank.map(|(rank, _)| rank),
            ranks: rank.map_or(0, |(_, ranks)| ranks),
            started_ns: since_1970.map_or(0, |since| since.as_nanos() as u64),
        }
    }
}

/// Whether a page may call something so.
pub(super) fn is_name(text: &[u8]) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic)
}

/// `text` as near as a name can be.
fn name(text: &str) -> String {
    let name: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect();
    name[..name.len().min(MAX_NAME_BYTES)].to_owned()
}

/// Says, once in a process, that the daemon knows only the beginning of a job's name.
fn warn_if_long(job: &str) {
    static SAID: Once = Once::new();
    let kept = name(job);
    if kept.len() < job.chars().count() {
        SAID.call_once(|| {
            tracing::warn!("the job's name {job:?} is cut to {MAX_NAME_BYTES} characters: {kept}");
        });
    }
}

/// The first variable that is set to something.
fn first(names: &[&str], value: impl Fn(&str) -> Option<String>) -> Option<String> {
    names.iter().filter_map(|name| value(name)).find(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_says_something_counts() {
        let value = |name: &str| match name {
            "MGCOMP_JOB" => Some(String::new()),
            "SLURM_JOB_ID" => Some("42".to_owned()),
            "PMI_JOBID" => Some("other".to_owned()),
            _ => None,
        };
        assert_eq!(first(&JOB_VARIABLES, value).as_deref(), Some("42"));
        assert_eq!(first(&["PMIX_NAMESPACE"], value), None);
    }

    #[test]
    fn the_innermost_launcher_says_the_rank() {
        let says = |set: &[(&str, &str)]| {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            LAUNCHERS.iter().find_map(|launcher| launcher.says(value))
        };
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        let torch = [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "1")];
        assert_eq!(says(&slurm), Some((1, 2)));
        assert_eq!(says(&[slurm, [torch[0], torch[1]]].concat()), Some((5, 8)));
        assert_eq!(
            says(&[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "9")]),
            Some((3, 4))
        );
        assert_eq!(says(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Some((0, 1)));
        assert_eq!(says(&[("FLUX_TASK_RANK", "7"), ("FLUX_JOB_SIZE", "8")]), Some((7, 8)));
        assert_eq!(says(&[("PMIX_RANK", "6")]), Some((6, 0)));
        // A name that anybody may use, alone or with a size that it does not go with.
        assert_eq!(says(&[("RANK", "5")]), None);
        assert_eq!(says(&[("RANK", "8"), ("WORLD_SIZE", "8")]), None);
        assert_eq!(says(&[torch[0], slurm[0]]), Some((1, 0)));
        // Numbers that make no sense.
        assert_eq!(says(&[("SLURM_PROCID", "4"), ("SLURM_NTASKS", "2")]), Some((4, 0)));
        for rank in ["", "-1", "one", "4294967295", "4294967296"] {
            assert_eq!(says(&[("PMI_RANK", rank)]), None, "{rank:?}");
        }
        assert_eq!(says(&[torch[0], torch[1], ("MGCOMP_RANK", "2")]), Some((2, 0)));
    }

    #[test]
    fn the_innermost_launcher_that_knows_says_the_local_ranks() {
        let says = |set: &[(&str, &str)]| {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            LAUNCHERS.iter().find_map(|launcher| launcher.says_local_ranks(value))
        };
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS_PER_NODE", "8")];
        let torch = [("RANK", "5"), ("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "4")];
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "3")];
        assert_eq!(says(&slurm), Some(8));
        assert_eq!(says(&[&slurm[..], &torch[..]].concat()), Some(4));
        assert_eq!(says(&[&slurm[..], &open_mpi[..]].concat()), Some(3));
        assert_eq!(says(&[("PMI_RANK", "0"), ("MPI_LOCALNRANKS", "2")]), Some(2));
        // Who says the rank need not know.
        assert_eq!(says(&[("MGCOMP_RANK", "1"), open_mpi[0], open_mpi[1]]), Some(3));
        assert_eq!(says(&[("LOCAL_WORLD_SIZE", "4")]), None, "anybody's name, and no rank");
        for wrong in ["0", "-1", "2(x3)", "", "4294967296"] {
            assert_eq!(says(&[slurm[0], ("SLURM_NTASKS_PER_NODE", wrong)]), None, "{wrong:?}");
        }
    }

    #[test]
    fn names_are_made_fit() {
        assert_eq!(name("a b\u{e9}\n/7"), "a_b__/7");
        assert_eq!(name(&"x".repeat(100)).len(), MAX_NAME_BYTES);
        assert!(is_name(name("job 1").as_bytes()));
        for wrong in [&b""[..], b"a b", b"a\n", b"\xff", &[b'x'; 65]] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
        assert!(is_name(Identity::of_this_process().job.as_bytes()));
    }
}
