//! Names that tell the workloads of a run apart.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::super::runs::Done;

/// The row of means has this name.
const MEAN: &str = "mean";
/// Letters of a part of a file's name: with those around it, it is shorter than any file system allows.
const SLUG_LEN: usize = 120;

/// Makes labels of the names: a benchmark keeps its name, a trace is called like its file, with as much of the path as no other
/// workload has. A file may be called what a terminal takes for an order, so control characters become U+FFFD.
pub(super) fn tell_apart(done: &mut [Done]) {
    let names: Vec<String> = done.iter().map(|one| one.name.replace(char::is_control, "\u{fffd}")).collect();
    let named: Vec<(&str, bool)> =
        names.iter().map(String::as_str).zip(done.iter().map(|one| one.is_trace)).collect();
    let labels = labels(&named);
    done.iter_mut().zip(labels).for_each(|(one, label)| one.name = label);
}

/// Parts of files' names for these labels, no two alike. Some file systems take upper and lower case for the same.
pub(super) fn slugs<'a>(labels: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut taken = Taken::default();
    let slug = |label: &str| taken.free(label.chars().map(letter).take(SLUG_LEN).collect(), '-');
    labels.into_iter().map(slug).collect()
}

/// Labels for workloads with these names, and whether they are traces.
fn labels(named: &[(&str, bool)]) -> Vec<String> {
    let label =
        |(name, is_trace): (&str, bool), depth| if is_trace { end(name, depth) } else { name.to_owned() };
    let parts = |name: &str| Path::new(name).components().count();
    let deepest = named.iter().map(|(name, _)| parts(name)).max().unwrap_or_default();
    // By depth: how many are called so.
    let counts = |depth| {
        let mut counts = HashMap::new();
        named.iter().for_each(|&one| *counts.entry(same(&label(one, depth))).or_insert(0) += 1);
        counts
    };
    let counts: Vec<HashMap<String, u32>> = (0..deepest).map(counts).collect();
    let mut taken = Taken::default();
    taken.free(MEAN.to_owned(), '#');
    let label = |&one: &(&str, bool)| {
        let is_alone = |&depth: &usize| {
            let name = same(&label(one, depth));
            name != MEAN && counts[depth].get(&name) == Some(&1)
        };
        let whole = parts(one.0);
        taken.free(label(one, (0..whole).find(is_alone).unwrap_or(whole)), '#')
    };
    named.iter().map(label).collect()
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

/// Names that are in use, and by each the number that is tried next for another one that would be called so.
#[derive(Default)]
struct Taken(HashMap<String, u32>);

impl Taken {
    /// `name`, or the same with the first number that makes it another one than all before; it is taken from now on.
    fn free(&mut self, name: String, mark: char) -> String {
        let mut free = name.clone();
        while self.0.contains_key(&same(&free)) {
            let next = self.0.entry(same(&name)).or_insert(2);
            free = format!("{name}{mark}{next}");
            *next += 1;
        }
        self.0.insert(same(&free), 2);
        free
    }
}

/// Names that differ in case alone are as good as the same.
fn same(name: &str) -> String {
    name.to_lowercase()
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
