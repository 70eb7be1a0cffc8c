//! The kernels as the CUDA compiler sees them: what they take on each device, and the PTX that ships.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{error::Error, fs, io};

use mgcomp_codecs::device::{Compiler, DeviceError, KernelSource, MIN_CAPABILITY, Target, sources};

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::shim::launch;
use crate::shim::sources::KERNELS_DIR;

/// Devices that the table is about.
pub const TARGETS: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// The one of them that the kernels are made for before all.
pub const FIRST_TARGET: &str = "sm_90";

/// Where the table lies, from the folder of the kernels.
const TABLE: &str = "RESOURCES.md";

/// The version of CUDA whose compiler the table and the PTX come from.
pub const VERSION: (i32, i32) = (13, 0);

/// The version of PTX that ships, the first that has [`MIN_CAPABILITY`]: drivers from CUDA 11.0 on take it.
pub const PTX_VERSION: &str = "7.0";

/// The level of compression that takes longest.
const MOST_PACKED: u8 = 10;

/// How to renew what this module checks.
pub const RENEW: &str = "cargo run -p mgcomp-tests --bin kernels -- --write";

/// What a kernel takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Its name.
    pub kernel: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Shared memory of a block in bytes, without what a launch asks for.
    pub shared_bytes: u32,
    /// Memory of each thread in bytes. What the compiler puts there is slow.
    pub stack_bytes: u32,
    /// Bytes of registers that it stores there for want of registers, and loads again.
    pub spill_bytes: u32,
}

/// A file that follows from the kernels.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Where it lies.
    pub path: PathBuf,
    /// What it has to hold.
    content: String,
    /// Whether it is kept in zlib format.
    packed: bool,
}

impl Artifact {
    /// Whether the file is as it has to be.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let found = fs::read(&self.path).unwrap_or_default();
        let found = if self.packed { decompress_to_vec_zlib(&found).unwrap_or_default() } else { found };
        found == self.content.as_bytes()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self) -> io::Result<()> {
        fs::create_dir_all(self.path.parent().unwrap_or(&self.path))?;
        let content = self.content.as_bytes();
        if self.packed {
            fs::write(&self.path, compress_to_vec_zlib(content, MOST_PACKED))
        } else {
            fs::write(&self.path, content)
        }
    }
}

/// All kernels, compiled.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// What each kernel takes on each device.
    pub rows: Vec<(Target, Resources)>,
    /// The files that follow.
    pub artifacts: Vec<Artifact>,
}

/// Compiles all kernels for all targets, and gives what they take and the files that follow. What is in `cache` of the same
/// sources is not compiled again.
///
/// # Errors
/// What the compiler says.
///
/// # Panics
/// If its log is none that this code knows.
pub fn compile(compiler: &Compiler, cache: &Path) -> Result<Compilation, DeviceError> {
    let mut rows = Vec::new();
    for target in targets() {
        let found = resources(compiler, target, cache)?;
        rows.extend(found.into_iter().map(|resources| (target, resources)));
    }
    let mut artifacts = shipped(compiler, cache)?;
    artifacts.push(Artifact { path: folder().join(TABLE), content: table(&rows), packed: false });
    Ok(Compilation { rows, artifacts })
}

/// The PTX that ships, of all kernels. What is in `cache` of the same sources is not compiled again.
fn shipped(compiler: &Compiler, cache: &Path) -> Result<Vec<Artifact>, DeviceError> {
    let target = Target::ptx(MIN_CAPABILITY);
    let ptx = of_each_source(|source| {
        cached(cache, source, target, || {
            Ok(String::from_utf8_lossy(&compiler.compile(source, target)?.image).into_owned())
        })
    });
    let artifact = |(source, ptx): (&KernelSource, Result<String, DeviceError>)| {
        let path = folder().join("ptx").join(format!("{}.ptx.z", source.name));
        Ok(Artifact { path, content: shipped_ptx(source, &ptx?), packed: true })
    };
    sources().iter().zip(ptx).map(artifact).collect()
}

/// Compiles all kernels for `target`, and gives what they take. What is in `cache` of the same sources is not compiled again.
///
/// # Errors
/// What the compiler says.
///
/// # Panics
/// If its log is none that this code knows.
pub fn resources(compiler: &Compiler, target: Target, cache: &Path) -> Result<Vec<Resources>, DeviceError> {
    let logs =
        of_each_source(|source| cached(cache, source, target, || Ok(compiler.compile(source, target)?.log)));
    logs.into_iter().try_fold(Vec::new(), |mut rows, log| {
        rows.extend(parse_log(&log?));
        Ok(rows)
    })
}

/// What `work` makes of each source, a thread for each.
fn of_each_source<R: Send>(work: impl Fn(&KernelSource) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let jobs: Vec<_> = sources().iter().map(|source| scope.spawn(|| work(source))).collect();
        jobs.into_iter().map(|job| job.join().expect("a log that is understood")).collect()
    })
}

/// The folder of the kernels.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(KERNELS_DIR)
}

/// The table that is kept: what all kernels take on all devices.
///
/// # Errors
/// Those of the file system.
pub fn kept_table() -> io::Result<String> {
    fs::read_to_string(folder().join(TABLE))
}

/// What the kept table begins with if it is of these kernels.
#[must_use]
pub fn table_fingerprint_line() -> String {
    let mut hash = Sha256::new();
    for (source, target) in sources().iter().flat_map(|source| targets().map(move |target| (source, target)))
    {
        hash.update(source.fingerprint(target));
    }
    format!("<!-- fingerprint {} -->\n", hex(&hash.finalize()))
}

/// What `table` says of a kernel on a device.
#[must_use]
pub fn table_cell(table: &str, kernel: &str, target: &str) -> Option<String> {
    let column = TARGETS.iter().position(|known| *known == target)?;
    let start = format!("| `{kernel}` | ");
    let cells = table.lines().find_map(|line| line.strip_prefix(&start))?.strip_suffix(" |")?;
    cells.split(" | ").nth(column).map(str::to_owned)
}

/// What `make` says of `source` for `target`; kept in `cache` by all that it follows from: sources, flags and compiler.
fn cached(
    cache: &Path,
    source: &KernelSource,
    target: Target,
    make: impl FnOnce() -> Result<String, DeviceError>,
) -> Result<String, DeviceError> {
    let (major, minor) = VERSION;
    let path = cache.join(format!("{}-{target}-{major}.{minor}", hex(&source.fingerprint(target))));
    if let Ok(text) = fs::read_to_string(&path) {
        return Ok(text);
    }
    let text = make()?;
    // Who cannot keep it compiles it again.
    if let Err(error) = keep(cache, &path, &text) {
        eprintln!("{} cannot be written: {error}", path.display());
    }
    Ok(text)
}

/// Writes `text` to `path` in `folder`, all of it or nothing.
fn keep(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the PTX that ships begins with: what it was compiled from, and what the rest of it is, so that what was changed by hand is
/// found without compiling.
#[must_use]
pub fn shipped_head(source: &KernelSource, body: &str) -> String {
    let fingerprint = source.fingerprint(Target::ptx(MIN_CAPABILITY));
    format!("// fingerprint {}\n// sha256 {}\n", hex(&fingerprint), hex(&Sha256::digest(body)))
}

fn targets() -> impl Iterator<Item = Target> {
    TARGETS.into_iter().map(|target| target.parse().expect("a target"))
}

/// The PTX as it ships: without comments, which name the build of the compiler, and for drivers that are older than that. It says that
/// it is of its own version of PTX, but the kernels use nothing that [`PTX_VERSION`] does not have, except for hints on what loads are
/// for. [`assemble`] finds out whether that is so.
fn shipped_ptx(source: &KernelSource, compiled: &str) -> String {
    let mut ptx = String::new();
    for line in compiled.trim_end_matches('\0').lines().map(str::trim_end) {
        if line.is_empty()
            || line.starts_with("//")
            || line.trim_start().starts_with(".pragma \"used_bytes_mask")
        {
            continue;
        }
        match line.starts_with(".version ") {
            true => ptx += &format!(".version {PTX_VERSION}\n"),
            false => ptx += &format!("{line}\n"),
        }
    }
    shipped_head(source, &ptx) + &ptx
}

/// Has `assembler`, a `ptxas` of some version, make machine code of the PTX that ships, which is then thrown away.
///
/// # Errors
/// What it says, if anything: what it does not know it leaves out with a warning.
pub fn assemble(assembler: &Path, source: &KernelSource) -> Result<(), Box<dyn Error>> {
    let mut file = NamedTempFile::new()?;
    file.write_all(source.shipped_ptx()?.as_bytes())?;
    let made = NamedTempFile::new()?;
    let target = Target::cubin(MIN_CAPABILITY).to_string();
    let said = Command::new(assembler)
        .args(["-O0", "-arch", &target, "-o"])
        .args([made.path(), file.path()])
        .output()
        .map_err(|error| format!("{}: {error}", assembler.display()))?;
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    let is_made = made.as_file().metadata()?.len() > 0;
    if is_made && said.trim().is_empty() { Ok(()) } else { Err(format!("{}: {said}", source.name).into()) }
}

/// What the log of a compilation says of each kernel:
///
/// ```text
/// ptxas info    : Compiling entry function 'zvc_decode' for 'sm_90'
/// ptxas info    : Function properties for zvc_decode
///     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ptxas info    : Used 48 registers, used 1 barriers, 4128 bytes smem
/// ```
///
/// # Panics
/// If it is not like that.
#[must_use]
pub fn parse_log(log: &str) -> Vec<Resources> {
    let mut found = Vec::new();
    let entries = log.split("Compiling entry function '").skip(1);
    for entry in entries {
        let kernel = entry.split('\'').next().unwrap_or_default().to_owned();
        let required =
            |what| number_before(entry, what).unwrap_or_else(|| panic!("no {what} of {kernel} in\n{log}"));
        found.push(Resources {
            registers: required(" registers"),
            shared_bytes: number_before(entry, " bytes smem").unwrap_or(0),
            stack_bytes: required(" bytes stack frame"),
            spill_bytes: required(" bytes spill stores") + required(" bytes spill loads"),
            kernel,
        });
    }
    found
}

/// The number before the first `what`.
fn number_before(text: &str, what: &str) -> Option<u32> {
    let before = &text[..text.find(what)?];
    let digits = before.rfind(|c: char| !c.is_ascii_digit()).map_or(before, |at| &before[at + 1..]);
    digits.parse().ok()
}

fn table(rows: &[(Target, Resources)]) -> String {
    let threads = launch::BLOCK_THREADS;
    let mut text = table_fingerprint_line();
    let _ = write!(
        text,
        "# What the kernels take\n\n\
         Registers of a thread · shared memory of a block in bytes, without the buffers that a launch asks for, \
         as NVRTC {}.{}\ncompiles them. Blocks have {threads} threads. A kernel that spills registers fails the \
         tests; its spilled bytes stand here too.\n\n\
         `{RENEW}` writes this and the PTX that ships. `tests/run` compiles the kernels for {FIRST_TARGET} \
         and compares them;\nof the other devices and the PTX it is content if they are of the same sources, flags and compiler, and the \
         PTX as it was written.\nThe same command without `--write` compares all.\n\n",
        VERSION.0, VERSION.1
    );
    let heads = TARGETS.join(" | ");
    let _ = writeln!(text, "| kernel | {heads} |\n|---|{}", "---|".repeat(TARGETS.len()));
    let mut kernels: Vec<&str> = rows.iter().map(|(_, row)| row.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    for kernel in kernels {
        let cells = targets().map(|target| {
            let row = rows.iter().find(|(of, row)| *of == target && row.kernel == kernel);
            row.map_or("–".to_owned(), |(_, row)| cell(row))
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| `{kernel}` | {} |", cells.join(" | "));
    }
    text
}

/// What the table says of a kernel.
#[must_use]
pub fn cell(row: &Resources) -> String {
    let spilled =
        if row.spill_bytes == 0 { String::new() } else { format!(" · {} spilled", row.spill_bytes) };
    format!("{} · {}{spilled}", row.registers, row.shared_bytes)
}
