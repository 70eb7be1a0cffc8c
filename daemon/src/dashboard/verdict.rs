//! Whether compression helps, in words.

use serde::Serialize;

use crate::snapshot::Totals;

/// A part of all bytes, or of the time that they take on the links, that is not worth a word.
const HARDLY: f64 = 0.01;

/// What the page says first.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    pub(super) state: State,
    pub(super) words: String,
}

/// The same in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// There is nothing to tell.
    Idle,
    /// Nothing is compressed, since somebody says so.
    Off,
    /// It makes no difference, or none that is known.
    Even,
    /// It saves time.
    Helps,
    /// It takes more time than it saves.
    Costs,
}

impl Verdict {
    /// What so many processes have sent comes to; `off` = compression is switched off for all of them.
    pub(super) fn of(processes: usize, off: bool, sums: &Totals) -> Self {
        let sent = sums.sent();
        let kept_off = 1.0 - sent.coded_bytes as f64 / sent.raw_bytes.max(1) as f64;
        let fewer = match kept_off < HARDLY {
            true => "hardly fewer bytes on the links".to_owned(),
            false => format!(
                "{:.0} % fewer bytes on the links (ratio {:.2})",
                kept_off * 100.0,
                sent.raw_bytes as f64 / sent.coded_bytes.max(1) as f64
            ),
        };
        let loses = -(sums.saved_ns as f64) > HARDLY * sums.raw_link_ns;
        let time = time(sums.saved_ns.unsigned_abs());
        let (state, words) = match sums.link_gbps() {
            _ if processes == 0 => (State::Idle, "No program that uses mgcomp runs on this node.".to_owned()),
            _ if off => {
                (State::Off, "It is switched off: everything goes over the links as it is.".to_owned())
            }
            _ if sent.raw_bytes == 0 => {
                (State::Idle, "Too early to tell: nothing has been sent yet.".to_owned())
            }
            _ if kept_off < HARDLY && !loses => (
                State::Even,
                "It makes no difference: data goes as it is, since coding it would not pay.".to_owned(),
            ),
            None => {
                (State::Even, format!("{fewer}; whether that saves time is unknown, as no link's rate is."))
            }
            Some(_) if sums.saved_ns >= 0 => {
                (State::Helps, format!("Yes: {fewer}, which has saved an estimated {time}."))
            }
            Some(_) => (
                State::Costs,
                format!("No: coding has taken an estimated {time} longer than it saved, for {fewer}."),
            ),
        };
        Self { state, words }
    }
}

/// A time for people.
fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds >= 7200.0 {
        format!("{:.1} hours", seconds / 3600.0)
    } else if seconds >= 120.0 {
        format!("{:.0} minutes", seconds / 60.0)
    } else if seconds >= 1.0 {
        format!("{seconds:.1} seconds")
    } else {
        format!("{:.1} milliseconds", seconds * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::control::Count;

    use super::*;
    use crate::played::Played;
    use crate::snapshot::slots_of;

    /// Sums of one algorithm that made 1000 bytes `coded`.
    fn sums(coded_bytes: u64, saved_ns: i64) -> Totals {
        let mut sums = Totals { saved_ns, ..Totals::default() };
        sums.algorithms[4] = Count { transfers: 1, raw_bytes: 1000, coded_bytes };
        sums
    }

    fn state(processes: usize, off: bool, sums: &Totals) -> State {
        Verdict::of(processes, off, sums).state
    }

    #[test]
    fn each_state_is_told_from_the_others() {
        let known = |coded, saved| Totals { rates: 100.0, rated: 1, raw_link_ns: 80.0, ..sums(coded, saved) };
        assert_eq!(state(0, true, &Totals::default()), State::Idle);
        assert_eq!(state(1, false, &Totals::default()), State::Idle);
        assert_eq!(state(1, true, &known(500, 5)), State::Off);
        assert_eq!(state(1, false, &known(1000, 0)), State::Even);
        assert_eq!(state(1, false, &sums(1000, 0)), State::Even);
        let for_nothing = Verdict::of(1, false, &known(1000, -5));
        assert_eq!(for_nothing.state, State::Costs);
        assert!(for_nothing.words.ends_with("for hardly fewer bytes on the links."), "{for_nothing:?}");
        assert_eq!(state(1, false, &sums(500, 0)), State::Even);
        let helps = Verdict::of(2, false, &known(400, 90_000_000_000));
        assert_eq!(
            (helps.state, helps.words.as_str()),
            (
                State::Helps,
                "Yes: 60 % fewer bytes on the links (ratio 2.50), which has saved an estimated 90.0 seconds."
            )
        );
        let costs = Verdict::of(2, false, &known(400, -2_500_000));
        assert_eq!(costs.state, State::Costs);
        assert!(costs.words.starts_with("No: coding has taken an estimated 2.5 milliseconds"), "{costs:?}");
    }

    #[test]
    fn a_loss_is_held_against_what_each_link_takes() {
        // 80 s over TCP and 0.02 s over shared memory; at the mean of both rates all of it would take 4 s.
        let mut sums = Totals::default();
        let mut played = Played::new("a", 0);
        for (peer, gbytes, gbps) in [(1, 100, 10.0), (2, 1, 400.0)] {
            let slot = played.sends(peer, gbytes * 1_000_000_000);
            played.goes_over(slot, gbps);
        }
        slots_of(&played.page(), 2).iter().for_each(|(_, slot)| sums.add(slot, None));
        for (lost_ms, told) in [(500, State::Even), (900, State::Costs)] {
            let sums = Totals { saved_ns: -lost_ms * 1_000_000, ..sums.clone() };
            assert_eq!(state(1, false, &sums), told, "{lost_ms} ms");
        }
    }
}
