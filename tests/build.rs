//! Builds the kernels for the CPU, over the shim in `codecs/kernels/shim`.
//!
//! Without a C++ compiler, or on a processor that the shim does not know, the build goes on without them;
//! the reason ends up in `MGCOMP_SHIM_MISSING`, and the tests that need the kernels say so.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[path = "src/shim/sources.rs"]
#[allow(unreachable_pub)] // the library shows it to the tests
mod sources;

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(sources::KERNELS_DIR);
    println!("cargo::rerun-if-changed={}", kernels.display());
    println!("cargo::rustc-check-cfg=cfg(mgcomp_shim)");

    let constants = constants(&fs::read_to_string(kernels.join("launch.h"))?)?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("launch.rs"), constants)?;

    match compiler() {
        Ok(compiler) => {
            println!("cargo::rustc-env=MGCOMP_CXX={compiler}");
            build_shim(&kernels)?;
            println!("cargo::rustc-cfg=mgcomp_shim");
        }
        Err(reason) => println!("cargo::rustc-env=MGCOMP_SHIM_MISSING={reason}"),
    }
    Ok(())
}

/// Rust constants for the `#define MGC_NAME number` lines of a header, each with the comment above it.
fn constants(header: &str) -> Result<String, Box<dyn Error>> {
    let mut rust = String::new();
    let mut doc = String::new();
    for line in header.lines() {
        let define = line.strip_prefix("#define MGC_").and_then(|define| define.split_once(' '));
        if let Some(comment) = line.strip_prefix("//") {
            writeln!(doc, "///{comment}")?;
        } else if let Some((name, value)) = define {
            let value: u32 = value.parse().map_err(|e| format!("launch.h: {name} is {value:?}: {e}"))?;
            write!(rust, "{doc}pub const {name}: u32 = {value};\n\n")?;
            doc.clear();
        } else {
            doc.clear();
        }
    }
    Ok(rust)
}

/// The C++ compiler's program, if there is one that runs; else why the shim cannot be built.
fn compiler() -> Result<String, String> {
    let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if target != "x86_64" {
        return Err(format!("the shim switches fibers on x86_64 only, not on {target}"));
    }
    let tool = cc::Build::new().cpp(true).try_get_compiler().map_err(|e| one_line(&e.to_string()))?;
    let program = tool.path().display();
    match tool.to_command().arg("--version").output() {
        Ok(output) if output.status.success() => Ok(program.to_string()),
        Ok(output) => Err(format!("the C++ compiler {program} does not run: {}", output.status)),
        Err(error) => Err(format!("no C++ compiler: {program}: {error}")),
    }
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

/// The kernels and the shim, for tests to link; and a CUDA driver and a compiler made of them, for tests to load.
fn build_shim(kernels: &Path) -> Result<(), Box<dyn Error>> {
    let shim = kernels.join("shim");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .pic(true)
        .warnings(true)
        .extra_warnings(true)
        .include(kernels)
        .flag("-Wno-unknown-pragmas") // `#pragma unroll`
        .flag("-pthread")
        .flag("-xc++"); // the compiler does not know what a .cu file is
    let objects = build
        .clone()
        .files(sources::kernels().iter().map(|file| kernels.join(file)))
        .files(sources::RUNTIME.map(|file| shim.join(file)))
        .compile_intermediates();
    build.clone().objects(&objects).file(shim.join("kernels.cpp")).compile("mgcomp_shim");

    let stub = |folder: &str, files: &[&str]| {
        build.clone().files(files.iter().map(|file| shim.join(folder).join(file))).compile_intermediates()
    };
    let driver = [objects, stub("stub", &sources::STUB_DRIVER)].concat();
    let driver = link_library(&build, "libcuda.so.1", &driver)?;
    let compiler = link_library(&build, "libnvrtc.so.13", &stub("stub", &sources::STUB_COMPILER))?;
    let nccl = [stub("stub_nccl", &sources::STUB_NCCL), vec![driver.join("libcuda.so.1")]].concat();
    let nccl = link_library(&build, "libnccl.so.2", &nccl)?;
    println!("cargo::rustc-env=MGCOMP_STUB_OLDER_DRIVER={}", older(&driver)?.display());
    println!("cargo::rustc-env=MGCOMP_STUB_DRIVER={}", driver.display());
    println!("cargo::rustc-env=MGCOMP_STUB_COMPILER={}", compiler.display());
    println!("cargo::rustc-env=MGCOMP_STUB_NCCL={}", nccl.display());
    Ok(())
}

/// The driver as that of CUDA 11.0 is, in a folder of its own: what later ones have besides has a name that nobody looks for.
fn older(driver: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let name = "libcuda.so.1";
    let mut bytes = fs::read(driver.join(name))?;
    for later in ["cuGraphInstantiateWithFlags", "cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2"] {
        let text = format!("\0{later}\0");
        let places: Vec<_> = bytes
            .windows(text.len())
            .enumerate()
            .filter(|(_, found)| *found == text.as_bytes())
            .map(|(at, _)| at)
            .collect();
        if places.is_empty() {
            return Err(format!("the stub of the driver has no {later}").into());
        }
        places.into_iter().for_each(|at| bytes[at + 1] = b'-');
    }
    let folder = PathBuf::from(env::var("OUT_DIR")?).join("older");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)?;
    Ok(folder)
}

/// Links a shared library in a folder of its own, which is the result. It is there under its name with and
/// without the version.
fn link_library(build: &cc::Build, name: &str, objects: &[PathBuf]) -> Result<PathBuf, Box<dyn Error>> {
    let (short, _) = name.split_once(".so").ok_or("no shared library")?;
    let folder = PathBuf::from(env::var("OUT_DIR")?).join(short);
    fs::create_dir_all(&folder)?;
    let status = Command::new(build.get_compiler().path())
        .args(["-shared", "-pthread", &format!("-Wl,-soname,{name}"), "-o"])
        .arg(folder.join(name))
        .args(objects)
        .status()?;
    if !status.success() {
        return Err(format!("{name} does not link: {status}").into());
    }
    // A link and not a copy, which would be loaded as another library.
    let link = folder.join(format!("{short}.so"));
    if !link.exists() {
        std::os::unix::fs::symlink(name, link)?;
    }
    Ok(folder)
}
