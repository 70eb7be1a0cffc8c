//! Changing settings: every value is checked before anything is changed.

use mgcomp_proto::v1::{self, ScopedSettings, SettingsField, UpdateSettingsRequest};
use mgcomp_selector::Lambda;
use mgcomp_transport::control::{MAX_NAME_BYTES, ReadCap, Settings, SizeGate};
use tonic::Status;

use super::absent;
use crate::node::Node;
use crate::settings::Scope;

/// The scope that a request names.
pub(super) fn scope(scope: Option<v1::Scope>) -> Result<Scope, Status> {
    let v1::Scope { job, peer, stream } = scope.unwrap_or_default();
    let wrong = |what: &str| Err(Status::invalid_argument(format!("scope: {what}")));
    if job.is_empty() && (peer.is_some() || stream.is_some()) {
        return wrong("a peer is one of a job: name the job too");
    }
    if stream.is_some() && peer.is_none() {
        return wrong("a stream is one to a peer: name the peer too");
    }
    if job.len() > MAX_NAME_BYTES || !job.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("a job id has at most 64 printable ASCII characters and no spaces");
    }
    Ok(Scope { job: Some(job).filter(|job| !job.is_empty()), peer, stream })
}

/// Carries out a change.
pub(super) async fn update(node: &Node, request: UpdateSettingsRequest) -> Result<ScopedSettings, Status> {
    let UpdateSettingsRequest { scope: of, set, unset, expected_version, durable, allow_absent } = request;
    let scope = scope(of)?;
    let set = checked(&set.unwrap_or_default())?;
    let unset = fields(&unset, &set)?;
    fits(&scope, &set)?;
    let known = allow_absent || node.store.scopes().own(&scope).version > 0;
    if !known && !node.processes.has(&scope) {
        return Err(absent(&scope));
    }
    let change = move |before: Settings| set.or(without(before, &unset));
    node.store.change(&scope, expected_version, durable, change).await?;
    let scoped = node.scoped(&scope);
    tracing::info!(%scope, own = ?scoped.own, version = scoped.version, "settings changed");
    Ok(scoped)
}

/// Refuses what a scope has not.
fn fits(scope: &Scope, set: &Settings) -> Result<(), Status> {
    if scope.peer.is_some() && set.read_cap.is_some() {
        let what = "read_cap_gbps is of whole processes: set it for the node, or for a job without a peer";
        return Err(Status::invalid_argument(what));
    }
    Ok(())
}

/// Settings that can be, of what a request says.
fn checked(set: &v1::Settings) -> Result<Settings, Status> {
    let wrong = |text: String| Status::invalid_argument(text);
    let lambda =
        set.lambda_gbps.map(Lambda::try_new).transpose().map_err(|error| wrong(error.to_string()))?;
    let policy = set.policy.as_deref().map(str::parse).transpose();
    let policy =
        policy.map_err(|error: mgcomp_transport::control::PolicyNameError| wrong(error.to_string()))?;
    let gate = |bytes| {
        let gate = SizeGate::try_new(bytes);
        gate.ok_or_else(|| {
            wrong(format!("least_bytes is {bytes}, but at most {} is possible", SizeGate::MAX_BYTES))
        })
    };
    let cap = |gbps| {
        let most = ReadCap::MAX_GBPS;
        ReadCap::try_new(gbps)
            .ok_or_else(|| wrong(format!("read_cap_gbps is {gbps}, but it is from 1e-9 to {most} Gb/s")))
    };
    Ok(Settings {
        lambda,
        policy,
        gate: set.least_bytes.map(gate).transpose()?,
        compress: set.compress,
        read_cap: set.read_cap_gbps.map(cap).transpose()?,
    })
}

/// The settings that are to be unset; none that is set at the same time.
fn fields(unset: &[i32], set: &Settings) -> Result<Vec<SettingsField>, Status> {
    let field = |number: &i32| {
        let field = SettingsField::try_from(*number).unwrap_or_default();
        let both = match field {
            SettingsField::Unspecified => {
                let text = format!(
                    "unset: {number} is no setting; 1 lambda_gbps, 2 policy, 3 compress, 4 least_bytes, 5 read_cap_gbps"
                );
                return Err(Status::invalid_argument(text));
            }
            SettingsField::LambdaGbps => set.lambda.is_some(),
            SettingsField::Policy => set.policy.is_some(),
            SettingsField::Compress => set.compress.is_some(),
            SettingsField::LeastBytes => set.gate.is_some(),
            SettingsField::ReadCapGbps => set.read_cap.is_some(),
        };
        match both {
            true => Err(Status::invalid_argument(format!("{} is to be set and unset", field.as_str_name()))),
            false => Ok(field),
        }
    };
    let fields: Vec<_> = unset.iter().map(field).collect::<Result<_, _>>()?;
    if fields.is_empty() && *set == Settings::default() {
        return Err(Status::invalid_argument("nothing to set and nothing to unset"));
    }
    Ok(fields)
}

fn without(mut settings: Settings, unset: &[SettingsField]) -> Settings {
    for field in unset {
        match field {
            SettingsField::LambdaGbps => settings.lambda = None,
            SettingsField::Policy => settings.policy = None,
            SettingsField::Compress => settings.compress = None,
            SettingsField::LeastBytes => settings.gate = None,
            SettingsField::ReadCapGbps => settings.read_cap = None,
            SettingsField::Unspecified => {}
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_no_cap_of_their_own() {
        let cap = Settings { read_cap: ReadCap::try_new(1.0), ..Settings::default() };
        let at = |peer| fits(&Scope { job: Some("a".into()), peer, stream: None }, &cap);
        assert!(at(None).is_ok());
        assert!(at(Some(1)).unwrap_err().message().contains("of whole processes"));
    }
}
