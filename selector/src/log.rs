//! What was decided, what was expected of it, and what came of it.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::decision::Micros;
use crate::{CheapFacts, Decision, Outcome};

/// Names a record of a [`DecisionLog`]: how many there were before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// One transfer: the decision and its outcome.
///
/// Displays as one line for an operator; serialises as one flat object, names, times in nanoseconds and the paper's
/// cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Which.
    pub id: RecordId,
    /// What the decision was made from.
    pub facts: CheapFacts,
    /// What was decided, and what was expected of it.
    pub decision: Decision,
    /// What came of it.
    pub outcome: Outcome,
}

/// The last decisions of a sender, the oldest forgotten first.
#[derive(Clone, Debug)]
pub struct DecisionLog {
    records: VecDeque<Record>,
    capacity: usize,
    /// Records that there ever were.
    total: u64,
}

impl DecisionLog {
    /// What a sender keeps unless told otherwise.
    pub const DEFAULT_CAPACITY: usize = 1024;

    /// A log of at most `capacity` records; with none it only counts.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { records: VecDeque::new(), capacity, total: 0 }
    }

    /// Notes a transfer that has been coded.
    pub fn push(&mut self, facts: CheapFacts, decision: Decision, outcome: Outcome) -> RecordId {
        let id = RecordId(self.total);
        self.total += 1;
        if self.records.len() >= self.capacity {
            self.records.pop_front();
        }
        if self.capacity > 0 {
            self.records.push_back(Record { id, facts, decision, outcome });
        }
        id
    }

    /// Notes when the peer acknowledged it, if it is still remembered.
    pub fn acknowledged(&mut self, id: RecordId, after: Duration) {
        if let Some(record) = self.record(id) {
            record.outcome.acknowledged = Some(after);
        }
    }

    /// Notes how long the peer took to decode it, if it is still remembered.
    pub fn decoded(&mut self, id: RecordId, took: Duration) {
        if let Some(record) = self.record(id) {
            record.outcome.decode = Some(took);
        }
    }

    fn record(&mut self, id: RecordId) -> Option<&mut Record> {
        let forgotten = self.total - self.records.len() as u64;
        let index = id.0.checked_sub(forgotten).and_then(|index| usize::try_from(index).ok());
        self.records.get_mut(index?)
    }

    /// What is remembered, the oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// How many decisions there ever were.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

impl Default for DecisionLog {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}

impl Record {
    /// Bits that went on the link for the payload.
    #[must_use]
    pub const fn coded_bits(&self) -> u64 {
        self.outcome.coded_bytes.saturating_mul(8)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, facts, decision, outcome } = self;
        write!(
            f,
            "#{} to {} stream {:#x}: {} {} bytes as {}, {} on the link",
            id.0,
            facts.peer,
            facts.stream.0,
            facts.raw_bytes,
            facts.element,
            outcome.sent,
            outcome.coded_bytes
        )?;
        if outcome.sent != decision.algorithm {
            write!(f, " ({} saved nothing)", decision.algorithm)?;
        }
        if let Some(bits) = decision.predicted_bits {
            write!(f, ", {} expected", bits.div_ceil(8))?;
        }
        if let Some(ns) = decision.predicted_ns {
            write!(f, ", predicted {}", Micros(ns))?;
        }
        if let Some(cycles) = decision.charged.filter(|cycles| cycles.total() > 0) {
            write!(f, ", charged {} + {} cycles", cycles.compress, cycles.decompress)?;
        }
        if let Some(encode) = outcome.encode {
            write!(f, ", coded in {encode:.1?}")?;
        }
        if let Some(decode) = outcome.decode {
            write!(f, ", decoded in {decode:.1?}")?;
        }
        if let Some(sampling) = outcome.sampling {
            write!(f, ", sampled in {sampling:.1?}")?;
        }
        if let Some(acknowledged) = outcome.acknowledged {
            write!(f, ", acknowledged after {acknowledged:.1?}")?;
        }
        write!(f, ": {}", decision.reason)
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, facts, decision, outcome } = self;
        let ns = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut record = serializer.serialize_struct("Record", 19)?;
        record.serialize_field("id", &id.0)?;
        record.serialize_field("peer", &facts.peer)?;
        record.serialize_field("stream", &facts.stream.0)?;
        record.serialize_field("element", facts.element.name())?;
        record.serialize_field("raw_bytes", &facts.raw_bytes)?;
        record.serialize_field("link_gbps", &facts.link.map(|link| link.rate_gbps()))?;
        record.serialize_field("link_latency_ns", &facts.link.map(|link| link.latency_ns()))?;
        record.serialize_field("decided", decision.algorithm.name())?;
        record.serialize_field("reason", &decision.reason.to_string())?;
        record.serialize_field("sent", outcome.sent.name())?;
        record.serialize_field("predicted_bits", &decision.predicted_bits)?;
        record.serialize_field("coded_bits", &self.coded_bits())?;
        record.serialize_field("predicted_ns", &decision.predicted_ns)?;
        record.serialize_field("charged_compress_cycles", &decision.charged.map(|cycles| cycles.compress))?;
        record.serialize_field(
            "charged_decompress_cycles",
            &decision.charged.map(|cycles| cycles.decompress),
        )?;
        record.serialize_field("acknowledged_ns", &ns(outcome.acknowledged))?;
        record.serialize_field("sampling_ns", &ns(outcome.sampling))?;
        record.serialize_field("encode_ns", &ns(outcome.encode))?;
        record.serialize_field("decode_ns", &ns(outcome.decode))?;
        record.end()
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

    use super::*;
    use crate::{Cycles, LinkFacts, Overlap, Reason, StreamId};

    fn push(log: &mut DecisionLog, raw_bytes: u64) -> RecordId {
        let facts = CheapFacts {
            peer: 3,
            stream: StreamId(16),
            raw_bytes,
            element: Element::Bf16,
            allowed: AlgorithmSet::supported(),
            link: LinkFacts::try_new(10.0, 500, Overlap::None).ok(),
            lambda: None,
            is_observed: true,
        };
        let decision = Decision {
            algorithm: Algorithm::Xp,
            reason: Reason::Fastest { predicted_ns: 700_000, raw_ns: 838_861 },
            predicted_bits: Some(raw_bytes * 6),
            predicted_ns: Some(700_000),
            charged: None,
        };
        let outcome = Outcome {
            sent: Algorithm::Xp,
            coded_bytes: raw_bytes / 2,
            sampling: None,
            encode: Some(Duration::from_nanos(95_300)),
            decode: None,
            acknowledged: None,
        };
        log.push(facts, decision, outcome)
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut log = DecisionLog::new(3);
        let ids: Vec<_> = (1..=5).map(|bytes| push(&mut log, bytes)).collect();
        assert_eq!(log.records().map(|record| record.facts.raw_bytes).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(log.total(), 5);
        for &id in &ids {
            log.acknowledged(id, Duration::from_nanos(id.0));
        }
        log.acknowledged(RecordId(99), Duration::ZERO);
        log.decoded(RecordId(0), Duration::ZERO);
        log.decoded(RecordId(3), Duration::from_nanos(7));
        let decoded: Vec<_> = log.records().map(|record| record.outcome.decode).collect();
        assert_eq!(decoded, [None, Some(Duration::from_nanos(7)), None]);
        let acknowledged: Vec<_> = log.records().map(|record| record.outcome.acknowledged).collect();
        assert_eq!(acknowledged, [2, 3, 4].map(|ns| Some(Duration::from_nanos(ns))));

        let mut nothing = DecisionLog::new(0);
        let id = push(&mut nothing, 1);
        nothing.acknowledged(id, Duration::ZERO);
        assert_eq!((nothing.records().count(), nothing.total()), (0, 1));
    }

    #[test]
    fn a_record_reads_as_a_line() {
        let mut log = DecisionLog::default();
        let id = push(&mut log, 1 << 20);
        log.acknowledged(id, Duration::from_micros(712));
        assert_eq!(
            log.records().next().unwrap().to_string(),
            "#0 to 3 stream 0x10: 1048576 bf16 bytes as xp, 524288 on the link, 786432 expected, predicted 700.0 us, \
             coded in 95.3µs, acknowledged after 712.0µs: there first: 700.0 us instead of 838.8 us raw"
        );
    }

    #[test]
    fn lines_and_objects_tell_what_the_papers_hardware_takes() {
        let mut log = DecisionLog::default();
        push(&mut log, 128);
        let mut record = *log.records().next().unwrap();
        record.decision = Decision {
            algorithm: Algorithm::Bdi,
            reason: Reason::Won { votes: 4, of: 7 },
            predicted_bits: None,
            predicted_ns: None,
            charged: Some(Cycles { compress: 4, decompress: 2 }),
        };
        record.outcome = Outcome {
            sent: Algorithm::Bdi,
            encode: None,
            decode: Some(Duration::from_nanos(1_500)),
            ..record.outcome
        };
        assert_eq!(
            record.to_string(),
            "#0 to 3 stream 0x10: 128 bf16 bytes as bdi, 64 on the link, charged 4 + 2 cycles, decoded in 1.5µs: had the \
             lowest penalty in 4 of 7 samples"
        );
        let value = serde_json::to_value(record).unwrap();
        assert_eq!(
            (&value["charged_compress_cycles"], &value["charged_decompress_cycles"]),
            (&4.into(), &2.into())
        );
        // What costs nothing is not worth a word.
        record.decision.charged = Some(Cycles::ZERO);
        assert!(!record.to_string().contains("charged"));
        assert_eq!(serde_json::to_value(record).unwrap()["charged_compress_cycles"], 0);
    }

    #[test]
    fn a_record_is_a_flat_object() {
        let mut log = DecisionLog::default();
        push(&mut log, 1 << 20);
        let value = serde_json::to_value(log.records().next().unwrap()).unwrap();
        let expected = serde_json::json!({
            "id": 0, "peer": 3, "stream": 16, "element": "bf16", "raw_bytes": 1_048_576,
            "link_gbps": 10.0, "link_latency_ns": 500,
            "decided": "xp", "reason": "there first: 700.0 us instead of 838.8 us raw", "sent": "xp",
            "predicted_bits": 6_291_456, "coded_bits": 4_194_304,
            "predicted_ns": 700_000, "charged_compress_cycles": null, "charged_decompress_cycles": null,
            "acknowledged_ns": null,
            "sampling_ns": null, "encode_ns": 95_300, "decode_ns": null,
        });
        assert_eq!(value, expected);
    }
}
