//! What a file of `mgcomp-bench gpu` says of an algorithm: its rates by size, and copies that were timed with it.

mod row;

use std::collections::BTreeMap;
use std::path::Path;

use super::codec::Codec;
use crate::data;
use crate::error::BenchError;
use crate::scale::{PLAUSIBLE, middle};
pub(super) use row::Copied;
use row::{Row, Timed};

/// Why a file tells nothing of an algorithm.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ResultsError {
    #[error("line {line} is no row of mgcomp-bench gpu")]
    Row { line: usize, source: serde_json::Error },
    #[error("line {line}: {key} is {value}, but must be from {} to {}", PLAUSIBLE.0, PLAUSIBLE.1)]
    Value { line: usize, key: &'static str, value: f64 },
    #[error("line {line}: a buffer of no bytes")]
    NoBytes { line: usize },
    #[error(
        "line {line}: {bytes} bytes of {dataset} come after {before}; sizes of the same data must ascend"
    )]
    Order { line: usize, dataset: String, bytes: usize, before: f64 },
    #[error("none of its {rows} rows has times of {algorithm:?}")]
    NoRow { rows: usize, algorithm: String },
    #[error("it is not text")]
    Text(#[from] std::string::FromUtf8Error),
}

/// All of an algorithm that matters here.
#[derive(Debug)]
pub(super) struct Results {
    /// On the data that was timed at most sizes and up to the largest; of several, where its encoder was in the middle.
    pub(super) codec: Codec,
    /// On each kind of data.
    pub(super) by_data: BTreeMap<String, Codec>,
    pub(super) copies: Vec<Copied>,
}

/// What the file at `path` says of `algorithm`.
pub(super) fn read(path: &Path, algorithm: &str) -> Result<Results, BenchError> {
    let bytes = data::read(path)?;
    parse(bytes, algorithm).map_err(|source| BenchError::Results { path: path.to_owned(), source })
}

fn parse(bytes: Vec<u8>, algorithm: &str) -> Result<Results, ResultsError> {
    let text = String::from_utf8(bytes)?;
    let (mut rows, mut found) = (0, Found::new(algorithm));
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = line + 1;
        rows += 1;
        found.add(line, serde_json::from_str(text).map_err(|source| ResultsError::Row { line, source })?)?;
    }
    let Found { by_data, copies, .. } = found;
    let no_row = || ResultsError::NoRow { rows, algorithm: algorithm.into() };
    let codec = typical(by_data.values()).cloned().ok_or_else(no_row)?;
    Ok(Results { codec, by_data, copies })
}

/// Of those with most sizes, and among them with the largest, the one whose encoder has the median rate there: no data that
/// flatters it stands for all.
fn typical<'a>(codecs: impl Iterator<Item = &'a Codec>) -> Option<&'a Codec> {
    let reach = |codec: &Codec| (codec.sizes().len(), codec.last().0);
    let mut codecs: Vec<&Codec> = codecs.collect();
    let most =
        codecs.iter().map(|codec| reach(codec)).reduce(|most, of| if of > most { of } else { most })?;
    codecs.retain(|codec| reach(codec) == most);
    middle(codecs, |codec| codec.last().1.encode_gbytes)
}

/// What the lines so far said of an algorithm.
struct Found<'a> {
    algorithm: &'a str,
    device: String,
    by_data: BTreeMap<String, Codec>,
    copies: Vec<Copied>,
}

impl<'a> Found<'a> {
    fn new(algorithm: &'a str) -> Self {
        Self { algorithm, device: "a GPU".into(), by_data: BTreeMap::new(), copies: Vec::new() }
    }

    fn add(&mut self, line: usize, row: Row) -> Result<(), ResultsError> {
        match row {
            Row::Run { device } => self.device = device,
            Row::Time(row) if row.subject == self.algorithm => self.add_times(line, row)?,
            Row::Link(row) if row.subject == self.algorithm => self.copies.extend(row.copies(line)?),
            Row::Offload(row) if row.subject == self.algorithm => self.copies.extend(row.copies(line)?),
            Row::Peer(row) if row.subject == self.algorithm => self.copies.push(row.copy(line)?),
            _ => {}
        }
        Ok(())
    }

    fn add_times(&mut self, line: usize, row: Timed) -> Result<(), ResultsError> {
        let rates = row.rates(line)?;
        let Timed { dataset, bytes, .. } = row;
        let Some(codec) = self.by_data.get_mut(&dataset) else {
            let source = format!("{}, {} on {dataset}", self.device, self.algorithm);
            self.by_data.insert(dataset, Codec::measured(source, bytes, rates));
            return Ok(());
        };
        let before = codec.last().0;
        if bytes as f64 <= before {
            return Err(ResultsError::Order { line, dataset, bytes, before });
        }
        codec.push(bytes, rates);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::Rates;
    use super::super::model::Stages;
    use super::*;

    fn time(subject: &str, dataset: &str, bytes: usize, encode: f64) -> String {
        format!(
            "{{\"kind\":\"time\",\"subject\":\"{subject}\",\"dataset\":\"{dataset}\",\"bytes\":{bytes},\"ratio\":1.5,\
             \"encode_gbps\":{encode},\"decode_gbps\":7,\"copy_gbps\":1}}\n"
        )
    }

    const RUN: &str = "{\"kind\":\"run\",\"device\":\"Some GPU\",\"version\":\"1\"}\n{\"kind\":\"check\",\"check\":\"x\"}\n";
    const LINK: &str = "{\"kind\":\"link\",\"subject\":\"xp\",\"dataset\":\"d\",\"bytes\":64,\"to_host_plain_gbps\":2,\
                        \"to_host_gbps\":3,\"to_device_plain_gbps\":4,\"to_device_gbps\":5}\n";
    const OFFLOAD: &str = "{\"kind\":\"offload\",\"subject\":\"xp\",\"dataset\":\"d\",\"bytes\":64,\"offload_raw_gbps\":6,\
                           \"offload_gbps\":7,\"return_raw_gbps\":8,\"return_gbps\":9}\n";
    const PEER: &str = "{\"kind\":\"peer\",\"subject\":\"xp\",\"dataset\":\"d\",\"bytes\":64,\"to\":\"another device\",\
                        \"is_direct\":true,\"plain_gbps\":10,\"gbps\":11,\"of_codec\":null}\n";

    fn parsed(text: &str) -> Result<Results, ResultsError> {
        parse(text.into(), "xp")
    }

    #[test]
    fn all_sizes_of_the_data_with_most_of_them_count() {
        let rows = [
            time("xp", "d", 64, 5.0),
            time("xp", "once", 128, 9.0),
            time("zvc", "d", 256, 8.0),
            time("xp", "d", 128, 6.0),
        ];
        let results = parsed(&format!("{RUN}{}", rows.concat())).unwrap();
        let rates = |encode_gbytes| Rates { ratio: 1.5, encode_gbytes, decode_gbytes: 7.0 };
        let codec = &results.codec;
        assert_eq!(codec.source, "Some GPU, xp on d");
        assert_eq!(codec.sizes(), [(64.0, rates(5.0)), (128.0, rates(6.0))]);
        assert_eq!(results.by_data["once"].sizes(), [(128.0, rates(9.0))]);
        assert_eq!(results.by_data.len(), 2);
        // Of as many sizes each, that with the larger ones.
        let source = |rows: &[String]| parsed(&rows.concat()).unwrap().codec.source;
        assert_eq!(source(&[time("xp", "d", 64, 5.0), time("xp", "e", 65, 1.0)]), "a GPU, xp on e");
    }

    #[test]
    fn of_data_with_the_same_sizes_the_middle_one_counts() {
        let source = |data: &[(&str, f64)]| {
            let rows: String =
                data.iter().map(|(dataset, encode)| time("xp", dataset, 64, *encode)).collect();
            parsed(&rows).unwrap().codec.source
        };
        assert_eq!(source(&[("d", 5.0), ("e", 1.0), ("f", 4.0)]), "a GPU, xp on f");
        // The second of four, and the first of two.
        assert_eq!(source(&[("d", 5.0), ("e", 1.0), ("f", 4.0), ("g", 2.0)]), "a GPU, xp on g");
        assert_eq!(source(&[("d", 5.0), ("e", 1.0)]), "a GPU, xp on e");
        // The rate at the largest size counts, and not data of fewer sizes.
        let rows = [time("xp", "d", 64, 9.0), time("xp", "e", 64, 1.0), time("xp", "d", 65, 2.0)];
        let more = [time("xp", "e", 65, 3.0), time("xp", "f", 64, 2.0)];
        assert_eq!(parsed(&[rows.concat(), more.concat()].concat()).unwrap().codec.source, "a GPU, xp on d");
    }

    #[test]
    fn each_way_of_a_row_is_a_copy() {
        let through = PEER.replace("true", "false");
        let other = LINK.replace("xp", "zvc");
        let text = [&time("xp", "d", 64, 5.0), LINK, OFFLOAD, PEER, &through, &other].concat();
        let copies = parsed(&text).unwrap().copies;
        let expected = [
            ("to the host", Stages::Encode, 2.0, 3.0),
            ("to the device", Stages::Decode, 4.0, 5.0),
            ("offload", Stages::Encode, 6.0, 7.0),
            ("return", Stages::Decode, 8.0, 9.0),
            ("to another device", Stages::Both, 10.0, 11.0),
            ("to another device through the host", Stages::Both, 10.0, 11.0),
        ];
        let copy = |(way, stages, plain_gbytes, gbytes): (&str, Stages, f64, f64)| Copied {
            way: way.into(),
            dataset: "d".into(),
            stages,
            bytes: 64,
            plain_gbytes,
            gbytes,
        };
        assert_eq!(copies, expected.map(copy));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let good = time("xp", "d", 64, 5.0);
        let cases = [
            ("{}".to_owned(), "line 1 is no row of mgcomp-bench gpu"),
            (good.replace("\"ratio\":1.5,", ""), "line 1 is no row of mgcomp-bench gpu"),
            (format!("{good}{}", PEER.replace("\"gbps\":11,", "")), "line 2 is no row of mgcomp-bench gpu"),
            (good.replace(":64", ":-64"), "line 1 is no row of mgcomp-bench gpu"),
            (time("xp", "d", 1, -1.0), "line 1: encode_gbps is -1, but must be from 0.000001 to 1000000"),
            (time("xp", "d", 1, 0.0), "line 1: encode_gbps is 0, but must be from 0.000001 to 1000000"),
            (time("xp", "d", 1, 2e6), "line 1: encode_gbps is 2000000, but must be from 0.000001 to 1000000"),
            (
                format!("{good}\n{}", LINK.replace("to_host_gbps\":3", "to_host_gbps\":0")),
                "line 3: to_host_gbps is 0, but must be from 0.000001 to 1000000",
            ),
            (time("xp", "d", 0, 1.0), "line 1: a buffer of no bytes"),
            (OFFLOAD.replace(":64", ":0"), "line 1: a buffer of no bytes"),
            (
                format!("{RUN}{good}{}", time("xp", "d", 63, 1.0)),
                "line 4: 63 bytes of d come after 64; sizes of the same data must ascend",
            ),
            (
                format!("{good}{good}"),
                "line 2: 64 bytes of d come after 64; sizes of the same data must ascend",
            ),
            (format!("{RUN}{LINK}"), "none of its 3 rows has times of \"xp\""),
            (time("zvc", "d", 1, 1.0), "none of its 1 rows has times of \"xp\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(&text).unwrap_err().to_string(), expected);
        }
        assert_eq!(parse(vec![0xff], "xp").unwrap_err().to_string(), "it is not text");
    }
}
