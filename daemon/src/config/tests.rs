//! What is given where, and what is wrong with it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;

use super::*;

fn load(file: &str, env: &[(&str, &str)], flags: Flags) -> Result<Config, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.toml");
    fs::write(&path, file).unwrap();
    let flags = Flags { config: Some(path.clone()), ..flags };
    let env: HashMap<String, OsString> = env.iter().map(|(k, v)| (k.to_string(), v.into())).collect();
    let mut problems = Vec::new();
    let given = sources::gather(&flags, |name| env.get(name).cloned(), &mut problems);
    sources::check_names(env.keys().map(String::as_str), &mut problems);
    let config = Config::from_given(&given, &mut problems);
    let text = |problem: &Problem| problem.to_string().replace(&path.display().to_string(), "FILE");
    if problems.is_empty() { Ok(config) } else { Err(problems.iter().map(text).collect()) }
}

#[test]
fn flags_outweigh_the_environment_and_that_the_file() {
    let file = "state_dir = '/file'\nmax_processes = 10\nmax_watchers = 11\noperators = [1000, 1001]\n";
    let env = [("MGCOMP_DAEMON_STATE_DIR", "/env"), ("MGCOMP_DAEMON_MAX_PROCESSES", "20")];
    let flags = Flags { state_dir: Some("/flag".to_owned()), ..Flags::default() };
    let config = load(file, &env, flags).unwrap();
    assert_eq!(config.state_dir, PathBuf::from("/flag"));
    assert_eq!((config.max_processes, config.max_watchers), (20, 11));
    assert_eq!(config.operators, [1000, 1001]);
}

#[test]
fn users_share_what_processes_there_may_be() {
    let of = |file: &str| {
        let config = load(file, &[], Flags::default()).unwrap();
        (config.most_of_user(false), config.most_of_user(true))
    };
    assert_eq!(of(""), (2048, 4096));
    assert_eq!(of("max_processes = 5"), (3, 5));
    assert_eq!(of("max_processes = 1"), (1, 1));
    assert_eq!(of("max_processes = 5\nmax_processes_per_user = 2"), (2, 5));
    let none = load("max_processes_per_user = 0", &[], Flags::default()).unwrap_err();
    assert!(none[0].starts_with("FILE: max_processes_per_user: \"0\" is no number from 1"), "{none:?}");
}

#[test]
fn the_service_comes_back_however_often_it_ends() {
    let unit = include_str!("../../systemd/mgcomp-daemon.service");
    let section = |name: &str| unit.split("\n[").find_map(|section| section.strip_prefix(name)).unwrap();
    // systemd heeds them in these sections alone.
    assert!(section("Unit]").lines().any(|line| line == "StartLimitIntervalSec=0"));
    for line in ["Restart=on-failure", "RestartSec=1"] {
        assert!(section("Service]").lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn the_file_outweighs_the_unit_it_comes_with() {
    let (unit, file) =
        (include_str!("../../systemd/mgcomp-daemon.service"), include_str!("../../systemd/daemon.toml"));
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(command, "/usr/bin/mgcomp-daemon --config /etc/mgcomp/daemon.toml");
    let mut env = Vec::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("Environment=")) {
        env.push(line.split_once('=').unwrap());
    }
    let config = load(file, &env, Flags::default()).unwrap();
    assert_eq!((config.socket.as_path(), config.open_to_users), ("/run/mgcomp/mgcomp.sock".as_ref(), true));
    let changed = file.replace("/run/mgcomp/mgcomp.sock", "/run/other.sock").replace("= true", "= false");
    let config = load(&changed, &env, Flags::default()).unwrap();
    assert_eq!((config.socket.as_path(), config.open_to_users), ("/run/other.sock".as_ref(), false));
    // What else the file shows is right as well, once the files that it names are there.
    let shown = file.replace("\n# ", "\n");
    let known = shown.lines().filter(|line| line.contains(" = ")).count();
    let problems = load(&only_settings(&shown), &env, Flags::default()).unwrap_err();
    assert_eq!(known, 9);
    let is_missing = |problem: &String| {
        ["/etc/mgcomp/", "/run/credentials/mgcomp-daemon.service/"]
            .iter()
            .any(|folder| problem.contains(folder))
    };
    assert!(problems.iter().all(is_missing), "{problems:?}");
    // What the unit is to give a copy of is what the file goes by.
    for given in unit.lines().filter_map(|line| line.strip_prefix("# LoadCredential=")) {
        let (name, _) = given.split_once(':').unwrap();
        assert!(file.contains(&format!("\"/run/credentials/mgcomp-daemon.service/{name}\"")), "{given}");
    }
}

/// Lines that set something.
fn only_settings(file: &str) -> String {
    file.lines().filter(|line| line.contains(" = ")).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_problem_is_told_at_once() {
    let file = "sokcet = '/x'\nmax_processes = 0\nlog = 'loud'\nopen_to_users = 'maybe'\nlisten = { a = 1 }";
    let env = [("MGCOMP_DAEMON_LISTEN", "0.0.0.0:80"), ("MGCOMP_DAEMON_OPERATORS", "root")];
    let flags = Flags { state_dir: Some("relative".to_owned()), ..Flags::default() };
    let problems = load(file, &env, flags).unwrap_err();
    for expected in [
        "FILE: sokcet: is no setting; known: socket state_dir",
        "FILE: listen: cannot be table",
        "FILE: max_processes: \"0\" is no number from 1",
        "FILE: log: \"loud\" is no level",
        "FILE: open_to_users: \"maybe\" is neither true nor false",
        "environment MGCOMP_DAEMON_OPERATORS: \"root\" is no user id",
        "environment MGCOMP_DAEMON_LISTEN: whoever connects over TCP must show a token",
        "environment MGCOMP_DAEMON_LISTEN: 0.0.0.0:80 can be reached from elsewhere, which takes TLS",
        "--state-dir: \"relative\" is no absolute path",
    ] {
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected}: {problems:#?}");
    }
    assert_eq!(problems.len(), 9, "{problems:#?}");
}

#[test]
fn variables_that_set_nothing_are_refused() {
    let known = [("MGCOMP_DAEMON_CONFIG", ""), ("MGCOMP_DAEMON_LOG", "debug"), ("MGCOMP_SOCKET", "/x")];
    assert!(load("", &known, Flags::default()).is_ok());
    let of_kubernetes =
        [("MGCOMP_DAEMON_PORT_7410_TCP", "tcp://10.0.0.1:7410"), ("MGCOMP_DAEMON_SERVICE_HOST", "10.0.0.1")];
    assert!(load("", &of_kubernetes, Flags::default()).is_ok());
    let problems = load("", &[("MGCOMP_DAEMON_SOKCET", "/x")], Flags::default()).unwrap_err();
    let expected =
        "environment MGCOMP_DAEMON_SOKCET: is no setting; known after MGCOMP_DAEMON_: CONFIG SOCKET";
    assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
}

#[test]
fn a_token_that_others_may_read_is_seen() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "0123456789abcdef").unwrap();
    for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Token::read(&path).unwrap().is_exposed(), exposed, "{mode:o}");
    }
}

#[test]
fn files_that_are_not_there_are_told() {
    let problems = load("tls_cert = '/nowhere/cert'\ntoken_file = '/nowhere/token'", &[], Flags::default());
    let problems = problems.unwrap_err().join("\n");
    for expected in ["FILE: token_file: /nowhere/token", "tls_cert: takes tls_key", "tls_cert: /nowhere/cert"]
    {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    assert!(load("not toml", &[], Flags::default()).unwrap_err()[0].starts_with("FILE: is no TOML"));
    let flags = Flags { config: Some("/nowhere/file".into()), ..Flags::default() };
    assert!(Config::load(&flags).unwrap_err().to_string().contains("/nowhere/file: cannot be read"));
}

#[test]
fn loopback_needs_a_token_and_no_tls() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let file = format!("listen = '127.0.0.1:0'\ntoken_file = '{}'", token.display());
    let config = load(&file, &[], Flags::default()).unwrap();
    let token = config.token.unwrap();
    assert!(token.is("0123456789abcdef"));
    for wrong in ["", "0123456789abcdeF", "0123456789abcde", "0123456789abcdef0"] {
        assert!(!token.is(wrong), "{wrong}");
    }
    assert!(!format!("{token:?}").contains("0123"));
    fs::write(folder.path().join("token"), "short").unwrap();
    assert!(load(&file, &[], Flags::default()).unwrap_err()[0].contains("holds no token"));
}
