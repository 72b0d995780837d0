//! Measurements, always of a release build: `cargo xtask bench NAME [ARG…]`.
//!
//! One file a benchmark, each a function from its arguments to a printed table. They stand behind the feature `bench`,
//! which brings the library: the other tasks need not wait for candle.

#[cfg(feature = "bench")]
mod bfcl;
#[cfg(feature = "bench")]
mod finetune;
#[cfg(feature = "bench")]
mod grammar;
#[cfg(feature = "bench")]
mod inference;
#[cfg(feature = "bench")]
mod ops;
#[cfg(feature = "bench")]
mod random_model;
#[cfg(feature = "bench")]
mod speed;
#[cfg(feature = "bench")]
mod startup;
#[cfg(feature = "bench")]
mod timing;

use anyhow::Result;

/// Name, what it measures, the function.
#[cfg(feature = "bench")]
type Bench = (&'static str, &'static str, fn(&[&str]) -> Result<()>);

#[cfg(feature = "bench")]
const BENCHES: &[Bench] = &[
    (
        "bfcl",
        "the grammar against every schema and answer of the Berkeley function-calling data (fetched from PyPI)",
        |_| bfcl::run(&crate::cargo::root().join("target/bfcl")),
    ),
    (
        "finetune",
        "[--ours | --python PATH] a fine-tuning step of the full geometry, beside the JAX reference",
        finetune::run,
    ),
    (
        "grammar",
        "compiling 20 tools, a mask and a step a token, with 8,192 pieces",
        |_| {
            let model = std::fs::read(crate::cargo::root().join("tests/golden/gen2/tokenizer.model"))?;
            let tokenizer = needle_core::Tokenizer::from_sentencepiece(&model)?;
            grammar::run(&needle_core::grammar::Vocabulary::of(&tokenizer)?)
        },
    ),
    (
        "inference",
        "1|2 FILE… our engine with so many threads beside needle-infer 0.3.1 (fetched from crates.io) on these archives",
        inference::run,
    ),
    (
        "ops",
        "FILE… every operation of a decode step and of a prefill, in both numerics",
        ops::run,
    ),
    (
        "speed",
        "DEVICE full|small: tokens a second with random weights, as JSON lines",
        speed::run,
    ),
    (
        "startup",
        "[ARG…] whole runs of `needle ARG…`, by default `needle --version`",
        startup::run,
    ),
];

/// Runs the benchmark that `args` begins with; without arguments it prints the list.
#[cfg(feature = "bench")]
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let Some((name, rest)) = args.split_first() else {
        for (name, about, _) in BENCHES {
            println!("{name:<12} {about}");
        }
        return Ok(());
    };
    match BENCHES.iter().find(|(known, _, _)| known == name) {
        Some((_, _, bench)) => bench(rest),
        None => anyhow::bail!("no benchmark is called {name}; `cargo xtask bench` lists them"),
    }
}

/// This build has neither the library nor optimisation: hand over to one that has both.
#[cfg(not(feature = "bench"))]
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let mut build = crate::cargo::cargo(&[
        "run",
        "--release",
        "--package",
        "xtask",
        "--features",
        "bench",
        "--",
        "bench",
    ]);
    crate::cargo::run(build.args(args))
}
