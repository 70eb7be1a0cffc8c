//! Compiling programs and running them under mpirun.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_tests::stub::{Libraries, finds};

/// Longer than the slowest of them takes on the busiest of machines.
const HANGS: Duration = Duration::from_secs(300);

/// An MPI that is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mpi {
    compiler: &'static str,
    fortran: &'static str,
    mpirun: &'static str,
    /// More processes than cores, in a container, perhaps as root.
    flags: &'static [&'static str],
}

const KNOWN: [Mpi; 2] = [
    Mpi {
        compiler: "mpicc.openmpi",
        fortran: "mpifort.openmpi",
        mpirun: "mpirun.openmpi",
        flags: &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "mpi_yield_when_idle",
            "1",
            "--mca",
            "btl_vader_single_copy_mechanism",
            "none",
        ],
    },
    Mpi { compiler: "mpicc.mpich", fortran: "mpifort.mpich", mpirun: "mpirun.mpich", flags: &[] },
];

/// What MPIs compile Fortran with.
const FORTRAN: &str = "gfortran";

/// What a rank says at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) compressed: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) plain: u64,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) is_well: bool,
    pub(crate) output: String,
    pub(crate) ends: Vec<End>,
}

/// Does `test` on each MPI there is, one at a time; says SKIPPED for those that are missing.
pub(crate) fn on_every_mpi(test: impl Fn(&Mpi)) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let is_required = std::env::var_os("MGCOMP_REQUIRE_MPI_LAYER").is_some_and(|value| value == "1");
    for mpi in KNOWN {
        match [mpi.compiler, mpi.mpirun, FORTRAN].into_iter().find(|program| !is_installed(program)) {
            None => test(&mpi),
            Some(missing) => {
                assert!(!is_required, "{missing} is missing");
                println!("SKIPPED: {missing} is missing");
            }
        }
    }
}

impl Mpi {
    /// Whether its functions for Fortran call those of C, by the names that programs call them by.
    pub(crate) fn fortran_calls_c(&self) -> bool {
        self.compiler == "mpicc.mpich"
    }

    /// Runs a program under the layer.
    pub(crate) fn run(&self, program: &str, ranks: u32, variables: &[(&str, &str)]) -> Run {
        let set = assignments(variables);
        self.run_line(program, ranks, &format!("{set} {}", preload()), "")
    }

    /// The same with a tool that stands between the layer and MPI.
    pub(crate) fn run_before(
        &self,
        tool: &str,
        program: &str,
        ranks: u32,
        variables: &[(&str, &str)],
    ) -> Run {
        let set = assignments(variables);
        let tool = self.build(tool, &format!("lib{tool}.{}.so", self.compiler), &["-shared", "-fPIC"]);
        self.run_line(program, ranks, &format!("{set} {}:{}", preload(), tool.display()), "")
    }

    /// The same in a process that has also loaded a library of that name, which has nothing in it.
    pub(crate) fn run_with_library(
        &self,
        name: &str,
        program: &str,
        ranks: u32,
        variables: &[(&str, &str)],
    ) -> Run {
        let set = assignments(variables);
        let library = self.build("nothing.c", name, &["-shared", "-fPIC", "-nostdlib"]);
        self.run_line(program, ranks, &format!("{set} {}:{}", preload(), library.display()), "")
    }

    /// Runs a program on one rank with an argument, under the layer or not.
    pub(crate) fn run_with(&self, program: &str, argument: &str, layer: bool) -> Run {
        self.run_line(program, 1, if layer { preload() } else { "" }, argument)
    }

    /// Runs a program under the layer, as a library that another program has loaded, and its MPI with it, for itself alone.
    pub(crate) fn run_loaded(&self, program: &str, ranks: u32, variables: &[(&str, &str)]) -> Run {
        let set = assignments(variables);
        let library =
            self.build(program, &format!("lib{program}.{}.so", self.compiler), &["-shared", "-fPIC"]);
        self.start(ranks, &format!("{set} {}", preload()), &format!("{} {}", local(), library.display()))
    }

    fn run_line(&self, program: &str, ranks: u32, set: &str, argument: &str) -> Run {
        let built = self.build(program, &format!("{program}.{}", self.compiler), &["-pthread"]);
        self.start(ranks, set, &format!("{} {argument}", built.display()))
    }

    fn build(&self, program: &str, name: &str, flags: &[&str]) -> PathBuf {
        let built = scratch().join(name);
        let compiler = if program.ends_with(".f90") { self.fortran } else { self.compiler };
        let of_cpp: &[&str] = match program.ends_with(".cpp") {
            true => &["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-lstdc++"],
            false => &[],
        };
        compile(compiler, &[&source(program)], &built, &[flags, of_cpp].concat());
        built
    }

    /// Runs a program under the layer with what it finds of CUDA, which is the stub; `None` without that.
    pub(crate) fn run_with_device(
        &self,
        program: &str,
        ranks: u32,
        variables: &[(&str, &str)],
        test: &str,
    ) -> Option<Run> {
        let built = self.build(program, &format!("{program}.{}", self.compiler), &["-pthread", "-ldl"]);
        let set = format!("{} {}", assignments(variables), preload());
        let mut command = self.command(ranks, &set, &built.display().to_string());
        finds(&mut command, Libraries::Driver, test).then(|| run(&mut command))
    }

    fn start(&self, ranks: u32, set: &str, what: &str) -> Run {
        run(&mut self.command(ranks, set, what))
    }

    fn command(&self, ranks: u32, set: &str, what: &str) -> Command {
        let mut command = Command::new(self.mpirun);
        command.args(self.flags).args(["-n", &ranks.to_string()]);
        command.args(["sh", "-c", &format!("MGCOMP_LOG=info MGCOMP_SOCKET= {set} exec {what}")]);
        command
    }

    /// Runs a program on an MPI that the layer does not know, of that source and that name, which comes with the program, or is loaded
    /// for a part of it alone; `None` without a compiler.
    pub(crate) fn unknown(mpi: &str, name: &str, is_loaded: bool) -> Option<Run> {
        if !is_installed("cc") {
            println!("SKIPPED: there is no C compiler");
            return None;
        }
        let folder = scratch().join(format!("{mpi}.{name}"));
        fs::create_dir_all(&folder).unwrap();
        let library = folder.join(name);
        let as_library = ["-shared", "-fPIC"];
        let named = format!("-Wl,-soname,{name}");
        compile("cc", &[&source(mpi)], &library, &[&as_library[..], &[&named]].concat());
        let found = format!("-Wl,-rpath,{}", folder.display());
        let build = |name: &str, flags: &[&str]| {
            let built = folder.join(name);
            compile("cc", &[&source("unknown.c"), &library], &built, &[flags, &[&found]].concat());
            built.display().to_string()
        };
        let program = match is_loaded {
            true => format!("{} {}", local(), build("libunknown_program.so", &as_library)),
            false => build("unknown", &[]),
        };
        Some(run(Command::new("sh").args(["-c", &format!("{} exec {program}", preload())])))
    }
}

impl Run {
    pub(crate) fn expect_well(&self) {
        assert!(self.is_well, "{}", self.output);
        assert!(self.output.contains("all is well"), "{}", self.output);
        if let Some(skipped) = self.output.lines().find(|line| line.starts_with("SKIPPED")) {
            println!("{skipped}");
        }
    }
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Run {
    // Where MPI keeps what processes share: runs of one user disturb each other in a place of all.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let output = File::create(&path).unwrap();
    command.env("TMPDIR", folder.path()).stdin(Stdio::null());
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let (mut child, started) = (command.spawn().unwrap(), Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} hangs: {}", fs::read_to_string(&path).unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(5));
    };
    let output = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
    Run { is_well: status.success(), ends: output.lines().filter_map(end).collect(), output }
}

/// What a line says of a rank's end, if it does.
fn end(line: &str) -> Option<End> {
    let (_, line) = line.split_once("mgcomp ends ")?;
    let number = |name: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word?.parse().ok()
    };
    Some(End {
        compressed: number("compressed")?,
        raw_bytes: number("raw_bytes")?,
        sent_bytes: number("sent_bytes")?,
        plain: number("plain")?,
    })
}

/// What sets variables for a program, as a shell has it.
fn assignments(variables: &[(&str, &str)]) -> String {
    variables.iter().map(|(name, value)| format!("{name}={value} ")).collect()
}

/// What puts the layer under a program, as a shell has it.
fn preload() -> &'static str {
    static LINE: OnceLock<String> = OnceLock::new();
    LINE.get_or_init(|| format!("LD_PRELOAD={}", layer().display()))
}

/// The program that runs the main program of a library.
fn local() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = scratch().join("local");
        compile("cc", &[&source("local.c")], &built, &["-ldl"]);
        built.display().to_string()
    })
}

/// The library, which is built before the tests, since they depend on it.
fn layer() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("libmgcomp_mpi.so")
}

fn compile(compiler: &str, from: &[&Path], to: &Path, flags: &[&str]) {
    // Another process may run the same test.
    let new = to.with_extension(format!("{}.new", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-o"]).arg(&new).args(from).args(flags);
    assert!(command.status().unwrap().success(), "{command:?}");
    fs::rename(new, to).unwrap();
}

fn source(program: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi_layer/programs");
    folder.join(program)
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
