//! Measuring how fast the codecs are, once at a time.

use std::path::PathBuf;
use std::sync::Arc;

use mgcomp_codecs::{Element, ElementSet, codecs};
use mgcomp_proto::v1::{CalibrateResponse, CodecSpeed};
use mgcomp_selector::speeds::Speeds;
use mgcomp_transport::calibrate::{SpeedsFile, calibrate};
use tokio::sync::Mutex;
use tonic::Status;

use crate::node::Node;

/// What is told: speeds on a buffer of this length that becomes this part of itself.
const TOLD_BYTES: u64 = 1 << 20;
const TOLD_FRACTION: f64 = 0.5;

pub(super) async fn run(node: &Node, dry_run: bool) -> Result<CalibrateResponse, Status> {
    alone(&node.calibrating, move || measure(dry_run)).await
}

/// Does `work` unless the same is under way, also where nobody waits for that any more.
async fn alone<T: Send + 'static>(
    one: &Arc<Mutex<()>>,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let Ok(one) = one.clone().try_lock_owned() else {
        return Err(Status::failed_precondition("a calibration is under way: wait for it"));
    };
    let work = tokio::task::spawn_blocking(move || {
        // Here and not in the call: that ends when its client goes, and this does not.
        let _one = one;
        work()
    });
    work.await.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
}

fn measure(dry_run: bool) -> Result<CalibrateResponse, Status> {
    // First: to measure takes seconds.
    let place = if dry_run { None } else { Some(place()?) };
    let speeds = calibrate(ElementSet::all(), &|_| {})
        .map_err(|error| Status::internal(format!("cannot time the codecs: {error}")))?;
    let mut kept = String::new();
    if let Some(path) = place {
        let saved = SpeedsFile::of_this_machine(&speeds).save(&path);
        saved.map_err(|error| Status::resource_exhausted(format!("cannot keep the speeds: {error}")))?;
        kept = path.display().to_string();
    }
    Ok(CalibrateResponse { speeds: told(&speeds), path: kept })
}

/// Where speeds are kept, if they can be.
fn place() -> Result<PathBuf, Status> {
    let none = "there is no folder to keep speeds in: set MGCOMP_CACHE for the daemon";
    let cannot = |error: &dyn std::error::Error| {
        Status::failed_precondition(format!("cannot keep the speeds: {error}"))
    };
    let path = SpeedsFile::default_path().map_err(|error| cannot(&error))?;
    let path = path.ok_or_else(|| Status::failed_precondition(none))?;
    SpeedsFile::check_place(&path).map_err(|error| cannot(&error))?;
    Ok(path)
}

fn told(speeds: &Speeds) -> Vec<CodecSpeed> {
    let pairs =
        Element::ALL.into_iter().flat_map(|element| codecs().map(move |codec| (element, codec.algorithm())));
    let speed = |(element, algorithm): (Element, mgcomp_codecs::Algorithm)| {
        let times = speeds.times(algorithm, element, TOLD_BYTES, TOLD_FRACTION)?;
        Some(CodecSpeed {
            algorithm: algorithm.name().to_owned(),
            element: element.name().to_owned(),
            encode_gigabytes_per_second: TOLD_BYTES as f64 / times.encode_ns,
            decode_gigabytes_per_second: TOLD_BYTES as f64 / times.decode_ns,
        })
    };
    pairs.filter_map(speed).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn a_calibration_that_nobody_waits_for_is_under_way() {
        let one = Arc::default();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let first = alone(&one, move || {
            let _ = wait.recv();
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::ZERO, first).await.is_err(), "its client goes");
        assert_eq!(alone(&one, || Ok(())).await.unwrap_err().code(), Code::FailedPrecondition);
        drop(go_on);
        // Far longer than anything takes.
        drop(tokio::time::timeout(Duration::from_secs(60), one.lock()).await.unwrap());
        alone(&one, || Ok(())).await.unwrap();
    }
}
