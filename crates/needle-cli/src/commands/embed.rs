//! `needle embed`: the retrieval vector of a text.

use std::io::{self, Write};

use anyhow::Result;
use needle_core::retrieval;

use crate::{args::EmbedArgs, input};

pub(crate) fn run(args: &EmbedArgs) -> Result<()> {
    let text = input::text_or_stdin(args.text.as_deref(), "text")?;
    let vector = retrieval::embed(&*input::engine(&args.model)?, &text)?;
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(&vector)?)?;
    Ok(())
}
