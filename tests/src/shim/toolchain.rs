//! Programs made of kernels and shim, compiled with a sanitizer by the compiler that built this package.

use super::sources::{KERNELS_DIR, RUNTIME, kernels, source_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// What the kernels are compiled with. The shim's runtime never is, and is only told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// Nothing, and nothing but the shim's own test.
    None,
    /// Accesses outside of objects, and undefined behaviour.
    Address,
    /// Accesses that no barrier orders.
    Thread,
}

impl Sanitizer {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Address => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Self::Thread => &["-fsanitize=thread"],
        }
    }

    fn runtime_flags(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Address => &["-DSHIM_ASAN"],
            Self::Thread => &["-DSHIM_TSAN"],
        }
    }
}

/// What an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The shim, which no sanitizer watches.
    Runtime,
    /// What runs often.
    Kernels,
    /// A kernel with a bug, which runs until that is found.
    Planted,
}

impl Part {
    /// How hard the compiler tries. It takes five times as long for a kernel whose addresses are watched if it tries at all;
    /// with threads watched that makes less of a difference, but then planted bugs end in other words.
    fn effort(self, sanitizer: Sanitizer) -> &'static str {
        match (self, sanitizer) {
            (Self::Planted, Sanitizer::Address) => "-O0",
            _ => "-O1",
        }
    }
}

/// A replacement in the source of a kernel: a bug that some check must find.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// The codec into whose kernels it is compiled, or the name of others.
    pub codec: &'static str,
    /// The file to change, in the folder of the kernels.
    pub file: &'static str,
    /// What stands there, once.
    pub find: &'static str,
    /// What to put there.
    pub replace: &'static str,
}

/// The program that tests the shim itself, and has none of the kernels.
const SELFTEST: &str = "selftest";
/// The kernels behind one function.
const ALL_KERNELS: &str = "kernels.cpp";

/// Objects of kernels and runtime in a folder of their own.
#[derive(Debug)]
pub struct Toolchain {
    folder: PathBuf,
    sanitizer: Sanitizer,
    /// Whether programs must run without address randomisation, which old sanitizers cannot stand.
    fixed_addresses: bool,
}

impl Toolchain {
    /// Compiles kernels and runtime into `folder`, which is emptied first; without a sanitizer, what the shim's own test needs.
    ///
    /// # Errors
    /// Why there is no such toolchain here, if there is no compiler or it lacks the sanitizer.
    ///
    /// # Panics
    /// If the sources do not compile.
    pub fn build(sanitizer: Sanitizer, folder: PathBuf) -> Result<Self, String> {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut toolchain = Self { folder, sanitizer, fixed_addresses: false };
        toolchain.probe()?;

        let shim = kernels_dir().join("shim");
        let mut jobs: Vec<Child> =
            RUNTIME.iter().map(|file| toolchain.compile(&shim, file, file, Part::Runtime)).collect();
        let with_kernels =
            ["replay.cpp", "replay_rows.cpp", "replay_buddy.cpp", "replay_numbers.cpp", ALL_KERNELS];
        let with_kernels = with_kernels.into_iter().filter(|_| sanitizer != Sanitizer::None);
        for file in ["selftest.cpp"].into_iter().chain(with_kernels) {
            jobs.push(toolchain.compile(&shim, file, file, Part::Kernels));
        }
        for file in kernels().into_iter().filter(|_| sanitizer != Sanitizer::None) {
            jobs.push(toolchain.compile(&kernels_dir(), &file, &file, Part::Kernels));
        }
        jobs.into_iter().for_each(finish);
        Ok(toolchain)
    }

    /// Links `program` (`replay`, `replay_rows`, `replay_buddy`, `replay_numbers` or `selftest`).
    ///
    /// # Panics
    /// If it does not link, as none but `selftest` does without a sanitizer.
    #[must_use]
    pub fn link(&self, program: &str) -> PathBuf {
        assert!(self.sanitizer != Sanitizer::None || program == SELFTEST, "{program} has kernels");
        let kernels = kernels().into_iter().filter(|_| program != SELFTEST);
        let objects: Vec<PathBuf> = kernels.map(|kernel| self.object(&kernel)).collect();
        self.link_with(program, program, &objects)
    }

    /// Links `program` with a bug planted into one of its kernels. What was linked in the same `bed` before is gone.
    ///
    /// # Panics
    /// If the text to replace is not there exactly once, or the changed kernel does not compile.
    #[must_use]
    pub fn link_planted(&self, program: &str, plant: Plant, bed: usize) -> PathBuf {
        let planted = format!("planted{bed}");
        let copy = self.folder.join(&planted);
        copy_sources(&kernels_dir(), &copy);
        let changed = copy.join(plant.file);
        let text = fs::read_to_string(&changed).expect("kernel source");
        assert_eq!(text.matches(plant.find).count(), 1, "{}: {}", plant.file, plant.find);
        fs::write(changed, text.replace(plant.find, plant.replace)).expect("changed kernel source");

        let kernel = source_of(plant.codec);
        finish(self.compile(&copy, &kernel, &planted, Part::Planted));
        let object = |file: &String| self.object(if *file == kernel { &planted } else { file });
        let objects: Vec<PathBuf> = kernels().iter().map(object).collect();
        self.link_with(program, &format!("{planted}_program"), &objects)
    }

    /// Runs a program that this toolchain linked.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = if self.fixed_addresses {
            let mut command = Command::new("setarch");
            command.arg("-R").arg(program);
            command
        } else {
            Command::new(program)
        };
        // The sanitizer has to be loaded first. The leak check needs ptrace, which containers often refuse.
        command
            .env_remove("LD_PRELOAD")
            .args(arguments)
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("TSAN_OPTIONS", "halt_on_error=1");
        command.output().unwrap_or_else(|e| panic!("{}: {e}", program.display()))
    }

    /// Whether an empty program with the sanitizer links and runs.
    fn probe(&mut self) -> Result<(), String> {
        let source = self.folder.join("probe.cpp");
        fs::write(&source, "int main() { return 0; }\n").map_err(|e| format!("{}: {e}", source.display()))?;
        let program = self.folder.join("probe");
        let linked = compiler()?
            .args(self.sanitizer.flags())
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .output()
            .map_err(|e| format!("the C++ compiler does not start: {e}"))?;
        if !linked.status.success() {
            return Err(format!("the C++ compiler has no {:?} sanitizer", self.sanitizer));
        }
        let mut said = String::new();
        for fixed_addresses in [false, true] {
            self.fixed_addresses = fixed_addresses;
            let output = self.run(&program, &[]);
            if output.status.success() {
                return Ok(());
            }
            said = format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Err(format!("programs with the {:?} sanitizer do not run here: {said}", self.sanitizer))
    }

    fn object(&self, source: &str) -> PathBuf {
        self.folder.join(format!("{}.o", source.replace('/', "-")))
    }

    /// Starts to compile `file` of `folder`, which has the kernels that it includes, to the object of `name`.
    fn compile(&self, folder: &Path, file: &str, name: &str, part: Part) -> Child {
        let source = folder.join(file);
        let flags = match part {
            Part::Runtime => self.sanitizer.runtime_flags(),
            Part::Kernels | Part::Planted => self.sanitizer.flags(),
        };
        compiler()
            .expect("a compiler, since it was probed")
            .args(["-std=c++17", part.effort(self.sanitizer), "-g1", "-Wno-unknown-pragmas", "-I"])
            .arg(folder)
            .arg("-I")
            .arg(kernels_dir())
            .args(flags)
            .args(["-xc++", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(self.object(name))
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", source.display()))
    }

    fn link_with(&self, program: &str, name: &str, kernels: &[PathBuf]) -> PathBuf {
        let path = self.folder.join(name);
        let own = format!("{program}.cpp");
        let all_kernels = (program != SELFTEST).then_some(ALL_KERNELS);
        let objects =
            RUNTIME.into_iter().chain([own.as_str()]).chain(all_kernels).map(|file| self.object(file));
        let job = compiler()
            .expect("a compiler, since it was probed")
            .args(self.sanitizer.flags())
            .args(objects)
            .args(kernels)
            .args(["-pthread", "-o"])
            .arg(&path)
            .spawn();
        finish(job.unwrap_or_else(|e| panic!("{program}: {e}")));
        path
    }
}

/// Copies the kernels with all that they include, but for the shim.
fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder for kernels");
    for entry in fs::read_dir(from).expect("kernels") {
        let path = entry.expect("kernel").path();
        let name = path.file_name().expect("file name");
        if path.is_file() {
            fs::copy(&path, to.join(name)).expect("copy of a kernel source");
        } else if name != "shim" && name != "ptx" {
            copy_sources(&path, &to.join(name));
        }
    }
}

fn kernels_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(KERNELS_DIR)
}

fn compiler() -> Result<Command, String> {
    match option_env!("MGCOMP_CXX") {
        Some(program) => Ok(Command::new(program)),
        None => Err(option_env!("MGCOMP_SHIM_MISSING").unwrap_or("no C++ compiler").to_owned()),
    }
}

fn finish(mut job: Child) {
    let status = job.wait().expect("compiler");
    assert!(status.success(), "the compiler ended with {status}; its messages are above");
}
