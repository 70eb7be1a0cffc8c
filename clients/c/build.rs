//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // Programs ask for the ABI that they were built with; the number is `MGCOMP_ABI_VERSION`.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmgcomp.so.1");
        // Threads and thread-local values stay behind `dlclose`, so their code has to.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
