//! The held-out rows, asked before and after, of the very numbers that an archive would hold.

use crate::{
    checkpoint::{Adapter, BitMap, Checkpoint},
    data::Row,
    engine::{Engine, EngineOptions},
    error::Result,
    score::{self, EvalOptions, Progress},
    tokenizer::Tokenizer,
};

/// Both answers.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The base alone.
    pub before: score::Report,
    /// The base with the adapter.
    pub after: score::Report,
}

/// Which of the two is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The base alone.
    Before,
    /// The base with the adapter.
    After,
}

/// Packs the base, and the base with the adapter, as `map` says, and asks both the held-out rows along the grammar.
///
/// # Errors
/// As [`Checkpoint::with_adapters`], [`Checkpoint::packed`], [`Engine::new`] and [`score::evaluate`].
pub fn judge(
    base: &Checkpoint,
    tokenizer: &Tokenizer,
    adapter: &Adapter,
    map: &BitMap,
    rows: &[Row],
    options: EngineOptions,
    mut on_progress: impl FnMut(Side, Progress) + Send,
) -> Result<Verdict> {
    let cases = score::cases(rows);
    let mut ask = |side: Side, model: &Checkpoint| {
        let packed = model.with_tokenizer(tokenizer)?.packed(map)?;
        let engine = Engine::new(&packed, options)?;
        score::evaluate(&engine, &cases, &EvalOptions::default(), |progress| {
            on_progress(side, progress)
        })
    };
    let before = ask(Side::Before, base)?;
    let after = ask(Side::After, &base.with_adapters(std::slice::from_ref(adapter))?)?;
    Ok(Verdict { before, after })
}
