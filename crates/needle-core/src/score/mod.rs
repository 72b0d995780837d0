//! How often a model calls what was wanted: cases answered one by one, compared, counted, with intervals.
//!
//! ```no_run
//! use needle_core::{DeviceSpec, Engine, data::Dataset, score};
//! let data = Dataset::open("examples/finetune.jsonl".as_ref())?;
//! let engine = Engine::demo(DeviceSpec::Cpu)?;
//! let report = score::evaluate(&engine, &score::cases(&data.rows), &score::EvalOptions::default(), |_| {})?;
//! println!("{}", report.markdown());
//! # Ok::<(), needle_core::Error>(())
//! ```
//!
//! What counts as what:
//! - **Exact call**: the same calls, each as often as wanted, in any order, because parallel calls have none. Arguments are
//!   equal when they have the same keys, in any order, and equal values: numbers by value (3 is 3.0), texts to the letter, lists in
//!   order. A refusal is exact when nothing is called.
//! - **Tools**: of the cases that want calls, those whose calls have the wanted names, each as often.
//! - **Arguments**: a call made is held against the wanted call of its name that it is most like. Precision is the share of
//!   arguments given that are right, recall the share of arguments wanted that were given right; every argument of a call that
//!   was not wanted, or not made, counts as wrong.
//! - **Refusals**: of the cases that want no call, those without one.
//! - A case without a whole answer (it does not fit the window, was cut short, or is no list of calls) is wrong everywhere and
//!   counted as a fault.
//!
//! Shares carry Wilson's 95 % interval. BFCL's files are read by [`bfcl`]; as its own checker does, several values may be right
//! there, and texts are compared without capitals, spaces and some marks.

pub mod bfcl;
mod case;
mod compare;
mod evaluate;
mod expected;
mod markdown;
mod reliability;
mod report;
mod share;

pub use case::{Case, cases};
pub use compare::{ArgumentCounts, Comparison, compare};
pub use evaluate::{EvalOptions, Form, Progress, evaluate};
pub use expected::{Allowed, ExpectedArgument, ExpectedCall, Presence, Wording};
pub use reliability::{Bin, Reliability, Threshold};
pub use report::{Outcome, Report, Scores};
pub use share::Share;
