//! `mgcomp.h` is what `clients/c/src` says. `MGCOMP_HEADER=write cargo test -p mgcomp-tests --test c_api header` renews it.

use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, Language, RenameRule, Style};

/// The parts of the header: the file in `clients/c/src` that each is made from, and what stands above it.
const PARTS: [(&str, &str); 20] = [
    ("error", "Errors"),
    ("version", "Version"),
    ("number", "Elements and algorithms"),
    ("workers", "Threads"),
    ("frame", "Frames"),
    ("chunk", "Single chunks, for programs that have a container of their own"),
    ("table", "Tables of rows that share bits"),
    ("buddy", "Memory that holds more than it has"),
    ("profile", "Which targets suit an allocation"),
    ("request", "What goes on while the program does something else"),
    ("copy", "Compressed copies"),
    ("peer", "Compressed copies from one device to another"),
    ("kept", "Copies that stay compressed"),
    ("offload", "What leaves for a while and comes back"),
    ("node/ranks", "Ranks of a job"),
    ("node/transfer", "Remote memory, and messages between ranks"),
    ("communicator/members", "Ranks that work together"),
    ("communicator/message", "Messages by tag in a communicator"),
    ("communicator/moving", "Collectives that move bytes"),
    ("communicator/reducing", "Collectives that compute"),
];

/// What surrounds functions of each part.
const OPEN: &str = "#ifdef __cplusplus\nextern \"C\" {\n#endif // __cplusplus\n";
const CLOSE: &str = "#ifdef __cplusplus\n}  // extern \"C\"\n#endif  // __cplusplus\n";
const WIDTH: usize = 120;

fn folder() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/c")).to_owned()
}

/// The header as it should be.
fn header() -> String {
    let head = std::fs::read_to_string(folder().join("include/head.txt")).unwrap();
    let parts: String = PARTS.iter().map(|(file, title)| part(file, title)).collect();
    let (open, close) = ("#ifdef __cplusplus\nextern \"C\" {\n#endif\n", "\n#ifdef __cplusplus\n}\n#endif\n");
    format!(
        "{head}\n#ifndef MGCOMP_H\n#define MGCOMP_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n{open}{parts}{close}\n#endif\n"
    )
}

/// What one file says, under its title.
fn part(file: &str, title: &str) -> String {
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        documentation_style: DocumentationStyle::Doxy,
        no_includes: true,
        usize_is_size_t: true,
        line_length: WIDTH,
        ..Config::default()
    };
    config.enumeration.rename_variants = RenameRule::QualifiedScreamingSnakeCase;
    config.structure.rename_fields = RenameRule::CamelCase;
    config.function.rename_args = RenameRule::CamelCase;
    // Enums have the width of their numbers in C++ as well.
    config.cpp_compat = true;
    let source = folder().join("src").join(file).with_extension("rs");
    let mut text = Vec::new();
    Builder::new().with_config(config).with_src(source).generate().unwrap().write(&mut text);
    // One pair of braces for all parts is enough.
    let text = String::from_utf8(text).unwrap().replace(OPEN, "").replace(CLOSE, "");
    let line = "-".repeat(WIDTH - 8 - title.len());
    format!("\n/* -- {title} {line} */\n\n{}\n", text.trim())
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = folder().join("include/mgcomp.h");
    let header = header();
    if std::env::var_os("MGCOMP_HEADER").is_some_and(|value| value == "write") {
        std::fs::write(&path, &header).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = committed.lines().zip(header.lines()).position(|(a, b)| a != b);
    assert!(committed == header, "mgcomp.h differs from line {first:?} on; MGCOMP_HEADER=write renews it");
}
