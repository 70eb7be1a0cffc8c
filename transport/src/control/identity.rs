//! Who a process is: what its page says of it.

use std::env;

/// The longest job id or program name in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Variables that name the job, the first that is set wins.
const JOB_VARIABLES: [&str; 5] = ["MGCOMP_JOB", "SLURM_JOB_ID", "PMIX_NAMESPACE", "PMI_JOBID", "FLUX_JOB_ID"];
/// Variables with the rank of the process in its job.
const RANK_VARIABLES: [&str; 5] =
    ["MGCOMP_RANK", "SLURM_PROCID", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

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
    /// This process. Its job is that of `MGCOMP_JOB`, else of SLURM, PMIx, PMI or Flux, else the process alone.
    #[must_use]
    pub fn of_this_process() -> Self {
        let pid = std::process::id();
        let job = first(&JOB_VARIABLES, |name| env::var(name).ok());
        let program =
            env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            job: job.map_or_else(|| format!("pid-{pid}"), |job| name(&job)),
            program: program.map_or_else(|| "unknown".to_owned(), |program| name(&program)),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid,
            rank: first(&RANK_VARIABLES, |name| env::var(name).ok()).and_then(|rank| rank.parse().ok()),
            ranks: 0,
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
