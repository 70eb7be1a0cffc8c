//! Where settings come from, before anybody asks what they mean.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use super::Problem;

/// What the names of variables begin with.
const PREFIX: &str = "MGCOMP_DAEMON_";
/// What comes behind it where the variable names the file.
const CONFIG: &str = "CONFIG";
/// What Kubernetes sets in pods beside a service that is called mgcomp-daemon begins so behind that.
const OF_KUBERNETES: [&str; 2] = ["PORT", "SERVICE_"];

/// What is given on the command line.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Flags {
    /// Where programs and clients on this node connect [default: MGCOMP_SOCKET, or $XDG_RUNTIME_DIR/mgcomp.sock, but of root /run/mgcomp/mgcomp.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<String>,
    /// Where settings are kept [default: ~/.local/state/mgcomp; of root /var/lib/mgcomp]
    #[arg(long, value_name = "PATH")]
    pub state_dir: Option<String>,
    /// Where other clients connect over TCP: takes a token, and TLS beyond this machine
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// File of settings, in TOML
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// File with the token that clients must show over TCP
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<String>,
    /// Certificates to show over TCP, in PEM
    #[arg(long, value_name = "PATH")]
    pub tls_cert: Option<String>,
    /// The key that goes with them, in PEM
    #[arg(long, value_name = "PATH")]
    pub tls_key: Option<String>,
    /// Authorities that clients' certificates must come from, in PEM; without it clients need none
    #[arg(long, value_name = "PATH")]
    pub tls_client_ca: Option<String>,
    /// User ids that may change settings, beside root and the daemon's own, with commas between
    #[arg(long, value_name = "UID,…")]
    pub operators: Option<String>,
    /// Whether other users may hand over pages and look: true or false
    #[arg(long, value_name = "BOOL")]
    pub open_to_users: Option<String>,
    /// What is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Processes that may be connected
    #[arg(long, value_name = "N")]
    pub max_processes: Option<String>,
    /// How many of these one user may have who is no operator [default: half of them]
    #[arg(long, value_name = "N")]
    pub max_processes_per_user: Option<String>,
    /// Watch calls that may be under way; from half of them on, only operators may begin one
    #[arg(long, value_name = "N")]
    pub max_watchers: Option<String>,
}

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Setting {
    Socket,
    StateDir,
    Listen,
    TokenFile,
    TlsCert,
    TlsKey,
    TlsClientCa,
    Operators,
    OpenToUsers,
    Log,
    MaxProcesses,
    MaxProcessesPerUser,
    MaxWatchers,
}

impl Setting {
    const ALL: [(Self, &str); 13] = [
        (Self::Socket, "socket"),
        (Self::StateDir, "state_dir"),
        (Self::Listen, "listen"),
        (Self::TokenFile, "token_file"),
        (Self::TlsCert, "tls_cert"),
        (Self::TlsKey, "tls_key"),
        (Self::TlsClientCa, "tls_client_ca"),
        (Self::Operators, "operators"),
        (Self::OpenToUsers, "open_to_users"),
        (Self::Log, "log"),
        (Self::MaxProcesses, "max_processes"),
        (Self::MaxProcessesPerUser, "max_processes_per_user"),
        (Self::MaxWatchers, "max_watchers"),
    ];

    fn flag(self, flags: &Flags) -> Option<&String> {
        match self {
            Self::Socket => flags.socket.as_ref(),
            Self::StateDir => flags.state_dir.as_ref(),
            Self::Listen => flags.listen.as_ref(),
            Self::TokenFile => flags.token_file.as_ref(),
            Self::TlsCert => flags.tls_cert.as_ref(),
            Self::TlsKey => flags.tls_key.as_ref(),
            Self::TlsClientCa => flags.tls_client_ca.as_ref(),
            Self::Operators => flags.operators.as_ref(),
            Self::OpenToUsers => flags.open_to_users.as_ref(),
            Self::Log => flags.log.as_ref(),
            Self::MaxProcesses => flags.max_processes.as_ref(),
            Self::MaxProcessesPerUser => flags.max_processes_per_user.as_ref(),
            Self::MaxWatchers => flags.max_watchers.as_ref(),
        }
    }
}

/// Values as they were given, each with where that was.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: HashMap<Setting, (String, String)>,
}

impl Given {
    /// Sets `value` to what was given for `key`, if anything was.
    pub(super) fn parse<T>(
        &self,
        key: Setting,
        value: &mut T,
        problems: &mut Vec<Problem>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) {
        if let Some((text, _)) = self.values.get(&key) {
            match parse(text) {
                Ok(parsed) => *value = parsed,
                Err(what) => problems.push(self.problem(key, what)),
            }
        }
    }

    pub(super) fn text(&self, key: Setting) -> Option<&str> {
        self.values.get(&key).map(|(text, _)| text.as_str())
    }

    pub(super) fn has(&self, key: Setting) -> bool {
        self.values.contains_key(&key)
    }

    /// Something is wrong with what was given for `key`.
    pub(super) fn problem(&self, key: Setting, what: String) -> Problem {
        let place = self.values.get(&key).map_or("settings", |(_, place)| place);
        Problem { place: place.to_owned(), what }
    }
}

/// The file's values, over them those of the environment, over them those of flags.
pub(super) fn gather(
    flags: &Flags,
    env: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<Problem>,
) -> Given {
    let mut given = Given::default();
    let file = flags.config.clone().or_else(|| env(&format!("{PREFIX}{CONFIG}")).map(PathBuf::from));
    if let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) {
        let place = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) => read_file(&text, &place, &mut given, problems),
            Err(error) => problems.push(Problem { place, what: format!("cannot be read: {error}") }),
        }
    }
    for (key, name) in Setting::ALL {
        let variable = format!("{PREFIX}{}", name.to_uppercase());
        match env(&variable).map(OsString::into_string) {
            Some(Ok(text)) => drop(given.values.insert(key, (text, format!("environment {variable}")))),
            Some(Err(_)) => problems.push(Problem { place: variable, what: "is no UTF-8".to_owned() }),
            None => {}
        }
        if let Some(text) = key.flag(flags) {
            let place = format!("--{}", name.replace('_', "-"));
            given.values.insert(key, (text.clone(), place));
        }
    }
    given
}

/// Finds variables that are named as if they set something, and set nothing.
pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a str>, problems: &mut Vec<Problem>) {
    for name in names {
        let Some(setting) = name.strip_prefix(PREFIX) else { continue };
        if OF_KUBERNETES.iter().any(|begins| setting.starts_with(begins)) {
            continue;
        }
        if setting != CONFIG && !Setting::ALL.iter().any(|(_, known)| known.to_uppercase() == setting) {
            let known: Vec<_> = Setting::ALL.iter().map(|(_, name)| name.to_uppercase()).collect();
            let what = format!("is no setting; known after {PREFIX}: {CONFIG} {}", known.join(" "));
            problems.push(Problem { place: format!("environment {name}"), what });
        }
    }
}

fn read_file(text: &str, place: &str, given: &mut Given, problems: &mut Vec<Problem>) {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let what = format!("is no TOML: {}", error.to_string().trim_end());
            return problems.push(Problem { place: place.to_owned(), what });
        }
    };
    for (name, value) in table {
        let place = format!("{place}: {name}");
        let Some((key, _)) = Setting::ALL.into_iter().find(|(_, known)| *known == name) else {
            let known: Vec<_> = Setting::ALL.iter().map(|(_, name)| *name).collect();
            problems.push(Problem { place, what: format!("is no setting; known: {}", known.join(" ")) });
            continue;
        };
        match as_text(&value) {
            Some(text) => drop(given.values.insert(key, (text, place))),
            None => problems.push(Problem { place, what: format!("cannot be {}", value.type_str()) }),
        }
    }
}

/// A value as a flag would spell it.
fn as_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(values) => {
            let texts: Option<Vec<_>> = values.iter().map(as_text).collect();
            Some(texts?.join(","))
        }
        _ => None,
    }
}
