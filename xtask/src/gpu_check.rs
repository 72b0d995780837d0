//! `cargo xtask gpu-check` and `metal-check`: everything that only a machine with a GPU can show, in one run of a few minutes.
//!
//! Three programs do the work: every kernel case, the parity suite, and the measurements. They are built here, or were built
//! elsewhere and carried. What they say goes into a report, which is written anew after every part: a run that is cut short
//! leaves what it had.

mod options;
mod programs;
mod report;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub(crate) use options::Kind;
use options::{Action, Options};
use programs::Programs;
use report::{Outcome, Part, Report};

use crate::cargo::output;

/// Runs the check that `args` describe.
pub(crate) fn run(kind: Kind, args: &[&str]) -> Result<()> {
    let options = Options::parse(kind, args)?;
    if let Action::Pack(folder) = &options.action {
        return Programs::build(&options)?.copy_to(folder);
    }
    let programs = match &options.action {
        Action::Carried(folder) => Programs::carried(folder)?,
        _ => {
            options.expect_machine()?;
            Programs::build(&options)?
        }
    };
    let mut report = Report::new(&options, commit());
    let start = Instant::now();
    let until = |seconds: u64| (start + options.limit).min(Instant::now() + Duration::from_secs(seconds));
    if let Some(cases) = &programs.cases {
        let part = watched("kernel cases", &mut Command::new(cases), until(90), |_| {});
        report.add(part, &options.out)?;
    }
    let mut parity = Command::new(&programs.tests);
    parity.arg("parity").env("NEEDLE_TEST_DEVICE", &options.device);
    report.add(watched("parity suite", &mut parity, until(180), |_| {}), &options.out)?;
    let mut speed = Command::new(&programs.measures);
    speed.args(["bench", "speed", &options.device, options.size]);
    let mut lines = Vec::new();
    let part = watched("measurements", &mut speed, until(600), |line| {
        lines.push(line.to_owned())
    });
    report.take(lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
    report.add(part, &options.out)?;
    println!("{}\nwritten to {}", report.markdown(), options.out.display());
    report.verdict()
}

/// Runs a program until `deadline`, handing over its lines as they come.
fn watched(name: &str, command: &mut Command, deadline: Instant, mut on_line: impl FnMut(&str)) -> Part {
    println!("== {name}");
    let start = Instant::now();
    let mut last = String::new();
    let outcome = watch(command, deadline, |line| {
        on_line(line);
        if !line.trim().is_empty() {
            last = line.to_owned();
        }
    });
    let (outcome, detail) = match outcome {
        Ok(outcome) => (outcome, last),
        Err(error) => (Outcome::Failed, format!("{error:#}")),
    };
    Part {
        name: name.to_owned(),
        outcome,
        seconds: start.elapsed().as_secs_f64(),
        detail,
    }
}

fn watch(command: &mut Command, deadline: Instant, mut on_line: impl FnMut(&str)) -> Result<Outcome> {
    if Instant::now() >= deadline {
        return Ok(Outcome::OutOfTime);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (send, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let complaints = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    });
    let in_time = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => on_line(&line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break true,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break false,
        }
    };
    if !in_time {
        child.kill().context("cannot stop it")?;
        child.wait()?;
        return Ok(Outcome::OutOfTime);
    }
    let status = child.wait()?;
    let _ = reader.join();
    let complaints = complaints.join().unwrap_or_default();
    if status.success() {
        return Ok(Outcome::Passed);
    }
    eprint!("{complaints}");
    let reason = complaints
        .lines()
        .rfind(|line| line.contains("error"))
        .unwrap_or_default();
    bail!("{status} {reason}")
}

fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=12", "HEAD"]);
    output(&mut git).map_or_else(|_| "unknown".to_owned(), |commit| commit.trim().to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[test]
    fn lines_arrive_and_the_last_is_kept() {
        let mut lines = Vec::new();
        let part = watched("x", &mut sh("echo one; echo two; echo"), later(60), |line| {
            lines.push(line.to_owned())
        });
        assert_eq!(lines, ["one", "two", ""]);
        assert_eq!((part.outcome, part.detail.as_str()), (Outcome::Passed, "two"));
    }

    #[test]
    fn a_failure_says_why() {
        let part = watched("x", &mut sh("echo 'error: no GPU' >&2; exit 1"), later(60), |_| {});
        assert_eq!(part.outcome, Outcome::Failed);
        assert!(part.detail.contains("error: no GPU"), "{}", part.detail);
        let part = watched("x", &mut Command::new("/nowhere/at-all"), later(60), |_| {});
        assert!(part.detail.contains("cannot start /nowhere/at-all"), "{}", part.detail);
    }

    #[test]
    fn time_that_is_up_stops_a_program_and_starts_none() {
        let part = watched("x", &mut sh("echo begun; exec sleep 60"), later(1), |_| {});
        assert_eq!((part.outcome, part.detail.as_str()), (Outcome::OutOfTime, "begun"));
        assert!(part.seconds < 30.0);
        let part = watched("x", &mut sh("exit 1"), Instant::now(), |_| {});
        assert_eq!(part.outcome, Outcome::OutOfTime);
    }
}
