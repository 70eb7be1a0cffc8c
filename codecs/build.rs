//! Lists the CUDA sources in `kernels`, for the crate to carry: they are compiled at run time.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("kernels");
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_some() {
        let list = PathBuf::from(env::var("OUT_DIR")?).join("kernels.rs");
        fs::write(list, headers(&kernels)? + &sources(&kernels)?)?;
    }
    Ok(())
}

/// `HEADERS`: every header, by the name under which sources include it: its path in the folder.
fn headers(kernels: &Path) -> Result<String, Box<dyn Error>> {
    let mut names = header_names(kernels, "")?;
    for folder in file_names(kernels)? {
        // The shim is for the CPU alone.
        if folder != "shim" && kernels.join(&folder).is_dir() {
            names.extend(header_names(&kernels.join(&folder), &format!("{folder}/"))?);
        }
    }
    names.sort();
    let mut rust = String::from("static HEADERS: &[(&str, &str)] = &[\n");
    for name in names {
        writeln!(rust, "    ({name:?}, {}),", include(&kernels.join(&name)))?;
    }
    Ok(rust + "];\n")
}

/// The headers in one folder, each with `prefix` before its name.
fn header_names(folder: &Path, prefix: &str) -> Result<Vec<String>, Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let is_header = |name: &String| name.ends_with(".h") || name.ends_with(".cuh");
    let names = file_names(folder)?.into_iter().filter(is_header);
    Ok(names.map(|name| format!("{prefix}{name}")).collect())
}

fn file_names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let name = |entry: io::Result<DirEntry>| {
        let name = entry?.file_name().into_string();
        name.map_err(|name| format!("file name {name:?}").into())
    };
    fs::read_dir(folder)?.map(name).collect()
}

/// Kernels that are compiled apart from those of codecs: what their names start with, and their file.
const OTHERS: [(&str, &str); 3] =
    [("bpc_buddy", "buddy/bpc.cu"), ("xp_buddy", "buddy/xp.cu"), ("reduce", "reduce/reduce.cu")];

/// `SOURCES`: what the table of codecs names, in its order, and then the others.
fn sources(kernels: &Path) -> Result<String, Box<dyn Error>> {
    let table = fs::read_to_string(kernels.join("codecs.h"))?;
    println!("cargo::rerun-if-changed={}", kernels.join("ptx").display());
    let mut rust = String::from("static SOURCES: &[KernelSource] = &[\n");
    for line in table.lines().filter_map(|line| line.strip_prefix("MGC_CODEC(")) {
        let fields: Vec<&str> = line.trim_end_matches(')').split(',').map(str::trim).collect();
        let [name, algorithm, encode_scratch, decode_scratch] = fields[..] else {
            return Err(format!("codecs.h: {line:?} has {} fields, not 4", fields.len()).into());
        };
        let algorithm = format!("Some(Algorithm::ALL[{algorithm}])");
        rust += &source(
            kernels,
            name,
            &format!("{name}/{name}.cu"),
            &algorithm,
            [encode_scratch, decode_scratch],
        );
    }
    for (name, file) in OTHERS {
        rust += &source(kernels, name, file, "None", ["0", "0"]);
    }
    Ok(rust + "];\n")
}

/// One of them.
fn source(kernels: &Path, name: &str, file: &str, algorithm: &str, [encode, decode]: [&str; 2]) -> String {
    let ptx = kernels.join("ptx").join(format!("{name}.ptx.z"));
    let ptx = if ptx.exists() { include(&ptx).replace("_str!", "_bytes!") } else { "b\"\"".to_owned() };
    let text = include(&kernels.join(file));
    format!(
        "    KernelSource {{ name: {name:?}, algorithm: {algorithm}, file: {file:?},\n        \
         text: {text}, packed_ptx: {ptx},\n        \
         encode_scratch: {encode}, decode_scratch: {decode} }},\n"
    )
}

/// Rust for the text of a file.
fn include(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    format!("include_str!({:?})", path.display().to_string())
}
