//! How a model is made, as JSON.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tokenizer::TokenizerOptions;

/// A recipe. What it leaves out has a default.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The geometry, in the fields of a checkpoint's configuration; the vocabulary's size is the tokenizer's.
    pub model: Map<String, Value>,
    /// The tokenizer.
    #[serde(default)]
    pub tokenizer: TokenizerRecipe,
    /// Optimiser steps.
    pub steps: usize,
    /// Rows a step.
    #[serde(default = "batch_size")]
    pub batch_size: usize,
    /// The learning rate after the warm-up.
    #[serde(default = "learning_rate")]
    pub learning_rate: f64,
    /// Tokens of a row; a longer one is left out.
    #[serde(default = "max_len")]
    pub max_len: usize,
    /// Share of the rows held out to judge by.
    #[serde(default = "val_split")]
    pub val_split: f64,
    /// Decides the split, the first weights and the order of the rows.
    #[serde(default)]
    pub seed: u64,
    /// Steps between two looks at the held-out rows; the end of every epoch when absent.
    #[serde(default)]
    pub eval_every: Option<usize>,
    /// Looks without a new best after which the run ends.
    #[serde(default)]
    pub early_stop: Option<usize>,
    /// The head that compares queries with tools.
    #[serde(default)]
    pub contrastive: Option<HeadRecipe>,
    /// The head that says how likely an answer is right.
    #[serde(default)]
    pub confidence: Option<HeadRecipe>,
}

/// Where the tokenizer comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenizerRecipe {
    /// A SentencePiece `.model` file.
    File(PathBuf),
    /// The data's own texts.
    Learnt(TokenizerOptions),
}

impl Default for TokenizerRecipe {
    fn default() -> Self {
        Self::Learnt(TokenizerOptions::default())
    }
}

/// How a probe head is trained on the finished model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadRecipe {
    /// Probes.
    pub probes: usize,
    /// Numbers of a vector; a confidence has one whatever this says.
    pub width: usize,
    /// Optimiser steps.
    pub steps: usize,
    /// Rows a step.
    pub batch_size: usize,
    /// The learning rate after the warm-up.
    pub learning_rate: f64,
}

impl Default for HeadRecipe {
    fn default() -> Self {
        Self {
            probes: 4,
            width: 128,
            steps: 200,
            batch_size: 16,
            learning_rate: 3e-3,
        }
    }
}

impl Recipe {
    /// Reads a recipe's text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

fn batch_size() -> usize {
    16
}

fn learning_rate() -> f64 {
    1e-3
}

fn max_len() -> usize {
    256
}

fn val_split() -> f64 {
    0.02
}
