//! Ranks that work together over NCCL: processes, for NCCL takes two ranks of one device in no other way.

use mgcomp_transport::nccl::UniqueId;

use super::super::error::PerfError;
use super::super::nccl::Ids;
use super::super::options::Args;

/// What NCCL takes for the name of a machine. Two ranks on one device have to be on two.
pub(super) const HOST_VARIABLE: &str = "NCCL_HOSTID";

/// The machine that `rank` has to be on for NCCL, where it is not the one that it is on: with the ranks before it that have
/// other devices, which go on to reach each other as they do on one machine.
pub(super) fn host(args: &Args, rank: u32) -> Result<Option<String>, PerfError> {
    let Some(devices) = args.devices() else { return Ok(None) };
    let turn = devices.seat(rank)?.turn;
    Ok((turn > 0).then(|| format!("mgcomp-perf-{turn}")))
}

/// Ids as ranks are told them.
pub(super) fn to_text(ids: Ids) -> Vec<String> {
    let text = |id: UniqueId| id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    ids.map(text).into()
}

/// What [`to_text`] has made a text of.
pub(super) fn of_text(texts: &[String]) -> Option<Ids> {
    let id = |text: &String| {
        let digits = |at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len() / 2).map(digits).collect();
        Some(UniqueId::from_bytes(bytes?.try_into().ok()?))
    };
    let ids: Option<Vec<UniqueId>> = texts.iter().map(id).collect();
    ids?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back() {
        let ids = [0, 1].map(|first| UniqueId::from_bytes(std::array::from_fn(|at| at as u8 ^ first)));
        let texts = to_text(ids);
        assert!(texts[0].starts_with("000102") && texts[0].len() == 256);
        assert_eq!(of_text(&texts), Some(ids));
        for bad in [vec![], vec![texts[0].clone()], vec!["é".repeat(128), texts[0].clone()]] {
            assert_eq!(of_text(&bad), None);
        }
    }
}
