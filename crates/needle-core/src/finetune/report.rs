//! A page that says what a run did: curves, scores before and after, the held-out rows that went wrong. One file, nothing loaded.

use std::{fmt::Write, path::Path};

use serde_json::Value;

use super::{FinetuneOptions, Plan, Verdict};
use crate::{
    course::{self, Advice, History},
    data::{Dataset, write_lines},
    error::Result,
    json::compact,
    score::{Outcome, Scores},
};

/// Held-out rows shown at most.
const WORST: usize = 50;
/// Lines listed at most for each trouble of the data.
const LINES: usize = 30;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--train:#3b82f6;--val:#f59e0b}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0}
th,td{border-bottom:1px solid var(--line);padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
svg{width:100%;height:auto}
svg text{font-size:11px;fill:currentColor}
svg .grid{stroke:var(--line)}
svg polyline{fill:none;stroke-width:1.5}
svg .train{stroke:var(--train)}
svg .val{stroke:var(--val)}
svg circle.val{fill:var(--val)}
.key b{font-weight:600}.key .t{color:var(--train)}.key .v{color:var(--val)}
.advice{border-left:3px solid var(--val);padding-left:.75rem}";

/// What a page is made of.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    /// The base model's name.
    pub base: &'a str,
    /// Where the run computed.
    pub device: &'a str,
    /// The data, for the lines that gave trouble.
    pub data: &'a Dataset,
    /// What was asked.
    pub options: &'a FinetuneOptions,
    /// What was planned.
    pub plan: &'a Plan,
    /// What happened.
    pub history: &'a History,
    /// How the held-out rows were answered, where any were asked.
    pub verdict: Option<&'a Verdict>,
}

impl Report<'_> {
    /// Writes the page; the file is replaced as a whole.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn save(&self, path: &Path) -> Result<()> {
        write_lines(path, [self.html().as_str()])
    }

    /// The page.
    pub fn html(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>Fine-tuning report</title>\n<style>\n{STYLE}\n</style>\n<h1>Fine-tuning report</h1>\n"
        );
        self.summary(&mut page);
        if let Some(advice) = Advice::of(self.history) {
            let _ = writeln!(page, "<p class=\"advice\">{}</p>", escaped(&advice.to_string()));
        }
        let _ = writeln!(
            page,
            "<h2>Loss</h2>\n<p class=\"key\"><b class=\"t\">training</b> and <b class=\"v\">held-out</b> rows, by step</p>\n{}",
            course::losses(self.history)
        );
        if let Some(verdict) = self.verdict {
            scores(&mut page, verdict);
            worst(&mut page, verdict);
        }
        self.troubles(&mut page);
        page + "</html>"
    }

    fn summary(&self, page: &mut String) {
        let Self { options, plan, .. } = self;
        let rows = [
            ("base", self.base.to_owned()),
            ("device", self.device.to_owned()),
            (
                "data",
                format!(
                    "{}: {} rows to learn from, {} held out",
                    self.data.source, plan.rows, plan.held_out
                ),
            ),
            (
                "steps",
                format!(
                    "{} of {} rows, {} epochs",
                    self.history.losses().len(),
                    plan.batch_size,
                    plan.epochs
                ),
            ),
            (
                "adapter",
                format!(
                    "rank {}, alpha {}, {} matrices, {} numbers",
                    options.adapter.rank, options.adapter.alpha, plan.groups, plan.parameters
                ),
            ),
            (
                "learning rate",
                format!(
                    "{} after {} steps, then down to 0",
                    options.learning_rate, plan.warmup_steps
                ),
            ),
            ("seed", options.seed.to_string()),
        ];
        page.push_str("<table>\n");
        for (name, value) in rows {
            let _ = writeln!(page, "<tr><th>{name}<td>{}", escaped(&value));
        }
        page.push_str("</table>\n");
    }

    fn troubles(&self, page: &mut String) {
        let lines: [(&str, Vec<String>); 4] = [
            (
                "Lines that were rejected",
                self.data.rejected.iter().map(ToString::to_string).collect(),
            ),
            ("Warnings", self.data.warnings.iter().map(ToString::to_string).collect()),
            (
                "Rows whose completion was cut short",
                self.plan
                    .cut
                    .iter()
                    .map(|row| {
                        format!(
                            "line {}: {} tokens, the last {} of the completion are lost",
                            row.line, row.tokens, row.target_cut
                        )
                    })
                    .collect(),
            ),
            (
                "Rows left out, because the prompt alone is too long",
                self.plan
                    .left_out
                    .iter()
                    .map(|row| format!("line {}: {} tokens", row.line, row.tokens))
                    .collect(),
            ),
        ];
        for (title, lines) in lines.iter().filter(|(_, lines)| !lines.is_empty()) {
            let _ = writeln!(page, "<h2>{title}: {}</h2>\n<ul>", lines.len());
            for line in lines.iter().take(LINES) {
                let _ = writeln!(page, "<li>{}", escaped(line));
            }
            page.push_str("</ul>\n");
            if lines.len() > LINES {
                let _ = writeln!(page, "<p>and {} more</p>", lines.len() - LINES);
            }
        }
    }
}

fn scores(page: &mut String, verdict: &Verdict) {
    let Verdict { before, after } = verdict;
    page.push_str("<h2>Held-out rows, answered by the exported numbers</h2>\n<table>\n<tr><th><th>before<th>after\n");
    type Part = (&'static str, fn(&Scores) -> String);
    let parts: [Part; 5] = [
        ("exact calls", |scores| scores.exact.words()),
        ("right tools", |scores| scores.tools.words()),
        ("arguments given that are right", |scores| {
            scores.argument_precision.words()
        }),
        ("arguments wanted that were given", |scores| {
            scores.argument_recall.words()
        }),
        ("refusals", |scores| scores.refusals.words()),
    ];
    for (name, words) in parts {
        let (before, after) = (words(&before.overall), words(&after.overall));
        let _ = writeln!(page, "<tr><th>{name}<td>{before}<td>{after}");
    }
    page.push_str("</table>\n<p>With 95 % intervals (Wilson).</p>\n");
    if after.tools.len() > 1 {
        page.push_str("<table>\n<tr><th>tool<th>exact before<th>exact after\n");
        for tool in &after.tools {
            let old = before.tools.iter().find(|old| old.name == tool.name);
            let old = old.map_or(String::new(), |old| old.exact.words());
            let _ = writeln!(
                page,
                "<tr><th>{}<td>{old}<td>{}",
                escaped(&tool.name),
                tool.exact.words()
            );
        }
        page.push_str("</table>\n");
    }
}

/// The rows that are wrong after tuning; those that were right before come first.
fn worst(page: &mut String, verdict: &Verdict) {
    let was_right = |outcome: &Outcome| {
        let before = verdict.before.outcomes.iter().find(|before| before.id == outcome.id);
        before.is_some_and(|before| before.comparison.exact)
    };
    let (lost, still): (Vec<_>, Vec<_>) = verdict
        .after
        .errors()
        .into_iter()
        .partition(|outcome| was_right(outcome));
    if lost.is_empty() && still.is_empty() {
        page.push_str("<h2>Wrong rows</h2>\n<p>None.</p>\n");
        return;
    }
    let count = lost.len() + still.len();
    let _ = writeln!(
        page,
        "<h2>Wrong rows: {count}, {} of them right before</h2>\n<table>",
        lost.len()
    );
    page.push_str("<tr><th>query<th>wanted<th>called\n");
    for outcome in lost.iter().chain(&still).take(WORST) {
        let made = match &outcome.fault {
            Some(fault) => fault.clone(),
            None => serde_json::to_value(&outcome.made).map_or(String::new(), |made| compact(&made)),
        };
        let wanted = compact(&Value::Array(outcome.expected.clone()));
        let (query, wanted, made) = (escaped(&outcome.query), escaped(&wanted), escaped(&made));
        let _ = writeln!(page, "<tr><td>{query}<td><code>{wanted}</code><td><code>{made}</code>");
    }
    page.push_str("</table>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
