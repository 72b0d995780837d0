//! `needle devices`: what is built in, what is there, what `auto` takes and why.

use std::io::{self, Write};

use anyhow::Result;
use needle_core::device;

use crate::args::DevicesArgs;

pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    let report = device::report();
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "auto   {} {}: {}",
        report.auto.device, report.auto.dtype, report.auto.reason
    )?;
    writeln!(out, "cpu    always there")?;
    for backend in &report.backends {
        let built = if backend.compiled { "built in" } else { "not built in" };
        let found: Vec<String> = backend
            .devices
            .iter()
            .map(|found| format!("{} {}", found.name, found.description))
            .collect();
        let state = match (&backend.reason, found.is_empty()) {
            (_, false) => found.join(", "),
            (Some(reason), true) => reason.clone(),
            (None, true) => "no device".into(),
        };
        writeln!(out, "{:<6} {built}; {state}", backend.name)?;
        if let Some(command) = backend.enable {
            writeln!(out, "       to use it: {command}")?;
        }
    }
    if let Some(note) = &report.unsupported {
        writeln!(out, "note   {note}")?;
    }
    Ok(())
}
