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

/// A program as cargo's messages describe it.
struct Wanted {
    package: &'static str,
    target: &'static str,
    /// Whether it is one that runs tests.
    tests: bool,
}

impl Wanted {
    const TESTS: Self = Self {
        package: "needle-tests",
        target: TESTS,
        tests: true,
    };
    const MEASURES: Self = Self {
        package: "xtask",
        target: MEASURES,
        tests: false,
    };

    fn cases(package: &'static str) -> Self {
        Self {
            package,
            target: CASES,
            tests: false,
        }
    }
}

impl Programs {
    /// Builds them, optimised, with the feature that the options ask for; for a dry run as the checks build them.
    pub(super) fn build(options: &Options) -> Result<Self> {
        if options.is_dry() {
            // What the checks have built already will do.
            let all = ["build", "--workspace", "--all-targets", "--features", "xtask/bench"];
            return Ok(Self {
                cases: None,
                tests: built(options, &all, &Wanted::TESTS)?,
                measures: built(options, &all, &Wanted::MEASURES)?,
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
            cases: Some(built(options, &cases, &Wanted::cases(leaf))?),
            tests: built(
                options,
                &[&tests[..], &["--features", feature]].concat(),
                &Wanted::TESTS,
            )?,
            measures: built(options, &measures, &Wanted::MEASURES)?,
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

/// Runs a cargo command and returns one of the programs that it made.
fn built(options: &Options, args: &[&str], wanted: &Wanted) -> Result<PathBuf> {
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
    match executable(&messages, wanted) {
        Some(path) => Ok(path),
        None => bail!("cargo made no program {} of {}", wanted.target, wanted.package),
    }
}

/// The wanted program among cargo's messages.
fn executable(messages: &str, wanted: &Wanted) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let folder = manifest.parent()?.file_name()?.to_str()?;
        // The tests' package lies in a folder of another name.
        let is_package = folder == wanted.package || wanted.package.strip_prefix("needle-") == Some(folder);
        let is_target = message["target"]["name"] == wanted.target && message["profile"]["test"] == wanted.tests;
        if !(is_package && is_target) {
            return None;
        }
        message["executable"].as_str().map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages() {
        let line = |folder: &str, target: &str, tests: bool, executable: Value| {
            json!({
                "manifest_path": format!("/w/{folder}/Cargo.toml"),
                "target": { "name": target },
                "profile": { "test": tests },
                "executable": executable,
            })
            .to_string()
        };
        let messages = [
            line("crates/needle-kernels", "tests", true, json!("/t/tests-kernels")),
            line("tests", "tests", true, Value::Null),
            line("tests", "tests", true, json!("/t/tests-ours")),
            line("xtask", "xtask", true, json!("/t/xtask-tests")),
            line("xtask", "xtask", false, json!("/t/xtask")),
            json!({ "reason": "build-finished" }).to_string(),
        ]
        .join("\n");
        assert_eq!(executable(&messages, &Wanted::TESTS), Some("/t/tests-ours".into()));
        assert_eq!(executable(&messages, &Wanted::MEASURES), Some("/t/xtask".into()));
        assert_eq!(executable(&messages, &Wanted::cases("needle-cuda")), None);
    }

    #[test]
    fn a_folder_without_programs_is_refused() {
        let error = Programs::carried(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(error, "/nowhere/kernel_cases is missing: fill the folder with --pack");
    }
}
