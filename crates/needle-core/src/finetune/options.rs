//! What a fine-tuning run is asked to do.

use crate::lora::AdapterShape;

/// The options of a run. The defaults are the reference's.
#[derive(Clone, Debug, PartialEq)]
pub struct FinetuneOptions {
    /// Times that every row is learnt from.
    pub epochs: usize,
    /// Rows a step.
    pub batch_size: usize,
    /// The learning rate after the warm-up.
    pub learning_rate: f64,
    /// The adapter's size.
    pub adapter: AdapterShape,
    /// Ids of a sequence at most, and never more than the model takes; a longer one loses the end of its completion.
    pub max_len: usize,
    /// Share of the rows that is held out to judge by, 0 for none.
    pub val_split: f64,
    /// Decides the split, the first values and the order of the rows.
    pub seed: u64,
    /// Steps between two looks at the held-out rows; the end of every epoch when absent.
    pub eval_every: Option<usize>,
    /// Looks without a new best after which the run ends, and the best adapter is taken; absent, the last one is.
    pub early_stop: Option<usize>,
}

impl Default for FinetuneOptions {
    fn default() -> Self {
        Self {
            epochs: 3,
            batch_size: 16,
            learning_rate: 1e-4,
            adapter: AdapterShape::default(),
            max_len: 1024,
            val_split: 0.1,
            seed: 0,
            eval_every: None,
            early_stop: None,
        }
    }
}
