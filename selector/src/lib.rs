//! Chooses the codec of each transfer, from numbers alone.
//!
//! A [`Policy`] never sees a buffer, a link or a clock. The sender hands it the [`CheapFacts`] of a transfer;
//! the policy either decides at once or asks for sizes to be estimated first, and later hears what came of
//! it. So every policy can be replayed, step by step, from a list of numbers.
//!
//! ```
//! use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, paper_bits};
//! use mgcomp_selector::{CheapFacts, Estimate, Lambda, Plan, PolicySpec, Steering, StreamId};
//!
//! let payload: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
//! let mut policy = "paper".parse::<PolicySpec>()?.build(&Steering::from(Lambda::try_new(6.0)?));
//! let facts = CheapFacts {
//!     peer: 1,
//!     stream: StreamId(0),
//!     raw_bytes: payload.len() as u64,
//!     element: Element::U32,
//!     allowed: AlgorithmSet::supported(),
//!     link: None,
//!     lambda: None,
//!     is_observed: true,
//! };
//!
//! let decision = match policy.plan(&facts) {
//!     Plan::Use(decision) => decision,
//!     Plan::Sample { algorithms, .. } => {
//!         let estimates: Vec<Estimate> = Algorithm::ALL
//!             .into_iter()
//!             .filter(|&algorithm| algorithms.contains(algorithm))
//!             .filter_map(|algorithm| Some(Estimate { algorithm, bits: paper_bits(algorithm, &payload)? }))
//!             .collect();
//!         policy.choose(&facts, &estimates)
//!     }
//! };
//! assert_eq!(decision.algorithm, Algorithm::Bdi);
//! assert_eq!(decision.reason.to_string(), "sample 1 of 7: lowest penalty of those tried");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`Policy`], [`Plan`] | the contract, and what a policy asks for |
//! | [`CheapFacts`], [`Estimate`], [`Outcome`] | the numbers that go in |
//! | [`Decision`], [`Reason`] | what comes out, and why |
//! | [`LinkFacts`], [`Overlap`] | what is known of a link |
//! | [`speeds`] | how fast codecs are, from measured times |
//! | [`adaptive`] | whatever is predicted to be there first |
//! | [`Behind`] | decisions one transfer behind, where nobody waits for a look at data |
//! | [`DecisionLog`] | what was expected and what came of it, transfer by transfer |
//! | [`Fixed`] | always the same algorithm |
//! | [`paper`] | the adaptive scheme of IPDPS 2019: sampling, vote, running |
//! | [`table3`], [`Cycles`] | codec latencies of the paper's hardware |
//! | [`Lambda`] | the weight of latency against size |
//! | [`PolicySpec`] | policies by name: `adaptive`, `paper`, `fixed:zvc` |

#![forbid(unsafe_code)]

pub mod adaptive;
mod behind;
mod decision;
mod facts;
mod fixed;
mod hardware;
mod lambda;
mod link;
mod log;
pub mod paper;
mod policy;
mod spec;
pub mod speeds;

pub use adaptive::{Adaptive, AdaptiveConfig, AdaptiveConfigError};
pub use behind::{Behind, Look};
pub use decision::{Decision, Reason};
pub use facts::{CheapFacts, Estimate, Outcome, StreamId};
pub use fixed::{Fixed, NoCodec};
pub use hardware::{Cycles, table3};
pub use lambda::{Lambda, LambdaError};
pub use link::{LinkFacts, LinkFactsError, Overlap};
pub use log::{DecisionLog, Record, RecordId};
pub use paper::{Paper, PaperConfig, PaperConfigError};
pub use policy::{Plan, Policy, SampleSize};
pub use spec::{PolicySpec, PolicySpecError, Steering};
