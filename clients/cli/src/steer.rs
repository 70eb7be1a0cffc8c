//! `mgcomp lambda`, `mgcomp policy`, `mgcomp size-gate`, `mgcomp read-cap`, `mgcomp on` and `mgcomp off`: what operators set.

use mgcomp_proto::v1::{
    GetSettingsRequest, Scope, ScopedSettings, Settings, SettingsField, UpdateSettingsRequest,
};
use serde_json::json;
use tonic::Code;

use crate::client::{ClientError, Daemon, ScopeArgs, Scoped, Target, WideScopeArgs, with_daemon};
use crate::error::CliError;
use crate::output::print;
use crate::setting::{self, Setting};
use crate::show;
use crate::size::Size;

/// Show or set λ, the weight of latency against size, of running programs.
#[derive(clap::Args, Debug)]
pub(crate) struct LambdaArgs {
    #[command(subcommand)]
    what: What<Lambda>,
}

/// Show or set how running programs choose codecs.
#[derive(clap::Args, Debug)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    what: What<Policy>,
}

/// Show or set how long transfers of running programs have to be to be looked at: shorter ones go raw.
#[derive(clap::Args, Debug)]
pub(crate) struct SizeGateArgs {
    #[command(subcommand)]
    what: What<SizeGate>,
}

/// Show or set how fast copies of running programs may read the memory of devices.
///
/// Each copier and offload queue goes by it, also for what waits already. Without it they take what their program says, by
/// default three times the rate of the link to the host. It holds for a node or a job: peers and streams have none of their own.
#[derive(clap::Args, Debug)]
pub(crate) struct ReadCapArgs {
    #[command(subcommand)]
    what: What<ReadCap>,
}

/// What is done with a setting.
#[derive(clap::Subcommand, Debug)]
enum What<V: Value> {
    /// What holds, and what is set
    Get(Common<V::Scope>),
    /// Set it
    Set {
        #[command(flatten)]
        value: V,
        #[command(flatten)]
        common: Common<V::Scope>,
        #[command(flatten)]
        change: Change,
    },
    /// Let that of the wider scope hold again
    Unset {
        #[command(flatten)]
        common: Common<V::Scope>,
        #[command(flatten)]
        change: Change,
    },
}

/// What a setting is set to.
trait Value: clap::Args {
    /// Where it can be set.
    type Scope: Scoped;
    const SETTING: Setting;

    fn settings(&self) -> Settings;
}

#[derive(clap::Args, Debug)]
struct Lambda {
    /// λ in Gb/s, which is bits per nanosecond
    #[arg(value_name = "GBPS", allow_hyphen_values = true)]
    lambda_gbps: f64,
}

impl Value for Lambda {
    type Scope = ScopeArgs;
    const SETTING: Setting = setting::LAMBDA;

    fn settings(&self) -> Settings {
        Settings { lambda_gbps: Some(self.lambda_gbps), ..Settings::default() }
    }
}

#[derive(clap::Args, Debug)]
struct Policy {
    /// adaptive, paper, or fixed:<algorithm>
    policy: String,
}

impl Value for Policy {
    type Scope = ScopeArgs;
    const SETTING: Setting = setting::POLICY;

    fn settings(&self) -> Settings {
        Settings { policy: Some(self.policy.clone()), ..Settings::default() }
    }
}

#[derive(clap::Args, Debug)]
struct SizeGate {
    /// Bytes, or with a suffix as in 64K; rounded up to a power of two
    #[arg(value_name = "BYTES", allow_negative_numbers = true)]
    least_bytes: Size,
}

impl Value for SizeGate {
    type Scope = ScopeArgs;
    const SETTING: Setting = setting::SIZE_GATE;

    fn settings(&self) -> Settings {
        Settings { least_bytes: Some(self.least_bytes.0 as u64), ..Settings::default() }
    }
}

#[derive(clap::Args, Debug)]
struct ReadCap {
    /// The rate in Gb/s
    #[arg(value_name = "GBPS", allow_hyphen_values = true)]
    read_cap_gbps: f64,
}

impl Value for ReadCap {
    type Scope = WideScopeArgs;
    const SETTING: Setting = setting::READ_CAP;

    fn settings(&self) -> Settings {
        Settings { read_cap_gbps: Some(self.read_cap_gbps), ..Settings::default() }
    }
}

/// Let running programs compress again, or stop them from it.
#[derive(clap::Args, Debug)]
pub(crate) struct SwitchArgs {
    #[command(flatten)]
    common: Common<ScopeArgs>,
    #[command(flatten)]
    change: Change,
}

#[derive(clap::Args, Debug)]
struct Common<S: Scoped> {
    #[command(flatten)]
    scope: S,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(clap::Args, Clone, Copy, Debug)]
struct Change {
    /// Change it only if the scope still has this version, which `get --json` shows
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u64>,
    /// Do not wait until it is on disk; the only way while the disk is full
    #[arg(long)]
    volatile: bool,
    /// Set it even if there is no such job, peer or stream yet
    #[arg(long)]
    ahead: bool,
}

pub(crate) fn run_lambda(args: &LambdaArgs) -> Result<(), CliError> {
    args.what.run()
}

pub(crate) fn run_policy(args: &PolicyArgs) -> Result<(), CliError> {
    args.what.run()
}

pub(crate) fn run_size_gate(args: &SizeGateArgs) -> Result<(), CliError> {
    args.what.run()
}

pub(crate) fn run_read_cap(args: &ReadCapArgs) -> Result<(), CliError> {
    args.what.run()
}

impl<V: Value> What<V> {
    fn run(&self) -> Result<(), CliError> {
        let (common, scoped) = match self {
            Self::Get(common) => (common, get(common)?),
            Self::Set { value, common, change } => {
                (common, update(common, *change, Some(value.settings()), None)?)
            }
            Self::Unset { common, change } => {
                (common, update(common, *change, None, Some(V::SETTING.field))?)
            }
        };
        show(V::SETTING, common, scoped)
    }
}

/// `on` takes the switch away where `off` had set it, so that a wider scope's holds again; a wider `off` is overridden.
pub(crate) fn run_switch(args: &SwitchArgs, on: bool) -> Result<(), CliError> {
    let SwitchArgs { common, change } = args;
    let (set, unset) = match on {
        false => (Some(Settings { compress: Some(false), ..Settings::default() }), None),
        true => with_daemon(&common.target, async |daemon| switched_on(daemon, &common.scope.scope()).await)?,
    };
    show(setting::SWITCH, common, update(common, *change, set, unset)?)
}

/// What is set and what is unset at a scope for it to be on.
pub(crate) async fn switched_on(
    daemon: Daemon,
    scope: &Scope,
) -> Result<(Option<Settings>, Option<SettingsField>), ClientError> {
    Ok(match wider_compress(daemon, scope).await? {
        Some(false) => (Some(Settings { compress: Some(true), ..Settings::default() }), None),
        _ => (None, Some(SettingsField::Compress)),
    })
}

/// What would hold at a scope by what is set around it.
async fn wider_compress(mut daemon: Daemon, scope: &Scope) -> Result<Option<bool>, ClientError> {
    for scope in wider(scope) {
        match daemon.get_settings(GetSettingsRequest { scope: Some(scope) }).await {
            Ok(scoped) => return Ok(scoped.into_inner().effective.unwrap_or_default().compress),
            // What is set ahead is in nothing that is there yet.
            Err(absent) if absent.code() == Code::NotFound => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(None)
}

/// The scopes around one, the narrowest first.
fn wider(scope: &Scope) -> impl Iterator<Item = Scope> {
    let peer = scope.stream.map(|_| Scope { stream: None, ..scope.clone() });
    let job = scope.peer.map(|_| Scope { job: scope.job.clone(), ..Scope::default() });
    let node = (!scope.job.is_empty()).then(Scope::default);
    [peer, job, node].into_iter().flatten()
}

fn get(common: &Common<impl Scoped>) -> Result<ScopedSettings, ClientError> {
    let got = with_daemon(&common.target, async |mut daemon| {
        let request = GetSettingsRequest { scope: Some(common.scope.scope()) };
        Ok(daemon.get_settings(request).await?.into_inner())
    });
    got.map_err(|error| error.about(&common.scope.scope(), false))
}

fn update(
    common: &Common<impl Scoped>,
    change: Change,
    set: Option<Settings>,
    unset: Option<SettingsField>,
) -> Result<ScopedSettings, ClientError> {
    let updated = with_daemon(&common.target, async |mut daemon| {
        let request = UpdateSettingsRequest {
            scope: Some(common.scope.scope()),
            set,
            unset: unset.into_iter().map(i32::from).collect(),
            expected_version: change.expected_version,
            durable: !change.volatile,
            allow_absent: change.ahead,
        };
        Ok(daemon.update_settings(request).await?.into_inner())
    });
    updated.map_err(|error| error.about(&common.scope.scope(), true))
}

fn show(setting: Setting, common: &Common<impl Scoped>, scoped: ScopedSettings) -> Result<(), CliError> {
    let ScopedSettings { scope, own, effective, version } = scoped;
    let (scope, own, effective) =
        (scope.unwrap_or_default(), own.unwrap_or_default(), effective.unwrap_or_default());
    let Setting { name, key, text, .. } = setting;
    if common.json {
        let value = |settings| show::settings(settings)[key].take();
        let mut object =
            json!({ key: value(&effective), format!("own_{key}"): value(&own), "version": version });
        show::put_scope(&mut object, &scope);
        return print(&format!("{object}\n"));
    }
    let place = show::place(&scope);
    print(&match (text(&own), text(&effective)) {
        (Some(own), _) => format!("{place}: {name} {own}\n"),
        (None, Some(effective)) => format!("{place}: {name} {effective}, from a wider scope\n"),
        (None, None) => format!("{place}: {name} as each program says\n"),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn settings_have_the_scopes_at_which_they_can_be_set() {
        let takes = |line: &str| crate::Cli::try_parse_from(line.split_whitespace()).is_ok();
        for setting in
            ["lambda set 1", "policy set paper", "size-gate set 1", "read-cap set 1", "read-cap get"]
        {
            assert!(takes(&format!("mgcomp {setting} --job a")), "{setting}");
            let is_wide = setting.starts_with("read-cap");
            assert_eq!(
                takes(&format!("mgcomp {setting} --job a --peer 1 --stream 2")),
                !is_wide,
                "{setting}"
            );
        }
    }

    #[test]
    fn scopes_lie_within_each_other() {
        let scope = |job: &str, peer, stream| Scope { job: job.into(), peer, stream };
        let around = |scope: &Scope| wider(scope).collect::<Vec<_>>();
        assert_eq!(
            around(&scope("a", Some(3), Some(7))),
            [scope("a", Some(3), None), scope("a", None, None), scope("", None, None)]
        );
        assert_eq!(around(&scope("a", None, None)), [scope("", None, None)]);
        assert_eq!(around(&Scope::default()), []);
    }
}
