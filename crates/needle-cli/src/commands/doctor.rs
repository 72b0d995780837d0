//! `needle doctor`: what `needle devices` says, and whether each device computes and the built-in model answers.

use std::io::{self, Write};

use anyhow::{Result, bail};
use needle_core::{Needle, Response, Tool, compact_json, device};
use serde_json::{Value, json};

use super::devices;
use crate::{args::DevicesArgs, version};

/// What the built-in model answers on every device.
const QUERY: &str = "dim the kitchen to 30";
const ANSWER: &str = r#"[{"name":"set_lights","arguments":{"room":"kitchen","brightness":30}}]"#;

pub(crate) fn run(args: &DevicesArgs) -> Result<()> {
    let report = device::report();
    let checks = device::examine();
    let answer = answer().map_err(|error| error.to_string());
    let mut out = io::stdout().lock();
    let faults = checks.iter().filter(|check| check.fault.is_some()).count() + usize::from(answer.is_err());
    if args.json {
        let diagnosis = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "features": version::features(),
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "devices": report,
            "checks": checks,
            "answer": match &answer {
                Ok(response) => json!({ "device": response.device, "dtype": response.dtype }),
                Err(fault) => json!({ "fault": fault }),
            },
            "healthy": faults == 0,
        });
        writeln!(out, "{diagnosis}")?;
    } else {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let features = version::features().join(", ");
        writeln!(
            out,
            "needle {} on {os} {arch}, features: {features}",
            env!("CARGO_PKG_VERSION")
        )?;
        devices::write(&mut out, &report)?;
        for check in &checks {
            let dtypes = check.dtypes.join(", ");
            match &check.fault {
                None => writeln!(out, "check  {} computes in {dtypes}", check.device)?,
                Some(fault) => writeln!(out, "fault  {}: {fault}", check.device)?,
            }
        }
        match &answer {
            Ok(response) => writeln!(
                out,
                "check  the built-in model answers on {} {}",
                response.device, response.dtype
            )?,
            Err(fault) => writeln!(out, "fault  the built-in model: {fault}")?,
        }
    }
    if faults > 0 {
        bail!("{faults} checks failed");
    }
    Ok(())
}

/// The built-in model's answer on the device that `auto` takes.
fn answer() -> Result<Response> {
    let lights = Tool::new("set_lights", "Set the brightness of the lights in a room.")
        .string("room", "")
        .integer("brightness", "");
    let mut agent = Needle::builder().demo().tool(lights).build()?;
    let response = agent.complete(QUERY)?;
    let calls: Value = serde_json::to_value(&response.function_calls)?;
    let found = compact_json(&calls);
    if found != ANSWER {
        bail!("expected {ANSWER}, found {found}");
    }
    Ok(response)
}
