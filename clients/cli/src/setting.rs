//! What operators can set, as it is shown.

use mgcomp_proto::v1::{Settings, SettingsField};

use crate::size;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// What people call it.
    pub(crate) name: &'static str,
    /// Its key in JSON.
    pub(crate) key: &'static str,
    pub(crate) field: SettingsField,
    /// Its value for people; none where it is not set.
    pub(crate) text: fn(&Settings) -> Option<String>,
}

pub(crate) const LAMBDA: Setting = Setting {
    name: "lambda",
    key: "lambda_gbps",
    field: SettingsField::LambdaGbps,
    text: |settings| settings.lambda_gbps.map(rate),
};

pub(crate) const POLICY: Setting = Setting {
    name: "policy",
    key: "policy",
    field: SettingsField::Policy,
    text: |settings| settings.policy.clone(),
};

pub(crate) const SWITCH: Setting = Setting {
    name: "compression",
    key: "compress",
    field: SettingsField::Compress,
    text: |settings| settings.compress.map(|on| if on { "on" } else { "off" }.to_owned()),
};

pub(crate) const SIZE_GATE: Setting = Setting {
    name: "size gate",
    key: "least_bytes",
    field: SettingsField::LeastBytes,
    text: |settings| settings.least_bytes.map(size::shown),
};

pub(crate) const READ_CAP: Setting = Setting {
    name: "read cap",
    key: "read_cap_gbps",
    field: SettingsField::ReadCapGbps,
    text: |settings| settings.read_cap_gbps.map(rate),
};

/// All of them.
pub(crate) const ALL: [Setting; 5] = [SWITCH, POLICY, LAMBDA, SIZE_GATE, READ_CAP];

fn rate(gbps: f64) -> String {
    format!("{gbps} Gb/s")
}

/// All that is set, in one line.
pub(crate) fn texts(settings: &Settings) -> String {
    let text = |setting: Setting| Some(format!("{} {}", setting.name, (setting.text)(settings)?));
    ALL.into_iter().filter_map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show;

    #[test]
    fn every_setting_has_a_name_and_a_key() {
        let all = Settings {
            lambda_gbps: Some(2.5),
            policy: Some("paper".to_owned()),
            compress: Some(false),
            least_bytes: Some(65_536),
            read_cap_gbps: Some(384.0),
        };
        let expected = "compression off, policy paper, lambda 2.5 Gb/s, size gate 64 KiB, read cap 384 Gb/s";
        assert_eq!(texts(&all), expected);
        assert_eq!(texts(&Settings::default()), "");
        let json = show::settings(&all);
        assert_eq!(json.as_object().unwrap().len(), ALL.len());
        assert!(ALL.iter().all(|setting| !json[setting.key].is_null()));
    }
}
