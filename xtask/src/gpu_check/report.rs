//! What a check found: as JSON for programs, as tables for people.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::options::{Kind, Options};

/// How a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It was stopped, or not begun.
    OutOfTime,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::OutOfTime => "out of time",
        }
    }
}

/// One program's run.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
    /// The last thing it said, or why it failed.
    pub(super) detail: String,
}

/// All that a check found so far.
pub(super) struct Report {
    kind: Kind,
    device: String,
    dry: bool,
    limit: Duration,
    commit: String,
    date: String,
    parts: Vec<Part>,
    /// What `needle devices` says there.
    machine: Option<Value>,
    /// One object a measurement, as the program printed it.
    measures: Vec<Value>,
}

impl Report {
    pub(super) fn new(options: &Options, commit: String) -> Self {
        Self {
            kind: options.kind,
            device: options.device.clone(),
            dry: options.is_dry(),
            limit: options.limit,
            commit,
            date: crate::nvcc::today().unwrap_or_else(|_| "on an unknown day".to_owned()),
            parts: Vec::new(),
            machine: None,
            measures: Vec::new(),
        }
    }

    /// Adds a part and writes everything so far into `folder`.
    pub(super) fn add(&mut self, part: Part, folder: &Path) -> Result<()> {
        println!("== {}: {}, {:.1} s", part.name, part.outcome.word(), part.seconds);
        self.parts.push(part);
        self.write(folder)
    }

    /// Takes the lines of the measuring program: the machine, then one object a measurement.
    pub(super) fn take(&mut self, lines: impl Iterator<Item = Value>) {
        for line in lines {
            match line["what"].as_str() {
                Some("machine") => self.machine = Some(line["report"].clone()),
                Some(_) => self.measures.push(line),
                None => {}
            }
        }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let files = [("json", format!("{:#}\n", self.json())), ("md", self.markdown())];
        for (ending, text) in files {
            let path = folder.join(self.kind.report()).with_extension(ending);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let part = |part: &Part| {
            json!({
                "name": part.name,
                "outcome": part.outcome.word(),
                "seconds": part.seconds,
                "detail": part.detail,
            })
        };
        json!({
            "date": self.date,
            "commit": self.commit,
            "device": self.device,
            "dry_run": self.dry,
            "limit_seconds": self.limit.as_secs(),
            "machine": self.machine,
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
            "measurements": self.measures,
        })
    }

    /// Tables of the parts and the measurements.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# {} of {}, commit {}\n\n", self.kind.report(), self.date, self.commit);
        if self.dry {
            text.push_str("**A dry run: the processor stands in for the GPU. No figure below is one of a GPU.**\n\n");
        }
        let found = self
            .machine
            .as_ref()
            .and_then(|machine| described(machine, &self.device));
        let _ = writeln!(
            text,
            "Device {}: {}.\n",
            self.device,
            found.as_deref().unwrap_or("not described")
        );
        text.push_str("| part | outcome | seconds | it says |\n| --- | --- | ---: | --- |\n");
        for part in &self.parts {
            let said = part.detail.replace('|', "\\|");
            let _ = writeln!(
                text,
                "| {} | {} | {:.1} | {said} |",
                part.name,
                part.outcome.word(),
                part.seconds
            );
        }
        text.push_str("\n| weights | type | batch | step | prefill [tokens/s] | decode [tokens/s] | memory [MB] |\n");
        text.push_str("| --- | --- | ---: | --- | ---: | ---: | ---: |\n");
        for row in self.measures.iter().filter(|row| row["what"] == "speed") {
            let word = |key: &str| row[key].as_str().unwrap_or("?").to_owned();
            let (prefill, decode) = (number(&row["prefill_tps"]), number(&row["decode_tps"]));
            let memory = row["memory_bytes"]
                .as_f64()
                .map_or_else(|| "–".to_owned(), |bytes| format!("{:.0}", bytes / 1e6));
            let (weights, dtype, step) = (word("weights"), word("dtype"), word("step"));
            let _ = writeln!(
                text,
                "| {weights} | {dtype} | {} | {step} | {prefill} | {decode} | {memory} |",
                row["batch"]
            );
        }
        for row in self.measures.iter().filter(|row| row["what"] == "training") {
            let seconds = number(&row["seconds_per_step"]);
            let _ = writeln!(text, "\nOne step of fine-tuning: {seconds} s.");
        }
        text
    }

    /// Fails where a part did not pass.
    pub(super) fn verdict(&self) -> Result<()> {
        let bad: Vec<String> = self
            .parts
            .iter()
            .filter(|part| part.outcome != Outcome::Passed)
            .map(|part| format!("{}: {} {}", part.name, part.outcome.word(), part.detail))
            .collect();
        if !bad.is_empty() {
            bail!("{}", bad.join("; "));
        }
        Ok(())
    }
}

/// A figure, or why there is none.
fn number(value: &Value) -> String {
    match (value.as_f64(), value.as_str()) {
        (Some(number), _) if number >= 100.0 => format!("{number:.0}"),
        (Some(number), _) => format!("{number:.2}"),
        (None, Some(reason)) => reason.to_owned(),
        (None, None) => "–".to_owned(),
    }
}

/// What a report of the machine says of one device.
fn described(machine: &Value, device: &str) -> Option<String> {
    let backends = machine["backends"].as_array()?;
    let devices = backends
        .iter()
        .filter_map(|backend| backend["devices"].as_array())
        .flatten();
    let found = devices.into_iter().find(|found| found["name"] == device);
    let word = |value: &Value| value.as_str().map(str::to_owned);
    match found {
        Some(found) => {
            let capability = word(&found["capability"]).map(|version| format!(", compute capability {version}"));
            let driver = word(&machine["versions"]["driver_release"]).map(|release| format!(", driver {release}"));
            let [capability, driver] = [capability, driver].map(Option::unwrap_or_default);
            Some(format!("{}{capability}{driver}", word(&found["description"])?))
        }
        None if device == "cpu" => Some("the processor".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(words: &[&str]) -> Report {
        let mut report = Report::new(&Options::parse(Kind::Cuda, words).unwrap(), "abc".into());
        report.date = "2026-01-31".into();
        report
    }

    fn lines() -> Vec<Value> {
        vec![
            json!({ "what": "machine", "report": {
                "backends": [{ "devices": [{ "name": "cuda:0", "description": "H", "capability": "9.0" }] }],
                "versions": { "driver_release": "580.95" } } }),
            json!({ "what": "speed", "weights": "2-bit", "dtype": "bf16", "batch": 8, "step": "fused, graph",
                    "prefill_tps": 12345.6, "decode_tps": 99.5, "memory_bytes": 2e8 }),
            json!({ "what": "speed", "weights": "bf16", "dtype": "bf16", "batch": 1, "step": "fused",
                    "prefill_tps": null, "decode_tps": "not offered", "memory_bytes": null }),
            json!({ "what": "training", "seconds_per_step": 0.5 }),
        ]
    }

    fn part(outcome: Outcome) -> Part {
        Part {
            name: "kernel cases".into(),
            outcome,
            seconds: 1.25,
            detail: "3 cases | 0 wrong".into(),
        }
    }

    #[test]
    fn the_tables() {
        let mut report = report(&[]);
        report.take(lines().into_iter());
        report.parts.push(part(Outcome::Passed));
        let expected = "\
# gpu-report of 2026-01-31, commit abc

Device cuda:0: H, compute capability 9.0, driver 580.95.

| part | outcome | seconds | it says |
| --- | --- | ---: | --- |
| kernel cases | passed | 1.2 | 3 cases \\| 0 wrong |

| weights | type | batch | step | prefill [tokens/s] | decode [tokens/s] | memory [MB] |
| --- | --- | ---: | --- | ---: | ---: | ---: |
| 2-bit | bf16 | 8 | fused, graph | 12346 | 99.50 | 200 |
| bf16 | bf16 | 1 | fused | – | not offered | – |

One step of fine-tuning: 0.50 s.
";
        assert_eq!(report.markdown(), expected);
    }

    #[test]
    fn a_dry_run_says_so_and_parts_are_written_as_they_end() {
        let folder = std::env::temp_dir().join(format!("needle-gpu-report-{}", std::process::id()));
        let mut report = report(&["--device", "cpu"]);
        report.add(part(Outcome::Passed), &folder).unwrap();
        let text = fs::read_to_string(folder.join("gpu-report.md")).unwrap();
        assert!(
            text.contains("**A dry run: the processor stands in for the GPU."),
            "{text}"
        );
        let json: Value = serde_json::from_str(&fs::read_to_string(folder.join("gpu-report.json")).unwrap()).unwrap();
        assert_eq!(
            (&json["dry_run"], &json["parts"][0]["outcome"]),
            (&json!(true), &json!("passed"))
        );
        fs::remove_dir_all(folder).unwrap();
        report.verdict().unwrap();
    }

    #[test]
    fn a_part_that_did_not_pass_fails_the_check() {
        for (outcome, word) in [(Outcome::Failed, "FAILED"), (Outcome::OutOfTime, "out of time")] {
            let mut report = report(&[]);
            report.parts.push(part(outcome));
            let error = report.verdict().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
