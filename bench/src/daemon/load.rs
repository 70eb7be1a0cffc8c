//! What clients do to the daemon.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use http::Uri;
use mgcomp_proto::Channel;
use mgcomp_proto::v1::control_client::ControlClient;
use mgcomp_proto::v1::{
    GetHistogramRequest, ListJobsRequest, ListStreamsRequest, Measure, Settings, UpdateSettingsRequest,
    WatchRequest, WatchResponse,
};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::{Status, Streaming};

use crate::error::BenchError;

/// Changes under way at the same time.
const CHANGES_AT_ONCE: usize = 64;
/// How often is looked whether something holds.
const LOOK: Duration = Duration::from_millis(1);
/// Time between updates to a watcher.
const WATCH_MS: u32 = 500;

type Client = ControlClient<Channel>;

/// Clients of a daemon.
pub(super) struct Load {
    socket: std::path::PathBuf,
    client: Client,
}

impl Load {
    /// Waits until the daemon is there.
    pub(super) async fn connect(socket: &Path) -> Result<Self, BenchError> {
        Ok(Self { socket: socket.to_owned(), client: connect(socket).await? })
    }

    /// Waits until so many processes with so many streams each are seen.
    pub(super) async fn until_seen(
        &self,
        processes: u32,
        streams: u64,
        patience: Duration,
    ) -> Result<(), BenchError> {
        let started = Instant::now();
        loop {
            let jobs = self.client.clone().list_jobs(ListJobsRequest::default()).await?.into_inner().jobs;
            let seen = jobs.iter().map(|job| job.processes).sum::<u32>();
            let streams_seen = jobs.iter().map(|job| u64::from(job.streams)).sum::<u64>();
            if (seen, streams_seen) == (processes, u64::from(processes) * streams) {
                return Ok(());
            }
            if started.elapsed() > patience {
                return Err(BenchError::NotSeen { processes, seen });
            }
            tokio::time::sleep(LOOK * 20).await;
        }
    }

    /// Median and slowest of so many calls.
    pub(super) async fn list_jobs(&self, calls: usize) -> Result<(Duration, Duration), BenchError> {
        let mut times = Vec::new();
        for _ in 0..calls {
            let started = Instant::now();
            self.client.clone().list_jobs(ListJobsRequest::default()).await?;
            times.push(started.elapsed());
            tokio::time::sleep(LOOK * 10).await;
        }
        times.sort();
        Ok((times[times.len() / 2], times[times.len() - 1]))
    }

    pub(super) async fn list_streams(&self) -> Result<Duration, BenchError> {
        let mut client = self.client.clone();
        let jobs = client.list_jobs(ListJobsRequest::default()).await?.into_inner().jobs;
        let started = Instant::now();
        for job in jobs {
            client.list_streams(ListStreamsRequest { job: job.id, peer: None }).await?;
        }
        Ok(started.elapsed())
    }

    /// Lets the daemon touch all histograms.
    pub(super) async fn histogram(&self) -> Result<(), BenchError> {
        for measure in [Measure::RawBytes, Measure::EncodeNs, Measure::SizePermille] {
            let request = GetHistogramRequest { scope: None, measure: measure.into() };
            self.client.clone().get_histogram(request).await?;
        }
        Ok(())
    }

    /// How many changes there were in a time, and the λ of the last one.
    pub(super) async fn changes(&self, time: Duration) -> Result<(f64, f64), BenchError> {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..CHANGES_AT_ONCE {
            let mut client = self.client.clone();
            tasks.spawn(async move {
                let mut changes = 0u32;
                while started.elapsed() < time {
                    client.update_settings(set(f64::from(changes) + task as f64 / 64.0)).await?;
                    changes += 1;
                }
                Ok::<_, BenchError>(changes)
            });
        }
        let mut sum = 0.0;
        while let Some(changes) = tasks.join_next().await {
            sum += f64::from(changes.map_err(|error| BenchError::Daemon(std::io::Error::other(error)))??);
        }
        let last = 12_345.0;
        self.client.clone().update_settings(set(last)).await?;
        Ok((sum, last))
    }

    /// How long until a λ is on disk.
    pub(super) async fn until_kept(
        &self,
        file: &Path,
        lambda_gbps: f64,
        patience: Duration,
    ) -> Result<Duration, BenchError> {
        let started = Instant::now();
        let wanted = format!("\"lambda_gbps\":{lambda_gbps:?}");
        while !fs::read_to_string(file).unwrap_or_default().contains(&wanted) {
            if started.elapsed() > patience {
                return Err(BenchError::NotKept { lambda_gbps });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(started.elapsed())
    }

    /// How long until something holds after λ was set.
    pub(super) async fn until_applied(
        &self,
        lambda_gbps: f64,
        mut holds: impl FnMut() -> bool,
    ) -> Result<Duration, BenchError> {
        let started = Instant::now();
        self.client.clone().update_settings(set(lambda_gbps)).await?;
        while !holds() {
            if started.elapsed() > Duration::from_secs(30) {
                return Err(BenchError::NotKept { lambda_gbps });
            }
        }
        Ok(started.elapsed())
    }

    /// Which part of the updates that were due so many watchers got, and the median of calls meanwhile.
    pub(super) async fn watchers(
        &self,
        watchers: u32,
        time: Duration,
    ) -> Result<(f64, Duration), BenchError> {
        let mut tasks = JoinSet::new();
        let started = Instant::now();
        for _ in 0..watchers {
            let mut client = connect(&self.socket).await?;
            tasks.spawn(async move {
                let request = WatchRequest { interval_ms: WATCH_MS, ..WatchRequest::default() };
                let mut updates = client.watch(request).await?.into_inner();
                Ok::<_, BenchError>(count(&mut updates, started + time).await?)
            });
        }
        let (median, _) = self.list_jobs(20).await?;
        let mut updates = 0.0;
        while let Some(count) = tasks.join_next().await {
            updates += f64::from(count.map_err(|error| BenchError::Daemon(std::io::Error::other(error)))??);
        }
        let due = time.as_secs_f64() * 1e3 / f64::from(WATCH_MS) * f64::from(watchers);
        Ok((updates / due, median))
    }
}

/// What comes to a watcher.
trait Updates {
    /// Waits for the next update; whether there is one.
    fn next(&mut self) -> impl Future<Output = Result<bool, Status>> + Send;
}

impl Updates for Streaming<WatchResponse> {
    async fn next(&mut self) -> Result<bool, Status> {
        Ok(self.message().await?.is_some())
    }
}

/// How many updates come until then, or until there are no more. One that is late is none.
async fn count(updates: &mut impl Updates, until: Instant) -> Result<u32, Status> {
    let mut count = 0;
    while updates.next().await? && Instant::now() < until {
        count += 1;
    }
    Ok(count)
}

fn set(lambda_gbps: f64) -> UpdateSettingsRequest {
    let set = Settings { lambda_gbps: Some(lambda_gbps), ..Settings::default() };
    UpdateSettingsRequest { set: Some(set), ..UpdateSettingsRequest::default() }
}

async fn connect(socket: &Path) -> Result<Client, BenchError> {
    let started = Instant::now();
    let stream = loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => break stream,
            Err(error) if started.elapsed() > Duration::from_secs(30) => {
                return Err(BenchError::Daemon(error));
            }
            Err(_) => tokio::time::sleep(LOOK * 20).await,
        }
    };
    let channel = Channel::open(stream, None)
        .await
        .map_err(|error| BenchError::Daemon(std::io::Error::other(error)))?;
    let origin = Uri::from_static("http://mgcomp-daemon");
    Ok(ControlClient::with_origin(channel, origin).max_decoding_message_size(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as are left, and what is asked after them.
    struct Left(i32);

    impl Updates for Left {
        async fn next(&mut self) -> Result<bool, Status> {
            self.0 -= 1;
            Ok(self.0 >= 0)
        }
    }

    #[test]
    fn the_end_of_updates_is_none() {
        let mut left = Left(3);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let never = Instant::now() + Duration::from_secs(1000);
        assert_eq!(runtime.block_on(count(&mut left, never)).unwrap(), 3);
        assert_eq!(left.0, -1, "asked on after the end");
        assert_eq!(runtime.block_on(count(&mut Left(3), Instant::now())).unwrap(), 0, "late ones");
    }
}
