//! Names that tell the workloads of a run apart.

use std::path::{Path, PathBuf};

use super::super::runs::Done;

/// The row of means has this name.
const MEAN: &str = "mean";
/// Letters of a part of a file's name: with those around it, it is shorter than any file system allows.
const SLUG_LEN: usize = 120;

/// Makes labels of the names: a benchmark keeps its name, a trace is called like its file, with as much of the path as no other
/// workload has.
pub(super) fn tell_apart(done: &mut [Done]) {
    let named: Vec<(&str, bool)> = done.iter().map(|one| (one.name.as_str(), one.is_trace)).collect();
    let labels = labels(&named);
    done.iter_mut().zip(labels).for_each(|(one, label)| one.name = label);
}

/// Parts of files' names for these labels, no two alike. Some file systems take upper and lower case for the same.
pub(super) fn slugs<'a>(labels: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut slugs: Vec<String> = Vec::new();
    for label in labels {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        slugs.push(free(label.chars().map(letter).take(SLUG_LEN).collect(), '-', &slugs));
    }
    slugs
}

/// Labels for workloads with these names, and whether they are traces.
fn labels(named: &[(&str, bool)]) -> Vec<String> {
    let mut taken = vec![MEAN.to_owned()];
    for (number, &(name, is_trace)) in named.iter().enumerate() {
        let label = |depth: usize| if is_trace { end(name, depth) } else { name.to_owned() };
        let is_alone = |depth: &usize| {
            let others = named.iter().enumerate().filter(|(other, _)| *other != number);
            let mut others = others.map(
                |(_, &(name, is_trace))| {
                    if is_trace { end(name, *depth) } else { name.to_owned() }
                },
            );
            is_free(&label(*depth), &taken[..1]) && others.all(|other| !is_same(&other, &label(*depth)))
        };
        let whole = Path::new(name).components().count();
        let depth = (0..whole).find(is_alone).unwrap_or(whole);
        taken.push(free(label(depth), '#', &taken));
    }
    taken.split_off(1)
}

/// The last `depth` parts of a path; for 0, the last without what traces end in.
fn end(path: &str, depth: usize) -> String {
    let parts: Vec<_> = Path::new(path).components().collect();
    let last: PathBuf = parts[parts.len().saturating_sub(depth.max(1))..].iter().collect();
    let last = last.display().to_string();
    match last.trim_end_matches(".xz").trim_end_matches(".bin") {
        "" => last,
        name if depth == 0 => name.to_owned(),
        _ => last,
    }
}

/// `name`, or the same with the first number that makes it another one than all of these.
fn free(name: String, mark: char, taken: &[String]) -> String {
    let numbered = (2..).map(|number: u32| format!("{name}{mark}{number}"));
    let mut names = [name.clone()].into_iter().chain(numbered);
    names.find(|name| is_free(name, taken)).expect("one number is free")
}

fn is_free(name: &str, taken: &[String]) -> bool {
    taken.iter().all(|other| !is_same(other, name))
}

/// Names that differ in case alone are as good as the same.
fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_as_much_of_the_path_as_it_takes() {
        let traces = |paths: &[&str]| {
            let named: Vec<(&str, bool)> = paths.iter().map(|&path| (path, true)).collect();
            labels(&named)
        };
        assert_eq!(traces(&["a/x.bin", "a/y.bin.xz"]), ["x", "y"]);
        assert_eq!(traces(&["a/x.bin", "b/x.bin"]), ["a/x.bin", "b/x.bin"]);
        assert_eq!(traces(&["/1/a/x.bin", "/2/a/x.bin"]), ["1/a/x.bin", "2/a/x.bin"]);
        assert_eq!(traces(&["d/fir.bin", "d/fir.bin.xz"]), ["fir.bin", "fir.bin.xz"]);
        assert_eq!(traces(&["x.bin", "a/x.bin"]), ["x.bin", "a/x.bin"]);
        // One file twice, and one that is called like the second of them.
        assert_eq!(traces(&["x.bin", "x.bin", "x.bin#2"]), ["x.bin", "x.bin#2", "x.bin#2#2"]);
        // The row of means is no workload.
        assert_eq!(traces(&["d/mean.bin", ".bin"]), ["mean.bin", ".bin"]);
    }

    #[test]
    fn benchmarks_keep_their_names() {
        let named = [("FIR", false), ("fir.bin", true), ("FIR", false), ("sc.bin", true)];
        assert_eq!(labels(&named), ["FIR", "fir.bin", "FIR#2", "sc"]);
    }

    #[test]
    fn slugs_are_of_letters_and_each_another() {
        let slugs_of = |labels: &[&str]| slugs(labels.iter().copied());
        assert_eq!(slugs_of(&["a_b", "a-b", "A b", "a-b-2"]), ["a-b", "a-b-2", "a-b-3", "a-b-2-2"]);
        assert_eq!(slugs_of(&["FIR", "fir.bin", "a/x.bin"]), ["fir", "fir-bin", "a-x-bin"]);
        let long = "x".repeat(200);
        let both = slugs_of(&[&long, &long]);
        assert_eq!(both.iter().map(String::len).collect::<Vec<_>>(), [120, 122]);
    }
}
