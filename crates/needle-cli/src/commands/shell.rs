//! `needle completions` and `needle man`: what a shell and `man` want to know, made from the command line's own description.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::CommandFactory;

use crate::{
    args::{Arguments, CompletionsArgs, ManArgs},
    input::WrongUsage,
};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "needle", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}

pub(crate) fn man(args: &ManArgs) -> Result<()> {
    // The whole text of --version is too long for the foot of a page.
    let mut command = Arguments::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    if let Some(name) = &args.command {
        let Some(found) = command.find_subcommand(name) else {
            bail!(WrongUsage(format!("man {name}: there is no such command")));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(io::stdout().lock().write_all(&page)?)
}
