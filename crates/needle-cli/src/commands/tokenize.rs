//! `needle tokenize`: a text as tokens, or ids as text.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, Result, bail};
use needle_core::{Tokenizer, compact_json};
use serde_json::json;

use crate::{args::TokenizeArgs, input, progress::Progress};

pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    let tokenizer = open(&args.model)?;
    let text = input::text_or_stdin(args.text.as_deref(), "text")?;
    let mut out = io::stdout().lock();
    if args.decode {
        let ids: Vec<u32> = text
            .split(|char: char| char.is_whitespace() || "[,]".contains(char))
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().with_context(|| format!("token id {word}")))
            .collect::<Result<_>>()?;
        if let Some(id) = ids.iter().find(|&&id| id as usize >= tokenizer.vocab_size()) {
            bail!("token id {id} is outside the vocabulary of {}", tokenizer.vocab_size());
        }
        let text = tokenizer.decode(&ids);
        match args.json {
            true => writeln!(out, "{}", json!({ "ids": ids, "text": text }))?,
            false => writeln!(out, "{text}")?,
        }
        return Ok(());
    }
    let ids = tokenizer.encode(&text);
    let piece = |id: &u32| tokenizer.piece(*id).unwrap_or_default().to_owned();
    if args.json {
        let pieces: Vec<String> = ids.iter().map(piece).collect();
        writeln!(
            out,
            "{}",
            compact_json(&json!({ "text": text, "count": ids.len(), "ids": ids, "pieces": pieces }))
        )?;
    } else {
        for id in &ids {
            writeln!(out, "{id}\t{}", piece(id).escape_debug())?;
        }
    }
    Ok(())
}

fn open(model: &str) -> Result<Tokenizer> {
    if model != input::DEMO
        && Path::new(model)
            .extension()
            .is_some_and(|extension| extension == "model")
    {
        let bytes = fs::read(model).with_context(|| model.to_owned())?;
        return Tokenizer::from_sentencepiece(&bytes).with_context(|| model.to_owned());
    }
    Ok(input::checkpoint(Some(model), &Progress::stderr())?.tokenizer()?)
}
