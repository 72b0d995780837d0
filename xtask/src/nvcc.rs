//! The kernel texts through NVIDIA's own compiler and assembler, on a machine that needs no GPU: the toolkit comes from
//! PyPI at pinned versions, and what every kernel costs goes into a table that the repository keeps.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    cargo::{output, root, run as execute, target_dir},
    kernels::{check, texts, utf8},
};

/// CUDA 13.0: what data-centre drivers from 580 on support; they load no PTX of a later toolkit.
const WHEELS: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// The PTX that needle-cuda carries is of this capability; the driver compiles it for the GPU at hand.
const PTX_CAPABILITY: &str = "80";
/// GPUs to assemble for: A100, H100.
const CAPABILITIES: [&str; 2] = ["80", "90"];

const TABLE: &str = "docs/kernel-resources.md";

/// Compiles, assembles, writes the table, and executes the PTX on the host. Fails when a kernel spills.
pub(crate) fn run() -> Result<()> {
    let toolkit = toolkit()?;
    let folder = target_dir().join("kernels/nvcc");
    let place = utf8(&folder)?;
    check(&["texts", "cuda", place])?;
    let mut costs = BTreeMap::new();
    for text in texts(&folder)? {
        let ptx = text.with_extension("ptx");
        execute(
            toolkit
                .command("nvcc")
                .args(["-std=c++17", "-O3", "-ptx"])
                .arg(format!("-arch=compute_{PTX_CAPABILITY}"))
                .arg("-o")
                .arg(&ptx)
                .arg(&text),
        )?;
        for capability in CAPABILITIES {
            for (kernel, cost) in toolkit.assemble(&ptx, capability)? {
                costs
                    .entry((stem(&text), kernel))
                    .or_insert_with(BTreeMap::new)
                    .insert(capability, cost);
            }
        }
    }
    let version = output(toolkit.command("nvcc").arg("--version"))?;
    let release = version
        .lines()
        .find(|line| line.contains("release"))
        .unwrap_or_default()
        .trim();
    let date = output(Command::new("date").args(["-u", "+%F"]))?;
    fs::write(root().join(TABLE), table(&costs, release, date.trim()))
        .with_context(|| format!("cannot write {TABLE}"))?;
    println!("{} kernels written to {TABLE}", costs.len());
    let spilled: Vec<&str> = costs
        .iter()
        .filter(|(_, costs)| costs.values().any(|cost| cost.stack_bytes + cost.spill_bytes > 0))
        .map(|((_, kernel), _)| kernel.as_str())
        .collect();
    if !spilled.is_empty() {
        bail!("registers spilled: {}", spilled.join(", "));
    }
    check(&["ptx", place])
}

/// What one kernel takes on one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    registers: u32,
    shared_bytes: u32,
    stack_bytes: u32,
    spill_bytes: u32,
}

struct Toolkit {
    home: PathBuf,
}

/// The toolkit in the target folder, installed where it is missing.
fn toolkit() -> Result<Toolkit> {
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
    Ok(Toolkit {
        home: PathBuf::from(home.trim()),
    })
}

impl Toolkit {
    fn command(&self, name: &str) -> Command {
        let bin = self.home.join("bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
        let mut command = Command::new(bin.join(name));
        if let Ok(joined) = std::env::join_paths(paths) {
            command.env("PATH", joined);
        }
        command.env("CUDA_HOME", &self.home);
        command
    }

    fn assemble(&self, ptx: &Path, capability: &str) -> Result<Vec<(String, Cost)>> {
        let done = self
            .command("ptxas")
            .args(["-v", &format!("-arch=sm_{capability}"), "-o"])
            .arg(ptx.with_extension(format!("sm_{capability}.cubin")))
            .arg(ptx)
            .output()
            .context("cannot start ptxas")?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            bail!("ptxas refused {}\n{said}", ptx.display());
        }
        let costs = costs(&said);
        if costs.is_empty() {
            bail!("ptxas said nothing of the kernels in {}\n{said}", ptx.display());
        }
        Ok(costs)
    }
}

/// What `ptxas -v` says of each kernel.
fn costs(said: &str) -> Vec<(String, Cost)> {
    let mut costs: Vec<(String, Cost)> = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default();
            costs.push((name.to_owned(), Cost::default()));
        }
        let Some((_, cost)) = costs.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            cost.stack_bytes = before(line, " bytes stack frame");
            cost.spill_bytes = before(line, " bytes spill stores") + before(line, " bytes spill loads");
        }
        if line.contains(" registers") {
            cost.registers = before(line, " registers");
            cost.shared_bytes = before(line, " bytes smem");
        }
    }
    costs
}

/// The number that stands before a phrase, 0 where there is none.
fn before(line: &str, phrase: &str) -> u32 {
    let number = line
        .split_once(phrase)
        .and_then(|(head, _)| head.rsplit([' ', ',']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

type Costs = BTreeMap<(String, String), BTreeMap<&'static str, Cost>>;

fn table(costs: &Costs, release: &str, date: &str) -> String {
    let mut text = format!(
        "# What the kernels cost\n\n\
         Written by `cargo xtask check cuda --real` on {date}: {release}, PTX of compute_{PTX_CAPABILITY}, as needle-cuda\n\
         carries it, assembled by `ptxas -v`. Nothing here ran on a GPU. A kernel that spills fails the check.\n\n\
         | module | kernel |"
    );
    for capability in CAPABILITIES {
        let _ = write!(text, " registers sm_{capability} |");
    }
    text.push_str(" shared memory [bytes] | spilled [bytes] |\n| --- | --- |");
    text.push_str(&" ---: |".repeat(CAPABILITIES.len() + 2));
    text.push('\n');
    for ((module, kernel), costs) in costs {
        let _ = write!(text, "| {module} | {kernel} |");
        for capability in CAPABILITIES {
            let _ = write!(text, " {} |", costs.get(capability).map_or(0, |cost| cost.registers));
        }
        let shared = costs.values().map(|cost| cost.shared_bytes).max().unwrap_or(0);
        let spilled = costs
            .values()
            .map(|cost| cost.stack_bytes + cost.spill_bytes)
            .max()
            .unwrap_or(0);
        let _ = writeln!(text, " {shared} | {spilled} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 2096 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_80'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers, 380 bytes cmem[0]
";

    #[test]
    fn every_kernel_is_read() {
        let cost = |registers, shared_bytes, stack_bytes, spill_bytes| Cost {
            registers,
            shared_bytes,
            stack_bytes,
            spill_bytes,
        };
        let expected = vec![
            ("a".to_owned(), cost(32, 2096, 8, 28)),
            ("b".to_owned(), cost(16, 0, 0, 0)),
        ];
        assert_eq!(costs(SAID), expected);
    }

    #[test]
    fn a_row_a_kernel() {
        let of = |registers| Cost {
            registers,
            shared_bytes: 64,
            ..Cost::default()
        };
        let costs = BTreeMap::from([(
            ("needle_m".to_owned(), "k".to_owned()),
            BTreeMap::from([("80", of(20)), ("90", of(24))]),
        )]);
        let text = table(&costs, "release 13.0", "2026-01-31");
        assert!(text.contains("on 2026-01-31: release 13.0,"), "{text}");
        assert!(text.ends_with("| needle_m | k | 20 | 24 | 64 | 0 |\n"), "{text}");
    }
}
