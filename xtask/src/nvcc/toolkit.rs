//! NVIDIA's compiler from PyPI at pinned versions, in the target folder, and builds of this workspace with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    cargo::{cargo, output, run as execute, target_dir},
    check::make_executable,
};

/// CUDA 13.0: what data-centre drivers from 580 on support; they load no PTX of a later toolkit.
const WHEELS: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// A toolkit on disk.
pub(super) struct Toolkit {
    home: PathBuf,
}

impl Toolkit {
    /// The toolkit in the target folder, installed where it is missing.
    pub(super) fn install() -> Result<Self> {
        let venv = target_dir().join("cuda-venv");
        let python = venv.join("bin/python3");
        if !python.exists() {
            execute(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        }
        let found = "import nvidia, pathlib; print(pathlib.Path(list(nvidia.__path__)[0]) / 'cu13')";
        let home = || output(Command::new(&python).args(["-c", found]));
        let home = match home() {
            Ok(home) if Path::new(home.trim()).join("bin/nvcc").exists() => home,
            _ => {
                println!("installing {} from PyPI, some 300 MB", WHEELS.join(", "));
                let mut pip = Command::new(&python);
                execute(pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(WHEELS))?;
                home()?
            }
        };
        Ok(Self {
            home: PathBuf::from(home.trim()),
        })
    }

    /// One of its programs.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.home.join("bin").join(name));
        self.bring(&mut command);
        command
    }

    /// The line of `nvcc --version` that names the release.
    pub(super) fn release(&self) -> Result<String> {
        let version = output(self.command("nvcc").arg("--version"))?;
        let line = version.lines().find(|line| line.contains("release"));
        Ok(line.unwrap_or_default().trim().to_owned())
    }

    /// A cargo command that builds with this toolkit for GPUs of one capability, in a folder of its own.
    pub(super) fn cargo(&self, args: &[&str], capability: &str, target: &Path) -> Result<Command> {
        let mut command = cargo(args);
        self.bring(&mut command);
        command
            .arg("--target-dir")
            .arg(target)
            .env("NVCC", self.keeping_nvcc()?)
            .env("CUDA_PATH", &self.home)
            .env("CUDA_COMPUTE_CAP", capability)
            .env("CUDARC_CUDA_VERSION", "13000")
            .env("CUDAFORGE_THREADS", threads());
        Ok(command)
    }

    fn bring(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.home.join("bin")).chain(std::env::split_paths(&path));
        if let Ok(joined) = std::env::join_paths(paths) {
            command.env("PATH", joined);
        }
        command.env("CUDA_HOME", &self.home);
    }

    /// A program in front of nvcc that compiles nothing twice: candle's kernels take eight minutes of one processor.
    fn keeping_nvcc(&self) -> Result<PathBuf> {
        let kept = target_dir().join("nvcc-cache");
        fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
        let program = kept.join("nvcc");
        let text = KEEPING_NVCC
            .replace("@REAL@", &self.home.join("bin/nvcc").to_string_lossy())
            .replace("@KEPT@", &kept.to_string_lossy());
        // Another build may be running it: never write into it.
        if fs::read_to_string(&program).ok().as_deref() != Some(&text) {
            let fresh = kept.join("nvcc.new");
            fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
            make_executable(&fresh)?;
            fs::rename(&fresh, &program).with_context(|| format!("cannot write {}", program.display()))?;
        }
        Ok(program)
    }
}

fn threads() -> String {
    std::thread::available_parallelism().map_or(1, usize::from).to_string()
}

const KEEPING_NVCC: &str = r#"#!/bin/sh
# Stands before nvcc and keeps what it made, by the text and everything else that decides it.
real=@REAL@
kept=@KEPT@
key= output= source= folder= last= fast=
for word; do
  case "$last" in
    -o) output=$word ;;
    --output-directory) folder=$word ;;
    *) case "$word" in *.cu) source=$word ;; esac; key="$key $word" ;;
  esac
  last=$word
done
[ -n "$source" ] || exec "$real" "$@"
[ -n "$output" ] || output=$folder/$(basename "${source%.cu}").ptx
# Candle's products for GGUF files and mixtures of experts take most of the time, and needle never calls them.
case "$source" in *mmq_*|*mmvq_*|*moe_*) fast='-Xcicc -O0 -Xptxas -O0' ;; esac
headers=$(find src -name '*.cu*' 2>/dev/null | sort)
name=$kept/$({ echo "$real $key"; cat "$source" $headers; } | sha256sum | cut -d' ' -f1)
if [ ! -e "$name" ]; then
  "$real" $fast "$@" || exit
  cp "$output" "$name.$$" && mv "$name.$$" "$name"
else
  cp "$name" "$output"
fi
"#;
