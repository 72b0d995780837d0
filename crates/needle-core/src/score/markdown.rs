//! A report as Markdown tables.

use super::{Reliability, Report, Scores, Share};

impl Report {
    /// The report for people: what ran, all cases, each category, each tool, confidence.
    pub fn markdown(&self) -> String {
        let Self {
            model,
            device,
            dtype,
            form,
            overall,
            categories,
            tools,
            reliability,
            elapsed_ms,
            ..
        } = self;
        let decoding = match *form {
            "free" => "without the grammar",
            _ => "with the grammar",
        };
        let mut text = format!(
            "{} cases, `{model}` on {device} in {dtype}, {decoding}, {:.1} s. Shares with Wilson's 95 % interval.\n\n",
            overall.exact.n,
            *elapsed_ms as f64 / 1e3
        );
        text += &table("category", categories.iter().chain([overall]));
        if !tools.is_empty() {
            text += "\n";
            text += &table("wanted tool", tools);
        }
        if let Some(reliability) = reliability {
            text += &confidence(reliability);
        }
        text
    }
}

fn table<'a>(what: &str, rows: impl IntoIterator<Item = &'a Scores>) -> String {
    let mut text = format!(
        "| {what} | n | exact call | right tools | argument precision | argument recall | refusals | faults |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for row in rows {
        let cells = [
            row.name.replace('|', "\\|").replace('\n', " "),
            row.exact.n.to_string(),
            cell(&row.exact),
            cell(&row.tools),
            cell(&row.argument_precision),
            cell(&row.argument_recall),
            cell(&row.refusals),
            row.faults.to_string(),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

fn cell(share: &Share) -> String {
    match (share.value(), share.interval()) {
        (Some(value), Some((low, high))) => {
            let [value, low, high] = [value, low, high].map(|share| 100.0 * share);
            format!("{value:.1} % ({low:.1}–{high:.1})")
        }
        _ => "–".into(),
    }
}

fn confidence(reliability: &Reliability) -> String {
    let mut text = format!(
        "\nConfidence of {} cases; expected calibration error {:.3}.\n\n\
         | confidence at least | kept | exact among them |\n| --- | --- | --- |\n",
        reliability.n, reliability.ece
    );
    for row in &reliability.thresholds {
        text += &format!("| {:.2} | {} | {} |\n", row.least, cell(&row.kept), cell(&row.exact));
    }
    text += "\n| confidence | n | mean | exact |\n| --- | --- | --- | --- |\n";
    for bin in &reliability.bins {
        let (from, to, mean) = (bin.from, bin.to, bin.confidence);
        text += &format!(
            "| {from:.1}–{to:.1} | {} | {mean:.3} | {} |\n",
            bin.exact.n,
            cell(&bin.exact)
        );
    }
    text
}
