//! Our engine beside the peer's, `needle-infer` 0.3.1 from crates.io, on the same archives in one run.
//!
//! The peer is built in a folder of its own and is no dependency of the workspace. Every engine is a process with a few words
//! of input (`worker`, `peer.rs`), pinned to its cores; the rounds go through all of them in turn, so that whatever else the
//! machine does meets all alike. One thread is compared by processor time, two by the wall's, where only a quiet machine
//! gives a true figure.

mod machine;
mod worker;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{cargo, run as execute, target_dir};

/// Rounds, of which the median counts.
const ROUNDS: usize = 7;
/// Greedy steps that a round times.
const STEPS: usize = 32;
const CONTEXTS: [usize; 3] = [64, 256, 512];
/// Room for the longest context and its steps.
const WINDOW: &str = "640";

/// `THREADS FILE…`: 1 or 2 threads, archives of generation 2.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let (threads, files) = match args {
        ["worker", rest @ ..] => return worker::run(rest),
        ["1", files @ ..] if !files.is_empty() => (1, files),
        ["2", files @ ..] if !files.is_empty() => (2, files),
        _ => bail!("how many threads, which archives? `cargo xtask bench inference 1|2 FILE…`"),
    };
    ensure!(
        cfg!(target_os = "linux"),
        "processes are pinned and measured as Linux does it"
    );
    let peer = match threads {
        1 => build_peer("one", &[])?,
        _ => build_peer("parallel", &["--features", "parallel"])?,
    };
    machine::print();
    for file in files {
        let file = fs::canonicalize(file).with_context(|| (*file).to_owned())?;
        compare(&file, &peer, threads)?;
    }
    Ok(())
}

/// Builds the peer's worker and returns the program.
fn build_peer(name: &str, features: &[&str]) -> Result<PathBuf> {
    let folder = target_dir().join("peer").join(name);
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), include_str!("peer.toml"))?;
    fs::write(folder.join("src/main.rs"), include_str!("peer.rs"))?;
    let mut build = cargo(&["build", "--quiet", "--release"]);
    execute(
        build
            .args(features)
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target")),
    )?;
    Ok(folder.join("target/release/peer-worker"))
}

/// An engine as a row of the table.
struct Subject {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    threads: usize,
}

impl Subject {
    fn start(&self) -> Result<Engine> {
        Engine::start(self)
    }
}

fn subjects(file: &Path, peer: &Path, threads: usize, window: &str) -> Result<Vec<Subject>> {
    let file = file.to_str().context("the path is no UTF-8")?;
    let own = std::env::current_exe()?;
    let ours = |numerics: &'static str| Subject {
        name: numerics,
        program: own.clone(),
        args: [
            "bench",
            "inference",
            "worker",
            file,
            numerics,
            &threads.to_string(),
            window,
        ]
        .map(String::from)
        .into(),
        threads,
    };
    let peer = Subject {
        name: "peer",
        program: peer.to_owned(),
        args: vec![file.to_owned()],
        threads,
    };
    Ok(vec![peer, ours("exact"), ours("fast")])
}

/// A running engine.
struct Engine {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Milliseconds: loading, then from the start of the process to the first token, on the wall and of the processor.
    load_ms: f64,
    first_ms: f64,
    first_processor_ms: f64,
}

impl Engine {
    fn start(subject: &Subject) -> Result<Self> {
        let start = Instant::now();
        let mut process = Command::new("taskset")
            .args(["-c", if subject.threads == 1 { "0" } else { "0,1" }])
            .arg(&subject.program)
            .args(&subject.args)
            .env("RAYON_NUM_THREADS", subject.threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", subject.name))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut engine = Self {
            process,
            input,
            output,
            load_ms: 0.0,
            first_ms: 0.0,
            first_processor_ms: 0.0,
        };
        let numbers = engine.numbers()?;
        engine.first_ms = start.elapsed().as_secs_f64() * 1e3;
        engine.load_ms = numbers[0] / 1e6;
        engine.first_processor_ms = numbers[2] / 1e6;
        Ok(engine)
    }

    fn ask(&mut self, line: &str) -> Result<Vec<f64>> {
        let input = self.input.as_mut().context("no input")?;
        writeln!(input, "{line}")?;
        self.numbers()
    }

    fn numbers(&mut self) -> Result<Vec<f64>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let numbers = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>()?;
        if numbers.is_empty() {
            bail!("an engine ended early");
        }
        Ok(numbers)
    }

    /// A line of the process's status, in megabytes.
    fn megabytes(&self, field: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status
            .lines()
            .find(|line| line.starts_with(field))
            .context("no such field")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The end of its input ends the process.
        self.input = None;
        let _ = self.process.wait();
    }
}

/// One figure of every round.
type Rounds = Vec<f64>;

/// A subject's figures: tokens a second.
struct Figures {
    prefill: [Rounds; 3],
    decode: [Rounds; 3],
}

fn compare(file: &Path, peer_program: &Path, threads: usize) -> Result<()> {
    let size = fs::metadata(file)?.len() as f64 / 1e6;
    let name = file.file_name().unwrap_or_default().display();
    println!("\n{name} ({size:.1} MB), threads: {threads}");
    let subjects = subjects(file, peer_program, threads, WINDOW)?;
    let mut engines = subjects.iter().map(Subject::start).collect::<Result<Vec<_>>>()?;
    let mut figures: Vec<Figures> = subjects
        .iter()
        .map(|_| Figures {
            prefill: Default::default(),
            decode: Default::default(),
        })
        .collect();
    for (i, context) in CONTEXTS.into_iter().enumerate() {
        for _ in 0..ROUNDS {
            for ((subject, engine), figures) in subjects.iter().zip(&mut engines).zip(&mut figures) {
                let times = engine.ask(&format!("run {context} {STEPS}"))?;
                // Waiting helpers spend processor time, too: of several threads only the wall's time says something.
                let at = usize::from(subject.threads == 1);
                figures.prefill[i].push(context as f64 / times[at] * 1e9);
                figures.decode[i].push(STEPS as f64 / times[2 + at] * 1e9);
            }
        }
    }
    drop(engines);

    println!(
        "{:<18}{:>33}{:>33}",
        "tokens a second", "prefill 64 / 256 / 512", "decode at 64 / 256 / 512"
    );
    for (subject, own) in subjects.iter().zip(&figures) {
        let all = own.prefill.iter().chain(&own.decode);
        let cells: String = all.map(|rounds| format!("{:>11.0}", median(rounds))).collect();
        println!("{:<18}{cells}", subject.name);
    }
    let Some((peer, own)) = figures.split_first() else {
        return Ok(());
    };
    for (subject, own) in subjects[1..].iter().zip(own) {
        let pairs = own
            .prefill
            .iter()
            .zip(&peer.prefill)
            .chain(own.decode.iter().zip(&peer.decode));
        let cells: String = pairs
            .map(|(own, peer)| format!("{:>11.1}", median(own) / median(peer)))
            .collect();
        println!("{:<18}{cells}", format!("{} / peer", subject.name));
    }
    start_and_memory(file, peer_program, threads)?;
    batches(file, peer_program, threads)
}

/// Loading and memory, each of fresh processes with a window of 256.
fn start_and_memory(file: &Path, peer: &Path, threads: usize) -> Result<()> {
    println!(
        "{:<18}{:>11}{:>14}{:>16}{:>14}{:>12}",
        "", "load, ms", "first token", "its processor", "resident, MB", "peak, MB"
    );
    let subjects = subjects(file, peer, threads, "256")?;
    let mut rows: Vec<[Rounds; 5]> = subjects.iter().map(|_| Default::default()).collect();
    for _ in 0..ROUNDS {
        for (subject, row) in subjects.iter().zip(&mut rows) {
            let mut engine = subject.start()?;
            engine.ask(&format!("run 224 {STEPS}"))?;
            let found = [
                engine.load_ms,
                engine.first_ms,
                engine.first_processor_ms,
                engine.megabytes("VmRSS")?,
                engine.megabytes("VmHWM")?,
            ];
            row.iter_mut()
                .zip(found)
                .for_each(|(rounds, number)| rounds.push(number));
        }
    }
    for (subject, row) in subjects.iter().zip(&rows) {
        let [load, first, processor, resident, peak] = row.each_ref().map(median);
        println!(
            "{:<18}{load:>11.1}{first:>14.1}{processor:>16.1}{resident:>14.1}{peak:>12.1}",
            subject.name
        );
    }
    Ok(())
}

/// Sequences side by side: tokens a second of all together.
fn batches(file: &Path, peer: &Path, threads: usize) -> Result<()> {
    println!("{:<18}{:>11}{:>11}{:>11}", "batch, tokens/s", "1", "4", "16");
    // The peer takes one sequence at a time.
    for subject in subjects(file, peer, threads, "256")?.into_iter().skip(1) {
        let mut engine = subject.start()?;
        let mut cells = String::new();
        for size in [1, 4, 16] {
            let mut rounds = Rounds::new();
            for _ in 0..ROUNDS {
                let times = engine.ask(&format!("batch {size} 64 {STEPS}"))?;
                let at = usize::from(subject.threads == 1);
                rounds.push((size * STEPS) as f64 / times[2 + at] * 1e9);
            }
            cells += &format!("{:>11.0}", median(&rounds));
        }
        println!("{:<18}{cells}", subject.name);
    }
    Ok(())
}

/// The middle of the rounds.
fn median(rounds: &Rounds) -> f64 {
    let mut sorted = rounds.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
