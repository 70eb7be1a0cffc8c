//! The shape of the workspace: which crate may see which, where code may lie, where dependencies come from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What each package may depend on. An arrow that is not here is reversed, or new: then it belongs into
/// ARCHITECTURE.md as well.
const ARROWS: [(&str, &[&str]); 13] = [
    ("mgcomp-codecs", &[]),
    ("mgcomp-selector", &["mgcomp-codecs"]),
    ("mgcomp-transport", &["mgcomp-codecs", "mgcomp-selector"]),
    ("mgcomp-proto", &[]),
    ("mgcomp-plot", &[]),
    ("mgcomp-daemon", &["mgcomp-codecs", "mgcomp-proto", "mgcomp-selector", "mgcomp-transport"]),
    (
        "mgcomp-cli",
        &[
            "mgcomp-codecs",
            "mgcomp-daemon",
            "mgcomp-plot",
            "mgcomp-proto",
            "mgcomp-selector",
            "mgcomp-transport",
        ],
    ),
    ("mgcomp-mpi", &["mgcomp-codecs", "mgcomp-selector", "mgcomp-transport"]),
    (
        "mgcomp-bench",
        &[
            "mgcomp-codecs",
            "mgcomp-daemon",
            "mgcomp-plot",
            "mgcomp-proto",
            "mgcomp-selector",
            "mgcomp-transport",
        ],
    ),
    ("mgcomp-c", &["mgcomp-codecs", "mgcomp-selector", "mgcomp-transport"]),
    ("mgcomp-nccl-net", &["mgcomp-codecs", "mgcomp-selector", "mgcomp-transport"]),
    (
        "mgcomp-tests",
        &[
            "mgcomp-c",
            "mgcomp-codecs",
            "mgcomp-mpi",
            "mgcomp-nccl-net",
            "mgcomp-proto",
            "mgcomp-selector",
            "mgcomp-transport",
        ],
    ),
    ("mgcomp-fuzz", &["mgcomp-codecs"]),
];

/// The only folders at the top that may hold code.
const CODE_FOLDERS: [&str; 8] =
    ["proto", "transport", "codecs", "selector", "daemon", "clients", "tests", "bench"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Names of the workspace's packages, with the workspace's packages that each depends on, in any way.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let packages = packages();
    let own = packages.iter().filter(|package| package["source"].is_null());
    own.map(|package| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let inner = dependencies.filter(|dependency| dependency["source"].is_null());
        (text(package, "name").to_owned(), inner.map(|d| text(d, "name").to_owned()).collect())
    })
    .collect()
}

/// The arrows of `found` that `ARROWS` does not allow.
fn forbidden(found: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for (from, to) in found {
        match allowed.get(from.as_str()) {
            None => wrong.push(format!("{from} is not in the picture")),
            Some(allowed) => wrong.extend(
                to.iter().filter(|to| !allowed.contains(&to.as_str())).map(|to| format!("{from} -> {to}")),
            ),
        }
    }
    wrong
}

#[test]
fn no_arrow_is_reversed() {
    let found = arrows();
    assert_eq!(forbidden(&found), Vec::<String>::new());
    assert_eq!(found.len(), ARROWS.len(), "{found:?}");
}

#[test]
fn a_reversed_arrow_would_be_found() {
    let reversed = [("mgcomp-codecs".to_owned(), ["mgcomp-transport".to_owned()].into())];
    assert_eq!(forbidden(&reversed.into()), ["mgcomp-codecs -> mgcomp-transport"]);
}

#[test]
fn code_lies_in_the_known_folders() {
    for entry in std::fs::read_dir(root()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let hidden_or_built = name.starts_with('.') || name == "target";
        if entry.file_type().unwrap().is_dir() && !hidden_or_built {
            assert!(CODE_FOLDERS.contains(&name.as_str()), "folder {name}");
        }
    }
}

#[test]
fn dependencies_come_from_the_registry_under_allowed_licences() {
    let rules = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = rules.split("[licenses]").nth(1).and_then(|rest| rest.split('[').nth(1)).unwrap();
    let allowed: BTreeSet<&str> = list.split(']').next().unwrap().split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains("MIT") && allowed.contains("Apache-2.0"), "{allowed:?}");
    // The only exception: `exceptions` of the same file.
    let excepted = |name: &str, licence: &str| (name, licence) == ("cbindgen", "MPL-2.0");

    for package in packages().iter().filter(|package| !package["source"].is_null()) {
        let (name, source) = (text(package, "name"), text(package, "source"));
        assert!(source.starts_with("registry+"), "{name} comes from {source}");
        let licence = text(package, "license").replace('/', " OR ");
        // Each part joined by AND has to offer an allowed choice.
        for part in licence.split(" AND ") {
            let mut choices = part.trim_matches(['(', ')']).split(" OR ").map(str::trim);
            assert!(
                choices.any(|choice| allowed.contains(choice) || excepted(name, choice)),
                "{name}: {licence}"
            );
        }
    }
}

/// Whole paths, below a place that need not exist.
fn installed() -> BTreeSet<String> {
    let list =
        Command::new("bash").arg(root().join("clients/install")).args(["--list", "/p"]).output().unwrap();
    assert!(list.status.success(), "{list:?}");
    String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn what_installed_documents_lead_to_is_installed() {
    const DOCUMENTS: &str = "/p/share/doc/mgcomp/";
    let installed = installed();
    let documents = installed.iter().filter_map(|path| path.strip_prefix(DOCUMENTS));
    let mut links = 0;
    for document in documents.filter(|document| document.ends_with(".md")) {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            links += 1;
            let mut path: Vec<&str> = document.split('/').collect();
            path.pop();
            for part in target.split('/').filter(|part| *part != ".") {
                if part == ".." { path.truncate(path.len() - 1) } else { path.push(part) }
            }
            let path = format!("{DOCUMENTS}{}", path.join("/"));
            let is_there = installed.contains(&path)
                || installed
                    .iter()
                    .any(|other| other.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/')));
            assert!(is_there, "{document} leads to {target}, which is not installed");
        }
    }
    assert!(links > 20, "{links}");
}
