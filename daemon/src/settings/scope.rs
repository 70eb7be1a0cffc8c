//! Where settings hold, and which of several counts.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use mgcomp_transport::control::Settings;

/// Where a setting holds. Ordered from the node to its jobs, their peers and their streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The job; `None` = the node.
    pub job: Option<String>,
    /// Rank on the other side; only with a job.
    pub peer: Option<u32>,
    /// The stream; only with a peer.
    pub stream: Option<u32>,
}

impl Scope {
    /// The scopes around this one, the narrowest first.
    fn wider(&self) -> impl Iterator<Item = Self> {
        let peer = self.stream.map(|_| Self { stream: None, ..self.clone() });
        let job = self.peer.map(|_| Self { peer: None, stream: None, ..self.clone() });
        let node = self.job.as_ref().map(|_| Self::default());
        [peer, job, node].into_iter().flatten()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(job) = &self.job else { return f.write_str("the node") };
        write!(f, "job {job:?}")?;
        if let Some(peer) = self.peer {
            write!(f, ", peer {peer}")?;
        }
        if let Some(stream) = self.stream {
            write!(f, ", stream {stream}")?;
        }
        Ok(())
    }
}

/// What is set at one scope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) settings: Settings,
    /// Differs after each change, over all scopes; 0 = nothing is set.
    pub(crate) version: u64,
}

/// Everything that is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scopes {
    entries: BTreeMap<Scope, Entry>,
    last_version: u64,
}

impl Scopes {
    /// What was kept; entries of no settings are dropped.
    pub(super) fn new(entries: BTreeMap<Scope, Entry>, last_version: u64) -> Self {
        let newest = entries.values().map(|entry| entry.version).max().unwrap_or(0);
        Self { entries, last_version: last_version.max(newest) }
    }

    pub(super) fn last_version(&self) -> u64 {
        self.last_version
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Scope, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn own(&self, scope: &Scope) -> Entry {
        self.entries.get(scope).copied().unwrap_or_default()
    }

    /// What holds at a scope: for each setting the narrowest that sets it.
    pub(crate) fn effective(&self, scope: &Scope) -> Settings {
        scope.wider().fold(self.own(scope).settings, |settings, wider| settings.or(self.own(&wider).settings))
    }

    /// Replaces what is set at a scope.
    pub(crate) fn set(&mut self, scope: Scope, settings: Settings) -> Entry {
        self.last_version += 1;
        if settings == Settings::default() {
            self.entries.remove(&scope);
            return Entry::default();
        }
        let entry = Entry { settings, version: self.last_version };
        self.entries.insert(scope, entry);
        entry
    }

    /// What holds in a job, to be asked for many streams.
    pub(crate) fn of_job(&self, job: &str) -> JobSettings {
        let whole = Scope { job: Some(job.to_owned()), ..Scope::default() };
        let within = self.entries.range(whole.clone()..).take_while(|(scope, _)| scope.job == whole.job);
        let narrower =
            within.filter_map(|(scope, entry)| Some(((scope.peer?, scope.stream), entry.settings))).collect();
        JobSettings { job: self.effective(&whole), narrower }
    }
}

/// What holds in a job.
#[derive(Debug)]
pub(crate) struct JobSettings {
    pub(crate) job: Settings,
    narrower: HashMap<(u32, Option<u32>), Settings>,
}

impl JobSettings {
    /// Whether nothing in it is compressed: it is off, and nothing in it is on by itself.
    pub(crate) fn is_off(&self) -> bool {
        let mut narrower = self.narrower.values();
        self.job.compress == Some(false) && !narrower.any(|settings| settings.compress == Some(true))
    }

    pub(crate) fn peer(&self, peer: u32) -> Settings {
        self.narrower.get(&(peer, None)).map_or(self.job, |settings| settings.or(self.job))
    }

    pub(crate) fn stream(&self, peer: u32, stream: u32) -> Settings {
        if self.narrower.is_empty() {
            return self.job;
        }
        let own = self.narrower.get(&(peer, Some(stream))).copied().unwrap_or_default();
        own.or(self.peer(peer))
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_selector::Lambda;

    use super::*;

    fn lambda(gbps: f64) -> Settings {
        Settings { lambda: Lambda::try_new(gbps).ok(), ..Settings::default() }
    }

    fn scope(job: &str, peer: Option<u32>, stream: Option<u32>) -> Scope {
        Scope { job: Some(job.to_owned()), peer, stream }
    }

    fn gbps(settings: Settings) -> Option<f64> {
        settings.lambda.map(Lambda::gbps)
    }

    #[test]
    fn the_narrowest_scope_counts_and_removal_falls_back() {
        let mut scopes = Scopes::default();
        let all = [
            Scope::default(),
            scope("a", None, None),
            scope("a", Some(3), None),
            scope("a", Some(3), Some(7)),
        ];
        for (index, scope) in all.iter().enumerate() {
            scopes.set(scope.clone(), lambda(index as f64));
        }
        let stream = |scopes: &Scopes, peer, stream| gbps(scopes.of_job("a").stream(peer, stream));
        assert_eq!(stream(&scopes, 3, 7), Some(3.0));
        assert_eq!(stream(&scopes, 3, 8), Some(2.0));
        assert_eq!(stream(&scopes, 4, 7), Some(1.0));
        assert_eq!(gbps(scopes.of_job("b").stream(3, 7)), Some(0.0));
        for index in (0..4).rev() {
            assert_eq!(gbps(scopes.effective(&all[3])), Some(index as f64));
            assert_eq!(stream(&scopes, 3, 7), Some(index as f64));
            scopes.set(all[index].clone(), Settings::default());
        }
        assert_eq!((gbps(scopes.effective(&all[3])), scopes.len()), (None, 0));
    }

    #[test]
    fn each_setting_falls_back_by_itself() {
        let mut scopes = Scopes::default();
        scopes.set(Scope::default(), Settings { compress: Some(false), ..lambda(1.0) });
        scopes.set(scope("a", Some(1), None), lambda(5.0));
        let settings = scopes.of_job("a").stream(1, 0);
        assert_eq!((gbps(settings), settings.compress), (Some(5.0), Some(false)));
    }

    #[test]
    fn versions_are_never_used_again() {
        let mut scopes = Scopes::default();
        let first = scopes.set(Scope::default(), lambda(1.0));
        scopes.set(Scope::default(), Settings::default());
        let other = scopes.set(scope("a", None, None), lambda(1.0));
        let again = scopes.set(Scope::default(), lambda(1.0));
        assert!(first.version < other.version && other.version < again.version);
        let kept = Scopes::new(scopes.entries.clone(), 0);
        assert_eq!(kept.last_version(), again.version);
    }

    #[test]
    fn scopes_read_as_places() {
        assert_eq!(Scope::default().to_string(), "the node");
        assert_eq!(scope("x", Some(1), Some(2)).to_string(), "job \"x\", peer 1, stream 2");
    }
}
