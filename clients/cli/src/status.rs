//! `mgcomp status`: how the daemon does, and everything that is set on its node.

use std::time::{Duration, SystemTime};

use mgcomp_proto::v1::{DaemonInfo, GetDaemonInfoRequest, ListSettingsRequest, ScopedSettings};
use serde_json::{Value, json};

use crate::client::{Target, with_daemon};
use crate::error::CliError;
use crate::output::print;
use crate::{setting, show};

/// Show how the daemon does, and everything that operators have set on its node.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let (info, settings) = with_daemon(&args.target, async |mut daemon| {
        let info = daemon.get_daemon_info(GetDaemonInfoRequest {}).await?.into_inner();
        let settings = daemon.list_settings(ListSettingsRequest {}).await?.into_inner().settings;
        Ok((info, settings))
    })?;
    print(&if args.json { format!("{}\n", status_json(&info, &settings)) } else { text(&info, &settings) })
}

fn status_json(info: &DaemonInfo, settings: &[ScopedSettings]) -> Value {
    json!({
        "version": info.version,
        "page_version": info.page_version,
        "pid": info.pid,
        "started_unix_ns": info.started_unix_ns,
        "host": info.host,
        "processes": info.processes,
        "watchers": info.watchers,
        "refused_pages": info.refused_pages,
        "setting_changes": info.setting_changes,
        "state_dir": info.state_dir,
        "persist_error": (!info.persist_error.is_empty()).then_some(&info.persist_error),
        "policies": info.policies,
        "settings": settings.iter().map(scoped_json).collect::<Vec<_>>(),
    })
}

fn scoped_json(scoped: &ScopedSettings) -> Value {
    let mut object = json!({
        "own": scoped.own.as_ref().map(show::settings),
        "effective": scoped.effective.as_ref().map(show::settings),
        "version": scoped.version,
    });
    show::put_scope(&mut object, &scoped.scope.clone().unwrap_or_default());
    object
}

fn text(info: &DaemonInfo, settings: &[ScopedSettings]) -> String {
    let mut text = format!("mgcomp-daemon {} on {}, process {}", info.version, info.host, info.pid);
    // The clock of another machine may be ahead of ours.
    let started = SystemTime::UNIX_EPOCH + Duration::from_nanos(info.started_unix_ns);
    if let Ok(age) = started.elapsed() {
        text += &format!(", for {}", show::age(age));
    }
    text += &format!("\nprograms connected: {}, watchers: {}\n", info.processes, info.watchers);
    if info.refused_pages > 0 {
        text += &format!("programs refused: {} (its log says why)\n", info.refused_pages);
    }
    text += &match info.persist_error.as_str() {
        "" => format!("settings are kept in {}\n", info.state_dir),
        why => format!("SETTINGS CANNOT BE KEPT in {}: {why}\n", info.state_dir),
    };
    let row = |scoped: &ScopedSettings| {
        let [scope, own] = [
            show::place(&scoped.scope.clone().unwrap_or_default()),
            setting::texts(&scoped.own.clone().unwrap_or_default()),
        ];
        vec![scope, own]
    };
    if settings.is_empty() {
        text += "nothing is set: each program goes by its own settings\n";
    } else {
        text += "\n";
        text += &show::table(&["scope", "set there"], 2, &settings.iter().map(row).collect::<Vec<_>>());
    }
    text
}

#[cfg(test)]
mod tests {
    use mgcomp_proto::v1::{Scope, Settings};

    use super::*;

    fn info() -> DaemonInfo {
        DaemonInfo {
            version: "1.2.3".into(),
            pid: 77,
            // Of a clock that is ahead.
            started_unix_ns: u64::MAX,
            host: "node7".into(),
            processes: 12,
            watchers: 1,
            state_dir: "/var/lib/mgcomp".into(),
            ..DaemonInfo::default()
        }
    }

    #[test]
    fn a_daemon_of_which_nothing_is_to_be_said_says_little() {
        let expected = "mgcomp-daemon 1.2.3 on node7, process 77\n\
                        programs connected: 12, watchers: 1\n\
                        settings are kept in /var/lib/mgcomp\n\
                        nothing is set: each program goes by its own settings\n";
        assert_eq!(text(&info(), &[]), expected);
    }

    #[test]
    fn what_is_wrong_and_what_is_set_is_said() {
        let info = DaemonInfo { refused_pages: 3, persist_error: "no space left".into(), ..info() };
        let node = ScopedSettings {
            own: Some(Settings { policy: Some("paper".into()), ..Settings::default() }),
            ..ScopedSettings::default()
        };
        let peer = ScopedSettings {
            scope: Some(Scope { job: "a".into(), peer: Some(3), stream: None }),
            own: Some(Settings { lambda_gbps: Some(6.0), compress: Some(true), ..Settings::default() }),
            version: 9,
            ..ScopedSettings::default()
        };
        let expected = "mgcomp-daemon 1.2.3 on node7, process 77\n\
                        programs connected: 12, watchers: 1\n\
                        programs refused: 3 (its log says why)\n\
                        SETTINGS CANNOT BE KEPT in /var/lib/mgcomp: no space left\n\
                        \n\
                        scope          set there\n\
                        node           policy paper\n\
                        job a, peer 3  compression on, lambda 6 Gb/s\n";
        assert_eq!(text(&info, &[node, peer.clone()]), expected);
        let json = status_json(&info, &[peer]);
        assert_eq!(json["persist_error"], "no space left");
        assert_eq!(
            (&json["settings"][0]["scope"], &json["settings"][0]["version"]),
            (&"peer".into(), &9.into())
        );
        assert_eq!(json["settings"][0]["own"]["lambda_gbps"], 6.0);
    }
}
