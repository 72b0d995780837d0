//! The command line of the checks.

use std::{path::PathBuf, process::Command, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};

use crate::cargo::target_dir;

/// Which backend is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `gpu-check`: CUDA.
    Cuda,
    /// `metal-check`.
    Metal,
}

impl Kind {
    /// The user's feature.
    pub(super) fn feature(self) -> &'static str {
        match self {
            Self::Cuda => "gpu",
            Self::Metal => "metal",
        }
    }

    /// The report's name, without its ending.
    pub(super) fn report(self) -> &'static str {
        match self {
            Self::Cuda => "gpu-report",
            Self::Metal => "metal-report",
        }
    }
}

/// What to do about the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Build them here and run them.
    Build,
    /// Run those that were built elsewhere.
    Carried(PathBuf),
    /// Only build them, into a folder to be carried.
    Pack(PathBuf),
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) kind: Kind,
    pub(super) action: Action,
    /// In the words of `--device`; `cpu` makes a dry run, whose report says so.
    pub(super) device: String,
    /// `full` for the published geometry, `small` for one that a processor computes in seconds.
    pub(super) size: &'static str,
    pub(super) limit: Duration,
    /// The report's folder.
    pub(super) out: PathBuf,
}

pub(super) const USAGE: &str = "\
options: --device D       the device [default: cuda:0, metal:0]; cpu makes a dry run of the procedure
         --built FOLDER   run the programs of a folder that --pack filled elsewhere
         --pack FOLDER    only build them into a folder, with nvcc from PyPI; needs no GPU
         --size SIZE      full or small weights [default: full, small on the cpu]
         --minutes N      stop after so long [default: 8]
         --out FOLDER     where the report goes [default: target/gpu-check]";

impl Options {
    pub(super) fn parse(kind: Kind, args: &[&str]) -> Result<Self> {
        let mut options = Self {
            kind,
            action: Action::Build,
            device: match kind {
                Kind::Cuda => "cuda:0".to_owned(),
                Kind::Metal => "metal:0".to_owned(),
            },
            size: "",
            limit: Duration::from_secs(8 * 60),
            out: target_dir().join("gpu-check"),
        };
        let mut args = args.iter().copied();
        while let Some(word) = args.next() {
            let mut value = || args.next().with_context(|| format!("{word} needs a value\n{USAGE}"));
            match word {
                "--device" => value()?.clone_into(&mut options.device),
                "--built" => options.action = Action::Carried(value()?.into()),
                "--pack" => options.action = Action::Pack(value()?.into()),
                "--size" => {
                    options.size = match value()? {
                        "full" => "full",
                        "small" => "small",
                        other => bail!("--size {other}: expected full or small"),
                    }
                }
                "--minutes" => {
                    let minutes = value()?;
                    let count: u64 = minutes
                        .parse()
                        .ok()
                        .filter(|count| (1..=60).contains(count))
                        .with_context(|| format!("--minutes {minutes}: expected 1 to 60"))?;
                    options.limit = Duration::from_secs(60 * count);
                }
                "--out" => options.out = value()?.into(),
                _ => bail!("unknown option {word}\n{USAGE}"),
            }
        }
        if options.size.is_empty() {
            options.size = if options.is_dry() { "small" } else { "full" };
        }
        Ok(options)
    }

    /// Whether the processor stands in for the GPU.
    pub(super) fn is_dry(&self) -> bool {
        self.device == "cpu"
    }

    /// Refuses a machine that cannot have the device, before anything is built for it.
    pub(super) fn expect_machine(&self) -> Result<()> {
        let dry = "--device cpu makes a dry run";
        match self.kind {
            _ if self.is_dry() => Ok(()),
            Kind::Metal if cfg!(target_os = "macos") => Ok(()),
            Kind::Metal => bail!("metal-check needs a Mac, and this is {}; {dry}", std::env::consts::OS),
            Kind::Cuda => {
                let mut smi = Command::new("nvidia-smi");
                let listed = smi.arg("-L").stdin(Stdio::null()).output();
                match listed {
                    Ok(output) if output.status.success() => Ok(()),
                    Ok(output) => bail!(
                        "gpu-check needs an NVIDIA GPU and its driver: nvidia-smi says: {}; {dry}",
                        String::from_utf8_lossy(&output.stdout).trim()
                    ),
                    Err(error) => bail!("gpu-check needs an NVIDIA GPU and its driver: no nvidia-smi ({error}); {dry}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults() {
        let options = Options::parse(Kind::Cuda, &[]).unwrap();
        assert_eq!(
            (options.device.as_str(), options.size, options.limit.as_secs()),
            ("cuda:0", "full", 480)
        );
        assert_eq!((options.action.clone(), options.is_dry()), (Action::Build, false));
        assert_eq!(Options::parse(Kind::Metal, &[]).unwrap().device, "metal:0");
        let dry = Options::parse(Kind::Cuda, &["--device", "cpu"]).unwrap();
        assert_eq!((dry.size, dry.is_dry()), ("small", true));
        dry.expect_machine().unwrap();
    }

    #[test]
    fn every_option_is_read() {
        let words = [
            "--device",
            "cuda:1",
            "--built",
            "b",
            "--size",
            "small",
            "--minutes",
            "3",
            "--out",
            "o",
        ];
        let options = Options::parse(Kind::Cuda, &words).unwrap();
        let expected = Options {
            kind: Kind::Cuda,
            action: Action::Carried("b".into()),
            device: "cuda:1".into(),
            size: "small",
            limit: Duration::from_secs(180),
            out: "o".into(),
        };
        assert_eq!(options, expected);
        assert_eq!(
            Options::parse(Kind::Cuda, &["--pack", "p"]).unwrap().action,
            Action::Pack("p".into())
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (words, reason) in [
            (&["--speed"][..], "unknown option --speed"),
            (&["--device"], "--device needs a value"),
            (&["--minutes", "0"], "--minutes 0: expected 1 to 60"),
            (&["--size", "huge"], "--size huge: expected full or small"),
        ] {
            let error = Options::parse(Kind::Cuda, words).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn a_machine_without_the_device_is_told_so() {
        let error = Options::parse(Kind::Metal, &[])
            .unwrap()
            .expect_machine()
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("metal-check needs a Mac, and this is "), "{error}");
    }
}
