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
    /// Builds them, optimised, with the feature that the options ask for; for a dry run as the checks build them.
    pub(super) fn build(options: &Options) -> Result<Self> {
        if options.is_dry() {
            // What the checks have built already will do.
            let tests = [
                "test",
                "--no-run",
                "--workspace",
                "--features",
                "xtask/bench",
                "--test",
                TESTS,
            ];
            let measures = ["build", "--workspace", "--features", "xtask/bench"];
            return Ok(Self {
                cases: None,
                tests: built(options, &tests, TESTS)?,
                measures: built(options, &measures, MEASURES)?,
            });
        }
        let feature = options.kind.feature();
        let (leaf, own) = match options.kind {
            Kind::Cuda => ("needle-cuda", "cuda"),
            Kind::Metal => ("needle-metal", "metal"),
        };
        let cases = [
            "build",
            "--release",
            "--package",
            leaf,
            "--features",
            own,
            "--example",
            CASES,
        ];
        let tests = [
            "test",
            "--release",
            "--no-run",
            "--package",
            "needle-tests",
            "--test",
            TESTS,
        ];
        let features = format!("bench,{feature}");
        let measures = ["build", "--release", "--package", "xtask", "--features", &features];
        Ok(Self {
            cases: Some(built(options, &cases, CASES)?),
            tests: built(options, &[&tests[..], &["--features", feature]].concat(), TESTS)?,
            measures: built(options, &measures, MEASURES)?,
        })
    }

    /// Takes them from a folder. Their test data lies where they were built, so that place is made to lead here.
    pub(super) fn carried(folder: &Path) -> Result<Self> {
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
            cases: Some(program(CASES)?),
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

/// Runs a cargo command and returns the program of this name that it made.
fn built(options: &Options, args: &[&str], name: &str) -> Result<PathBuf> {
    let args = [args, &["--message-format", "json-render-diagnostics"]].concat();
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
        let error = Programs::carried(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "/nowhere/kernel_cases is missing: fill the folder with --pack");
    }
}
