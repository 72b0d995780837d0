//! The command built with `--features gpu`, run on a machine without NVIDIA's driver and libraries: it has to start, to say what
//! is missing, and to answer on the CPU. Stand-ins for the libraries then show that each reason is told from the others.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{CAPABILITIES, Toolkit, today};
use crate::cargo::{output, root, run as execute, target_dir};

const TRANSCRIPT: &str = "docs/no-driver-run.md";

/// Libraries of CUDA, none of which may be needed to start.
const LIBRARIES: [&str; 6] = ["cuda", "cudart", "cublas", "cublasLt", "curand", "nvrtc"];

const QUERY: [&str; 5] = ["run", "--model", "demo", "--tools", "examples/home.json"];
const WORDS: &str = "dim the kitchen to 30";
const ANSWER: &str = "[{\"name\":\"set_lights\",\"arguments\":{\"room\":\"kitchen\",\"brightness\":30}}]\n";
const REASON: &str = "no NVIDIA driver library (libcuda.so.1) and no NVIDIA GPU was found";

/// Builds for every capability, checks every build, and writes down what the last one said.
pub(super) fn run(toolkit: &Toolkit) -> Result<()> {
    let mut transcript = format!(
        "# A build with `--features gpu` where no driver is\n\n\
         Written by `cargo xtask check cuda --real` on {}: {}, no NVIDIA driver, no GPU, no library of CUDA\n\
         in the loader's reach. The builds are not optimised, nor are\n\
         the products for GGUF files among candle's kernels, which needle never calls.\n\n",
        today()?,
        toolkit.release()?,
    );
    let mut program = PathBuf::new();
    for capability in CAPABILITIES {
        program = build(toolkit, capability)?;
        let needed = needed(&program)?;
        ensure!(
            !needed.iter().any(|name| is_cuda(name)),
            "{} does not start without CUDA: it needs {}",
            program.display(),
            needed.join(", ")
        );
        let size_bytes = fs::metadata(&program)
            .with_context(|| format!("no {}", program.display()))?
            .len();
        let _ = writeln!(
            transcript,
            "- sm_{capability}: {:.0} MB, needs {}",
            size_bytes as f64 / 1e6,
            needed.join(", ")
        );
        let said = plain_runs(&program)?;
        if Some(&capability) == CAPABILITIES.last() {
            transcript.push_str("\nWhat the last of them says:\n\n");
            transcript.push_str(&said);
        }
    }
    transcript.push_str(
        "\nThe same with stand-ins for the libraries (`xtask/src/nvcc/stand_in.c`), each with one fault:\n\n",
    );
    transcript.push_str(&stand_ins(&program)?);
    fs::write(root().join(TRANSCRIPT), transcript).with_context(|| format!("cannot write {TRANSCRIPT}"))?;
    println!("the command starts, explains and answers without a driver: {TRANSCRIPT}");
    Ok(())
}

fn build(toolkit: &Toolkit, capability: &str) -> Result<PathBuf> {
    let target = target_dir().join("check-cuda-real");
    let mut build = toolkit.cargo(
        &["build", "--package", "needle-cli", "--features", "gpu"],
        capability,
        &target,
    )?;
    // What is checked is that it links and starts, not how fast it is.
    for profile in [
        "profile.dev",
        "profile.dev.package.\"*\"",
        "profile.dev.package.needle-core",
    ] {
        build.arg("--config").arg(format!("{profile}.opt-level=0"));
    }
    execute(&mut build)?;
    Ok(target.join("debug/needle"))
}

/// The shared libraries that the loader must find.
fn needed(program: &Path) -> Result<Vec<String>> {
    let dynamic = output(Command::new("readelf").arg("--dynamic").arg(program))?;
    let names = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let names = names.filter_map(|line| line.split(['[', ']']).nth(1));
    Ok(names.map(str::to_owned).collect())
}

fn is_cuda(name: &str) -> bool {
    LIBRARIES
        .iter()
        .any(|library| name.starts_with(&format!("lib{library}.so")))
}

/// One run, its command line and what it said.
struct Run {
    line: String,
    output: Output,
}

impl Run {
    fn of(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let output = Command::new(program)
            .args(args)
            .current_dir(root())
            .env_remove("RUST_BACKTRACE")
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("LD_LIBRARY_PATH")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let quoted = args.iter().map(|arg| {
            if arg.contains(' ') {
                format!("\"{arg}\"")
            } else {
                (*arg).to_owned()
            }
        });
        let words: Vec<String> = std::iter::once("needle".to_owned()).chain(quoted).collect();
        Ok(Self {
            line: words.join(" "),
            output,
        })
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Holds the run to an exit code and to words on either stream.
    fn must(self, code: i32, words: &str) -> Result<Self> {
        let said = self.shown();
        match self.output.status.code() {
            Some(found) if found == code && said.contains(words) => Ok(self),
            _ => bail!(
                "expected exit code {code} and \"{words}\":\n{said}({})",
                self.output.status
            ),
        }
    }

    fn shown(&self) -> String {
        format!("$ {}\n{}{}", self.line, self.stdout(), self.stderr())
    }
}

fn plain_runs(program: &Path) -> Result<String> {
    let run = |args: &[&str]| Run::of(program, args, &[]);
    let query = |device| run(&[&QUERY[..], &["--device", device, WORDS]].concat());
    let devices = run(&["devices"])?;
    if devices.stdout().contains("cuda:0") {
        bail!("this machine has an NVIDIA GPU and a driver: run this check where there is neither");
    }
    let devices = devices.must(0, &format!("cuda   built in; {REASON}"))?;
    let doctor = run(&["doctor"])?.must(0, "check  the built-in model answers on cpu f32")?;
    let auto = query("auto")?.must(0, REASON)?;
    ensure!(auto.stdout() == ANSWER, "auto answers {}", auto.stdout());
    ensure!(
        auto.stderr().lines().count() == 1,
        "auto says more than one line:\n{}",
        auto.stderr()
    );
    let cuda = query("cuda")?.must(1, REASON)?;
    ensure!(cuda.stdout().is_empty(), "a refused device answers {}", cuda.stdout());
    let shown = [devices, doctor, auto, cuda].map(|run| run.shown());
    Ok(format!("```console\n{}```\n", shown.join("\n")))
}

/// A fault that stand-ins can show.
struct Fault {
    /// The libraries that are there.
    libraries: &'static [&'static str],
    /// What they, or the program, are told.
    told: &'static [(&'static str, &'static str)],
    /// What has to be said.
    words: &'static str,
}

const FAULTS: [Fault; 6] = [
    Fault {
        libraries: &["libcuda.so.1"],
        told: &[],
        words: "the CUDA 13 library libcudart.so.13 was not found",
    },
    Fault {
        libraries: ALL,
        told: &[("STAND_IN_DRIVER", "12040")],
        words: "the NVIDIA driver is too old: it supports CUDA 12.4, this build needs 13.0",
    },
    Fault {
        libraries: ALL,
        told: &[("STAND_IN_INIT", "100"), ("CUDA_VISIBLE_DEVICES", "")],
        words: "CUDA_VISIBLE_DEVICES is empty",
    },
    Fault {
        libraries: ALL,
        told: &[("STAND_IN_INIT", "803")],
        words: "the NVIDIA driver was updated since the system started",
    },
    Fault {
        libraries: ALL,
        told: &[("STAND_IN_CAPABILITY", "75")],
        words: "compute capability 7.5 is not supported by this build",
    },
    Fault {
        libraries: ALL,
        told: &[("STAND_IN_CONTEXT", "2")],
        words: "out of memory: other programs leave too little on this GPU",
    },
];

const ALL: &[&str] = &["libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libcurand.so.10"];

fn stand_ins(program: &Path) -> Result<String> {
    let folder = target_dir().join("check-cuda-real/stand-ins");
    let mut text = String::from("| there is | `needle run --device cuda` says |\n| --- | --- |\n");
    for Fault { libraries, told, words } in FAULTS {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for name in libraries {
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-o"]).arg(folder.join(name));
            execute(cc.arg(root().join("xtask/src/nvcc/stand_in.c")))?;
        }
        let path = folder.to_string_lossy().into_owned();
        let env = [told, &[("LD_LIBRARY_PATH", path.as_str())]].concat();
        let query = |device| Run::of(program, &[&QUERY[..], &["--device", device, WORDS]].concat(), &env);
        let auto = query("auto")?.must(0, words)?;
        ensure!(auto.stdout() == ANSWER, "auto answers {}", auto.stdout());
        let refused = query("cuda")?.must(1, words)?;
        let said = refused.stderr();
        let error = said.lines().next().unwrap_or_default();
        let told: Vec<String> = told.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        let there = [libraries.join(", "), told.join(" ")].join(" ");
        let _ = writeln!(text, "| {} | {error} |", there.trim_end());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_libraries_are_told_from_others() {
        for name in ["libcuda.so.1", "libcublasLt.so.13", "libcudart.so.13"] {
            assert!(is_cuda(name), "{name}");
        }
        for name in ["libc.so.6", "libstdc++.so.6", "libcudadebugger.so.1"] {
            assert!(!is_cuda(name), "{name}");
        }
    }
}
