//! A small model from nothing: a tokenizer learnt from the data, every weight trained, probe heads on top.
//!
//! The way in which the built-in demo model was made, for models of a few million weights. A [`Recipe`] says how; the data is that
//! of fine-tuning.

mod heads;
mod recipe;

pub use heads::{HeadProgress, train_confidence, train_contrastive};
pub use recipe::{HeadRecipe, Recipe, TokenizerRecipe};

use std::path::Path;

use crate::{
    checkpoint::Checkpoint,
    config::{Config, Generation},
    course::Course,
    data::{self, Dataset, Split},
    error::{Error, Result},
    tokenizer::Tokenizer,
    train::{Fit, Row, TrainOptions, Trainable, initial_checkpoint},
};

/// A run that is ready to begin.
pub struct Pretrain {
    recipe: Recipe,
    base: Checkpoint,
    tokenizer: Tokenizer,
    split: Split,
    rows: Vec<Row>,
    held_out: Vec<Row>,
    too_long: usize,
}

impl Pretrain {
    /// Learns or opens the tokenizer, draws first weights, and puts the data into ids. Rows longer than the recipe allows are
    /// left out and counted.
    ///
    /// # Errors
    /// [`Error::Config`] for an impossible geometry, [`Error::Tokenizer`] where the texts cannot fill the vocabulary,
    /// [`Error::Example`] when no row is left.
    pub fn prepare(recipe: Recipe, data: &Dataset) -> Result<Self> {
        data.expect_rows()?;
        let split = data.split(recipe.val_split, recipe.seed);
        let tokenizer = tokenizer(&recipe.tokenizer, &split.train)?;
        let mut fields = recipe.model.clone();
        fields.insert("vocab_size".into(), tokenizer.vocab_size().into());
        let config = Config::from_json(&fields, Generation::Two)?;
        if recipe.max_len > config.max_seq_len {
            let (found, limit) = (recipe.max_len, config.max_seq_len);
            return Err(Error::config(
                "max_seq_len",
                format!("rows may have {found} tokens, the model {limit}"),
            ));
        }
        for head in recipe.contrastive.iter().chain(&recipe.confidence) {
            if head.probes == 0 || head.width == 0 || head.batch_size == 0 {
                return Err(Error::config(
                    "heads",
                    "probes, width and batch_size should be at least 1",
                ));
            }
        }
        if let Some(layer) = config.engram.layers.iter().find(|&&layer| layer >= config.num_layers) {
            let layers = config.num_layers;
            return Err(Error::config(
                "engram_layers",
                format!("layer {layer} of {layers}, which count from 0"),
            ));
        }
        let base = initial_checkpoint(&config, recipe.seed, Some(tokenizer.to_archive_blob()))?;
        let mut too_long = 0;
        let mut encode = |rows: &[data::Row]| -> Vec<Row> {
            let whole = rows.iter().filter_map(|row| {
                let (ids, fit) = Row::encode(&row.example, &tokenizer, recipe.max_len);
                too_long += usize::from(fit != Fit::Whole);
                (fit == Fit::Whole).then_some(ids)
            });
            whole.collect()
        };
        let (rows, held_out) = (encode(&split.train), encode(&split.held_out));
        if rows.is_empty() {
            let (source, limit) = (&data.source, recipe.max_len);
            return Err(Error::Example(format!(
                "no usable examples in {source}: none has at most {limit} tokens"
            )));
        }
        Ok(Self {
            recipe,
            base,
            tokenizer,
            split,
            rows,
            held_out,
            too_long,
        })
    }

    /// The training of it.
    pub fn course(&self) -> Course<'_> {
        let recipe = &self.recipe;
        Course {
            base: &self.base,
            options: TrainOptions {
                learning_rate: recipe.learning_rate,
                seed: recipe.seed,
                ..TrainOptions::new(Trainable::Everything, recipe.steps)
            },
            rows: &self.rows,
            held_out: &self.held_out,
            batch_size: recipe.batch_size,
            eval_every: recipe.eval_every,
            early_stop: recipe.early_stop,
        }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Writes the tokenizer as a SentencePiece `.model` file, which appears only when it is complete.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save_tokenizer(&self, path: &Path) -> Result<()> {
        let model = self.tokenizer.to_sentencepiece();
        crate::checkpoint::replace(path, |out| out.write_all(&model))
    }

    /// The rows on their two sides, those that are too long included.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Rows to learn from, rows held out, rows left out because they are too long.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.rows.len(), self.held_out.len(), self.too_long)
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}

fn tokenizer(recipe: &TokenizerRecipe, rows: &[data::Row]) -> Result<Tokenizer> {
    match recipe {
        TokenizerRecipe::File(path) => Tokenizer::from_sentencepiece(&data::read(path)?),
        TokenizerRecipe::Learnt(options) => {
            let texts = rows
                .iter()
                .flat_map(|row| [row.example.prompt().text, row.example.target()]);
            options.train(texts)
        }
    }
}

impl Recipe {
    /// Reads a recipe; a tokenizer's path is taken from the recipe's own folder.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Format`] for a field that is unknown, missing or of the wrong type.
    pub fn open(path: &Path) -> Result<Self> {
        let text = data::read_text(path)?;
        let mut recipe = Self::parse(&text).map_err(|reason| Error::format(path, reason))?;
        if let TokenizerRecipe::File(file) = &mut recipe.tokenizer {
            *file = path.parent().unwrap_or(Path::new("")).join(&*file);
        }
        Ok(recipe)
    }
}
