//! What steers the policy.

use crate::Lambda;

/// Settings of [`Adaptive`](super::Adaptive).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveConfig {
    /// Transfers of fewer bytes go raw, before anything else is asked. Default 512.
    pub least_bytes: u64,
    /// The share of its time that sampling a stream may take while data changes; where there are more than sixteen streams, samples of
    /// all together take twice that share of all time at most. Default 0.005.
    pub sampling_share: f64,
    /// The share that is left once samples keep confirming what was chosen; that is there while what was borrowed is paid
    /// back; that estimators have which take longer than the others together; and that glances have where a stream goes raw. Default 0.001.
    pub quiet_share: f64,
    /// How far the achieved size may be from the predicted one before a stream is sampled again at once, and codec times
    /// three times in a row: as a part of the transfer's predicted time. Default 0.1.
    pub drift: f64,
    /// What a codec must promise to save of the raw transfer's cost, as a part of it, unless a λ decides. Default 0.01.
    pub least_gain: f64,
    /// Minimise the penalty with this λ instead of the completion time.
    pub lambda: Option<Lambda>,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            least_bytes: 512,
            sampling_share: 0.005,
            quiet_share: 0.001,
            drift: 0.1,
            least_gain: 0.01,
            lambda: None,
        }
    }
}

impl AdaptiveConfig {
    /// Tells whether the settings make sense.
    ///
    /// # Errors
    /// [`AdaptiveConfigError`] that names the first that does not.
    pub fn check(&self) -> Result<(), AdaptiveConfigError> {
        let settings = [
            ("sampling_share", self.sampling_share, true),
            ("quiet_share", self.quiet_share, true),
            ("drift", self.drift, true),
            ("least_gain", self.least_gain, false),
        ];
        for (setting, value, above_zero) in settings {
            let fits = (0.0..=1.0).contains(&value) && !(above_zero && value == 0.0);
            if !fits {
                return Err(AdaptiveConfigError { setting, value });
            }
        }
        Ok(())
    }
}

/// A setting that is no part of one.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{setting} is {value}: it must be a number from 0 to 1, and above 0 but for least_gain")]
pub struct AdaptiveConfigError {
    /// Its name.
    pub setting: &'static str,
    /// What it was set to.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_checked() {
        let good = AdaptiveConfig::default();
        assert_eq!(good.check(), Ok(()));
        assert_eq!(AdaptiveConfig { least_gain: 0.0, ..good }.check(), Ok(()));
        let settings = |config: AdaptiveConfig| config.check().map_err(|error| error.setting);
        for value in [0.0, -0.1, 1.1, f64::NAN] {
            assert_eq!(settings(AdaptiveConfig { sampling_share: value, ..good }), Err("sampling_share"));
            assert_eq!(settings(AdaptiveConfig { quiet_share: value, ..good }), Err("quiet_share"));
            assert_eq!(settings(AdaptiveConfig { drift: value, ..good }), Err("drift"));
        }
        assert_eq!(settings(AdaptiveConfig { least_gain: -0.1, ..good }), Err("least_gain"));
    }
}
