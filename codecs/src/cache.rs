//! Where what was compiled or measured on this machine is kept.

use std::env;
use std::path::PathBuf;

/// The environment variable that names the folder; set to nothing, nothing is kept.
pub const CACHE_VARIABLE: &str = "MGCOMP_CACHE";

/// The folder that [`CACHE_VARIABLE`] names, by an absolute path; else `mgcomp` in `XDG_CACHE_HOME`, else
/// `.cache/mgcomp` in the home folder. `None` if nothing is to be kept, or the environment names no folder.
///
/// # Errors
/// [`CacheFolderError`] if the variable holds a relative path, which would be another folder in each working directory.
pub fn cache_folder() -> Result<Option<PathBuf>, CacheFolderError> {
    folder_by(|name| env::var_os(name).map(PathBuf::from))
}

fn folder_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<PathBuf>, CacheFolderError> {
    if let Some(path) = variable(CACHE_VARIABLE) {
        return match path {
            path if path.as_os_str().is_empty() => Ok(None),
            path if path.is_absolute() => Ok(Some(path)),
            path => Err(CacheFolderError { path }),
        };
    }
    let absolute = |name| variable(name).filter(|folder| folder.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(caches.map(|caches| caches.join("mgcomp")))
}

/// A folder that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{CACHE_VARIABLE} is {path:?}, which is no absolute path")]
pub struct CacheFolderError {
    /// What the variable holds.
    pub path: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_folder() {
        let folder = |variables: &[(&str, &str)]| {
            folder_by(|name| variables.iter().find(|v| v.0 == name).map(|v| PathBuf::from(v.1)))
        };
        let at = |path: &str| Ok(Some(PathBuf::from(path)));
        let all = [("MGCOMP_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(folder(&all), at("/a"));
        assert_eq!(folder(&all[1..]), at("/b/mgcomp"));
        assert_eq!(folder(&all[2..]), at("/c/.cache/mgcomp"));
        assert_eq!(folder(&[]), Ok(None));
        assert_eq!(folder(&[("MGCOMP_CACHE", ""), ("HOME", "/c")]), Ok(None));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "b"), ("HOME", "/c")]), at("/c/.cache/mgcomp"));
        let error = folder(&[("MGCOMP_CACHE", "a/b"), ("HOME", "/c")]).unwrap_err();
        assert_eq!(error.to_string(), "MGCOMP_CACHE is \"a/b\", which is no absolute path");
    }
}
