//! What a strict run or a strict extraction must refuse.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Sources, dates::Dates, negation, numbers::written_paths};

/// What [`extraction_faults`] calls a text that asks for nothing to be done.
pub const NEGATED_REQUEST: &str = "negated request";

/// For strict runs: the marked paths of this tool that stay, without the tool's name, sorted, none twice.
///
/// A marked number is forgiven where the query or the system text writes it; earlier turns do not count. Where anything
/// stays the function is not executed, and `{"error": "ungrounded a, b"}` is its result. `marked` are entries as
/// [`super::ungrounded`] makes them; those of other tools are passed over. Give the marks of this call alone, or those of
/// the whole answer to refuse every call of a tool when one is wrong, as the reference does.
pub fn unforgiven(sources: &Sources, text: &str, tool_name: &str, arguments: &Value, marked: &[String]) -> Vec<String> {
    let written = written_paths([text, sources.system()], arguments);
    let stays: BTreeSet<&str> = marked
        .iter()
        .filter_map(|entry| own_path(entry, tool_name))
        .filter(|path| !written.contains(*path))
        .collect();
    stays.into_iter().map(str::to_owned).collect()
}

/// For strict extraction: the paths that make the result unacceptable, sorted, none twice; empty where it is good.
///
/// They are dates whose year contradicts the text, marked paths that are neither a written number nor a date that was
/// tested and found right, and [`NEGATED_REQUEST`] where the text is a [`negation()`]. `schema` is the tool's
/// `parameters`. `sources` is a fresh conversation: an extraction has no earlier turns.
pub fn extraction_faults(
    sources: &Sources,
    text: &str,
    tool_name: &str,
    schema: &Value,
    arguments: &Value,
    marked: &[String],
) -> Vec<String> {
    let Dates {
        tested,
        wrong: mut faults,
    } = Dates::check(&sources.licensed_years(text), schema, arguments);
    let written = written_paths([text, sources.system()], arguments);
    for entry in marked {
        let path = own_path(entry, tool_name).unwrap_or(entry);
        if !written.contains(path) && !tested.contains(path) {
            faults.insert(path.into());
        }
    }
    if negation(text) {
        faults.insert(NEGATED_REQUEST.into());
    }
    faults.into_iter().collect()
}

/// An entry without its tool; a bare tool's name stands for the whole call.
fn own_path<'a>(entry: &'a str, tool_name: &str) -> Option<&'a str> {
    match entry.strip_prefix(tool_name)? {
        "" => Some(entry),
        rest => rest.strip_prefix('.'),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marked(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).into()).collect()
    }

    #[test]
    fn numbers_of_query_and_system_are_forgiven() {
        let sources = Sources::new(Some("date: 2026-07-14 Tue 09:00; tax 19%"));
        let arguments = json!({"sum": 1200, "tax": 19.0, "day": 14, "name": "9"});
        let marks = marked(&["pay.tax", "pay.sum", "pay.name", "pay.day", "pay.name", "other.sum"]);
        assert_eq!(
            unforgiven(&sources, "pay 1,200", "pay", &arguments, &marks),
            ["day", "name"]
        );
        assert!(unforgiven(&sources, "pay 1,200", "pay", &arguments, &[]).is_empty());
        assert_eq!(
            unforgiven(&sources, "", "pay", &arguments, &marked(&["pay", "payments.x"])),
            ["pay"]
        );
    }

    #[test]
    fn a_tool_with_a_dot_keeps_its_marks() {
        let left = unforgiven(
            &Sources::new(None),
            "",
            "shop.buy",
            &json!({"day": "x"}),
            &marked(&["shop.buy.day"]),
        );
        assert_eq!(left, ["day"]);
    }

    #[test]
    fn an_extraction_fails_on_dates_marks_and_negation() {
        let sources = Sources::new(Some("date: 2026-07-14 Tue 09:00"));
        let schema = json!({"properties": {"due": {"format": "date"}, "sum": {"type": "number"}}});
        let arguments = json!({"due": "2026-06-05", "sum": 30});
        let faults =
            |text, marks: &[&str]| extraction_faults(&sources, text, "bill", &schema, &arguments, &marked(marks));
        assert!(faults("bill of 30, due 5 June 2026", &["bill.sum", "bill.due"]).is_empty());
        assert_eq!(
            faults("bill of 20, due 5 June 2025", &["bill.sum", "bill.who"]),
            ["due", "sum", "who"]
        );
        assert_eq!(
            faults("due June 5", &["bill.due"]),
            ["due"],
            "no year written, so the mark was not refuted"
        );
        assert_eq!(faults("don't log the 30 I paid", &[]), [NEGATED_REQUEST]);
    }
}
