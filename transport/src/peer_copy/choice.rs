//! Whether and how copies are coded.

use std::fmt;
use std::time::Duration;

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    Behind, CheapFacts, Decision, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Reason, StreamId,
};

use super::codecs::chunk_size;
use super::cut::Cut;
use super::turns::{Link, Watches};
use super::{CopyPath, PeerCopyConfig};
use crate::control::{self, Copies, Made, PolicyName, Settings, SizeGate};
use crate::cuda::probe::{Answer, Question};
use crate::executor::cuda::estimate;
use crate::memory::DeviceSlice;

/// What takes so many times as long as the link does for its bytes takes that time by itself.
const BEYOND_THE_LINK: f64 = 1.25;

/// A policy, and what it has found out.
pub(super) struct Choice {
    policy: Box<dyn Policy>,
    /// Where an operator sees and steers it, if there is a page.
    copies: Option<Copies>,
    /// What the policy chose when it last looked at data.
    behind: Behind,
    /// Whether what is looked at now was asked for under other settings.
    is_stale: bool,
    link: Link,
    /// Whether the policy goes by how fast that is, as far as it depends on the settings.
    goes_by_link: bool,
    cut: Cut,
    watches: Watches,
    allowed: AlgorithmSet,
    own: PeerCopyConfig,
    /// Shorter copies are plain unseen.
    gate_bytes: u64,
    chunk_size: ChunkSize,
    /// The numbers of the devices that bytes come from and go to.
    devices: [u32; 2],
    is_off: bool,
}

/// What becomes of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) algorithm: Algorithm,
    /// Why.
    pub(super) made: Made,
    /// What the policy would like to know of it.
    pub(super) question: Option<Question>,
    /// Whether it shows how fast the link is.
    pub(super) is_timed: bool,
    /// Whether it is to be heard of again, with what it has shown.
    pub(super) is_watched: bool,
}

impl Choice {
    /// For copies between `devices` with the algorithms `allowed`, in segments as `cut` says. The
    /// `policy` is that of `config`, under the settings of `copies` if there is a page.
    pub(super) fn new(
        config: &PeerCopyConfig,
        (policy, copies): (Box<dyn Policy>, Option<Copies>),
        (allowed, cut): (AlgorithmSet, Cut),
        devices: [u32; 2],
    ) -> Self {
        let goes_by_link = config.policy == PolicySpec::Adaptive && config.lambda.is_none();
        let link = match config.link {
            None if goes_by_link || copies.is_some() => Link::timed(),
            link => Link::Stated(link),
        };
        Self {
            policy,
            copies,
            behind: Behind::default(),
            is_stale: false,
            link,
            goes_by_link,
            cut,
            watches: Watches::of(Algorithm::None),
            allowed,
            own: *config,
            gate_bytes: config.gate_bytes,
            chunk_size: chunk_size(cut.longest_bytes.min(config.most_bytes)),
            devices,
            is_off: control::is_switched_off(),
        }
    }

    /// Whether anybody counts what copies become.
    pub(super) const fn counts(&self) -> bool {
        self.copies.is_some()
    }

    /// Takes over what an operator has set by now.
    pub(super) fn look(&mut self) {
        if self.copies.as_mut().is_some_and(Copies::look) {
            self.steer();
        }
    }

    #[cold]
    fn steer(&mut self) {
        let Some(copies) = &self.copies else { return };
        let Settings { policy, lambda, gate, compress, .. } = *copies.settings();
        let (own, wanted) = (self.own.policy, policy.map_or(self.own.policy, PolicyName::spec));
        // The program's λ is that of its own policy.
        let lambda = lambda.or(self.own.lambda.filter(|_| wanted == own));
        self.goes_by_link = wanted == PolicySpec::Adaptive && lambda.is_none() && compress != Some(false);
        // Neither is what another policy has chosen, nor what it has asked for.
        (self.behind, self.is_stale) = (Behind::default(), true);
        // Below both gates nobody is asked; between the program's and a higher one, the policy says that copies are too short.
        self.gate_bytes = gate.map_or(u64::MAX, SizeGate::least_bytes).min(self.own.gate_bytes);
    }

    /// Whether copies of so many bytes are plain, and nobody is asked.
    pub(super) const fn is_short(&self, raw_bytes: u64) -> bool {
        raw_bytes < self.gate_bytes
    }

    /// How a copy is to be coded, without a look at its bytes. `can_time` says whether it can be timed if it is plain, `can_watch`
    /// whether it can be watched if it is coded: a trial that nobody watches would be in vain.
    pub(super) fn choose(
        &mut self,
        (element, raw_bytes): (Element, u64),
        can_time: bool,
        can_watch: bool,
    ) -> Chosen {
        let facts = CheapFacts { is_observed: can_watch, ..self.facts(element, raw_bytes) };
        let chunk_size = self.chunk_size;
        let plain = |reason| Chosen {
            algorithm: Algorithm::None,
            made: (facts, Decision::bypass(&facts, reason)),
            question: None,
            is_timed: false,
            is_watched: false,
        };
        if self.is_off {
            return plain(Reason::SwitchedOff);
        }
        let (decision, look) = self.behind.plan(self.policy.as_mut(), &facts);
        let question = look.map(|(algorithms, size)| Question { facts, chunk_size, algorithms, size });
        let (algorithm, made) = (decision.algorithm, (facts, decision));
        if can_time && self.goes_by_link && self.link.is_due(algorithm) {
            return Chosen { made, question, is_timed: true, ..plain(decision.reason) };
        }
        let is_watched = can_watch && self.watches.is_due(algorithm);
        Chosen { algorithm, made, question, is_timed: false, is_watched }
    }

    /// What the policy has asked is looked at now.
    pub(super) const fn asked(&mut self) {
        self.is_stale = false;
    }

    /// Hears that a copy is on its way, or cannot be. One that is watched counts when it is over.
    pub(super) fn enqueued(&mut self, chosen: &Chosen, path: Option<CopyPath>) {
        let (Some(copies), (facts, _)) = (&mut self.copies, &chosen.made) else { return };
        match path {
            _ if facts.raw_bytes == 0 => {}
            None => copies.failed(),
            Some(CopyPath::Coded(_) | CopyPath::CodedThroughHost(_)) if chosen.is_watched => {}
            Some(CopyPath::Coded(algorithm) | CopyPath::CodedThroughHost(algorithm)) => {
                copies.went(&chosen.made, algorithm);
            }
            Some(CopyPath::Plain | CopyPath::PlainThroughHost) => copies.went(&chosen.made, Algorithm::None),
        }
    }

    /// Hears that a copy that was watched came to nothing, or shows nothing.
    pub(super) fn failed(&self) {
        if let Some(copies) = &self.copies {
            copies.failed();
        }
    }

    /// Hears what a coded copy has become, and what the kernels at both ends took.
    pub(super) fn observe(&mut self, made: &Made, coded_bytes: u64, [encode, decode]: [Duration; 2]) {
        let (facts, decision) = made;
        // A kernel that uses the link takes no less than that does, which is not its own time.
        let wire_ns = self.link().map(|link| 8.0 * coded_bytes as f64 / link.rate_gbps());
        let own = |took: Duration| {
            wire_ns.is_some_and(|wire_ns| took.as_nanos() as f64 > BEYOND_THE_LINK * wire_ns).then_some(took)
        };
        let is_relayed = matches!(self.cut.overlap(facts.raw_bytes), Overlap::Relayed(_));
        let outcome = Outcome {
            sent: decision.algorithm,
            coded_bytes,
            sampling: None,
            encode: own(encode),
            decode: if is_relayed { own(decode) } else { Some(decode) },
            acknowledged: None,
        };
        self.policy.observe(facts, decision, &outcome);
        if let Some(copies) = &mut self.copies {
            copies.showed(made, &outcome);
        }
    }

    /// Hears what was found in copies that were made. What was asked before settings changed is no answer any more.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        if self.is_stale {
            return;
        }
        for (facts, estimates) in answers {
            self.behind.hear(self.policy.as_mut(), &facts, &estimates);
        }
    }

    /// Hears how long a plain copy took: once over the link, or twice.
    pub(super) fn timed(&mut self, raw_bytes: u64, took: Duration) {
        let Link::Timed(timed) = &mut self.link else { return };
        let once = match self.cut.overlap(raw_bytes) {
            Overlap::Relayed(segment_bytes) => {
                // The second pass of a segment goes beside the first of the next.
                let segments = raw_bytes.div_ceil(segment_bytes).max(1) as f64;
                took.mul_f64(segments / (segments + 1.0))
            }
            _ => took,
        };
        timed.rate.learn(raw_bytes, once);
    }

    /// What is known of the link, for copies of the longest segment.
    pub(super) fn link(&self) -> Option<LinkFacts> {
        match &self.link {
            Link::Stated(link) => *link,
            Link::Timed(timed) => timed.rate.facts(self.cut.overlap(self.cut.longest_bytes)),
        }
    }

    /// Lets the policy look at some data, if it wants to. Waits for that, also while other threads record.
    pub(super) fn learn(&mut self, element: Element, data: &DeviceSlice) {
        self.look();
        let facts = self.facts(element, data.len() as u64);
        if let Plan::Sample { algorithms, size } = self.policy.plan(&facts) {
            let estimates = data.device().relaxed(|| estimate(data, element, algorithms, size));
            // Whatever else is looked at may still have been asked for under other settings.
            let is_stale = std::mem::take(&mut self.is_stale);
            self.hear(vec![(facts, estimates)]);
            self.is_stale = is_stale;
        }
    }

    fn facts(&self, element: Element, raw_bytes: u64) -> CheapFacts {
        // However codecs and link overlap where it was stated, here they do as they do.
        let link = self.link().and_then(|link| link.with_overlap(self.cut.overlap(raw_bytes)).ok());
        let (allowed, [from, to]) = (self.allowed, self.devices);
        CheapFacts {
            peer: to,
            stream: StreamId(from),
            raw_bytes,
            element,
            allowed,
            link,
            lambda: None,
            is_observed: true,
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("policy", &self.policy)
            .field("behind", &self.behind)
            .field("link", &self.link)
            .finish()
    }
}
