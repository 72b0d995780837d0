//! A program that carries a tool out: the arguments as JSON on its stdin, the result on its stdout, both within bounds.

use std::{
    io::{Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use needle_core::compact_json;
use serde_json::Value;

/// A result that is longer would fill no window that a model has.
const MOST_BYTES: u64 = 1_000_000;

/// How often a program that has closed its stdout is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a program with the arguments on its stdin; its stdout is the result. No shell, no command-line arguments. A program
/// that writes too much or takes too long is killed.
pub(crate) fn execute(program: &str, arguments: &Value, limit: Duration) -> Result<Value> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start")?;
    let outcome = converse(&mut child, arguments, limit);
    if outcome.is_err() {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (output, status) = outcome?;
    if !status.success() {
        bail!("ended with {status}");
    }
    let text = String::from_utf8_lossy(&output).trim().to_owned();
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Writes and reads on threads of their own: a program may answer before it has read, or never.
fn converse(child: &mut Child, arguments: &Value, limit: Duration) -> Result<(Vec<u8>, ExitStatus)> {
    let deadline = Instant::now() + limit;
    let late = || format!("took longer than {} s and was stopped", limit.as_secs_f64());
    if let Some(mut stdin) = child.stdin.take() {
        let line = format!("{}\n", compact_json(arguments));
        // A program that does not read its arguments is no error.
        thread::Builder::new().spawn(move || drop(stdin.write_all(line.as_bytes())))?;
    }
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(MOST_BYTES + 1).read_to_end(&mut bytes);
            // Nobody listens any more where the time was up.
            drop(sender.send(read.map(|_| bytes)));
        })?;
    }
    let Ok(output) = receiver.recv_timeout(limit) else {
        bail!(late());
    };
    let output = output.context("its stdout")?;
    if output.len() as u64 > MOST_BYTES {
        bail!("wrote more than {MOST_BYTES} bytes and was stopped");
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((output, status));
        }
        if Instant::now() >= deadline {
            bail!(late());
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use serde_json::json;

    use super::*;

    fn script(name: &str) -> String {
        format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    fn refusal(program: &str, limit: Duration) -> String {
        execute(program, &json!({}), limit)
            .err()
            .map_or_else(String::new, |error| format!("{error:#}"))
    }

    /// More than the pipes hold, both ways.
    #[test]
    fn a_program_may_answer_while_it_is_written_to() -> Result<()> {
        let long = json!("x".repeat(500_000));
        assert_eq!(execute("/bin/cat", &long, Duration::from_secs(60))?, long);
        Ok(())
    }

    #[test]
    fn one_that_writes_for_ever_is_stopped() {
        let why = refusal(&script("endless"), Duration::from_secs(60));
        assert_eq!(why, "wrote more than 1000000 bytes and was stopped");
    }

    #[test]
    fn one_that_hangs_is_stopped_with_or_without_its_stdout() {
        let limit = Duration::from_millis(200);
        let late = "took longer than 0.2 s and was stopped";
        assert_eq!(refusal(&script("hangs"), limit), late);
        assert_eq!(refusal(&script("hangs-silently"), limit), late);
    }

    #[test]
    fn failures_are_named() {
        let minute = Duration::from_secs(60);
        assert!(refusal("/bin/false", minute).contains("exit status: 1"));
        assert!(refusal("/no/such/program", minute).starts_with("cannot start: "));
    }
}
