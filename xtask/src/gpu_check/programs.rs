//! The programs of a check: built here, or carried from where they were built.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::options::{Action, Kind, Options};
use crate::{
    cargo::{cargo, output, root, target_dir},
    nvcc,
};

/// What is run, in this order.
#[derive(Debug)]
pub(super) struct Programs {
    /// Every kernel case on the device; none in a dry run, which has no kernels.
    pub(super) cases: Option<PathBuf>,
    /// The acceptance tests.
    pub(super) tests: PathBuf,
    /// The measurements: this program with the library inside.
    pub(super) measures: PathBuf,
}

const CASES: &str = "kernel_cases";
const TESTS: &str = "tests";
const MEASURES: &str = "xtask";

impl Programs {
    /// Builds them, optimised, with the feature that the options ask for.
    pub(super) fn build(options: &Options) -> Result<Self> {
        let feature = (!options.is_dry()).then(|| options.kind.feature());
        let leaf = match options.kind {
            Kind::Cuda => "needle-cuda",
            Kind::Metal => "needle-metal",
        };
        let cases = match feature {
            Some(_) => {
                let feature = leaf.trim_start_matches("needle-");
                let args = ["build", "--package", leaf, "--features", feature, "--example", CASES];
                Some(built(options, &args, CASES)?)
            }
            None => None,
        };
        let mut args = vec!["test", "--no-run", "--package", "needle-tests", "--test", TESTS];
        args.extend(feature.map(|feature| ["--features", feature]).into_iter().flatten());
        let tests = built(options, &args, TESTS)?;
        let features: Vec<&str> = std::iter::once("bench").chain(feature).collect();
        let features = features.join(",");
        let args = ["build", "--package", "xtask", "--features", &features];
        let measures = built(options, &args, MEASURES)?;
        Ok(Self { cases, tests, measures })
    }

    /// Takes them from a folder. Their test data lies where they were built, so that place is made to lead here.
    pub(super) fn carried(kind: Kind, folder: &Path) -> Result<Self> {
        let program = |name: &str| {
            let path = folder.join(name);
            ensure!(
                path.exists(),
                "{} is missing: fill the folder with --pack",
                path.display()
            );
            Ok(path)
        };
        let programs = Self {
            cases: match kind {
                Kind::Cuda => Some(program(CASES)?),
                Kind::Metal => program(CASES).ok(),
            },
            tests: program(TESTS)?,
            measures: program(MEASURES)?,
        };
        lead_here(root())?;
        Ok(programs)
    }

    /// Copies them into a folder to be carried.
    pub(super) fn copy_to(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let programs = [
            (CASES, self.cases.as_ref()),
            (TESTS, Some(&self.tests)),
            (MEASURES, Some(&self.measures)),
        ];
        for (name, path) in programs {
            let Some(path) = path else { continue };
            let copy = folder.join(name);
            fs::copy(path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
            // Symbols are half of a program and of no use there.
            let _ = Command::new("strip").arg(&copy).status();
            let size_bytes = fs::metadata(&copy).map_or(0, |metadata| metadata.len());
            println!("{} {:.1} MB", copy.display(), size_bytes as f64 / 1e6);
        }
        println!("there, in the repository: FOLDER/{MEASURES} gpu-check --built FOLDER");
        Ok(())
    }
}

/// Makes `place`, where the programs look for the repository, lead to the working folder.
fn lead_here(place: &Path) -> Result<()> {
    if place.join("tests/golden").exists() {
        return Ok(());
    }
    let here = std::env::current_dir().context("no working folder")?;
    ensure!(
        here.join("tests/golden").exists(),
        "run this in the repository's folder: {} has no tests/golden",
        here.display()
    );
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    link(&here, place).with_context(|| format!("cannot make {} lead to {}", place.display(), here.display()))
}

#[cfg(unix)]
fn link(here: &Path, place: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(here, place)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("carried programs run on Linux and macOS"))
}

/// Runs a cargo command in release mode and returns the program of this name that it made.
fn built(options: &Options, args: &[&str], name: &str) -> Result<PathBuf> {
    let args = [args, &["--release", "--message-format", "json-render-diagnostics"]].concat();
    let mut command = match (&options.action, options.kind) {
        // A machine that packs has no toolkit of its own.
        (Action::Pack(_), Kind::Cuda) if !options.is_dry() => {
            nvcc::cargo(&args, &target_dir().join("check-cuda-real"))?
        }
        _ => cargo(&args),
    };
    command.stderr(std::process::Stdio::inherit());
    let messages = output(&mut command)?;
    match executable(&messages, name) {
        Some(path) => Ok(path),
        None => bail!("cargo made no program {name}"),
    }
}

/// The program of a target among cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["target"]["name"] != name {
            return None;
        }
        message["executable"].as_str().map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages() {
        let messages = "\
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tests\"},\"executable\":null}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tests\"},\"executable\":\"/t/tests-1\"}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"xtask\"},\"executable\":\"/t/xtask\"}
{\"reason\":\"build-finished\",\"success\":true}";
        assert_eq!(executable(messages, "tests"), Some("/t/tests-1".into()));
        assert_eq!(executable(messages, "cases"), None);
    }

    #[test]
    fn a_folder_without_programs_is_refused() {
        let error = Programs::carried(Kind::Cuda, Path::new("/nowhere"))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "/nowhere/kernel_cases is missing: fill the folder with --pack");
    }
}
