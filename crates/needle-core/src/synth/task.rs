//! What one request asks for: some tools, a number of examples, and a nudge that keeps batches from being alike.

use crate::{
    data::{Chance, Row},
    json::compact,
    tool::{Tool, ToolSet},
};

/// What examples are made of.
#[derive(Clone, Debug)]
pub enum Source {
    /// Of tools alone.
    Tools(ToolSet),
    /// Of rows, to which others with the same tools are added.
    Rows(Vec<Row>),
}

/// One request.
pub(super) struct Task {
    pub(super) tools: ToolSet,
    pub(super) user: String,
    pub(super) seed: u64,
}

/// Tools that one request shows; of more, a chance selection.
const MOST_TOOLS: usize = 5;
/// Rows that one request shows.
const MOST_SHOWN: usize = 5;

/// How people talk; each request asks for one manner more than the others.
const MANNERS: [&str; 10] = [
    "short commands of two to five words",
    "full and polite questions",
    "statements that only imply the wish",
    "casual speech with contractions",
    "wishes with a reason or some context in front",
    "unusual but natural verbs, none of the words of the tools' names",
    "values at the beginning of the sentence",
    "a hurried person who leaves words out",
    "older people who explain themselves",
    "everyday speech with small slips of grammar",
];

pub(super) const SYSTEM: &str = "You write training examples for a small model that turns a user's words into tool calls. \
    You answer with one JSON array and nothing else.";

impl Source {
    /// The task of a batch: the same for the same seed and number.
    pub(super) fn task(&self, seed: u64, batch: usize, size: usize) -> crate::Result<Task> {
        let mut chance = Chance::new(seed ^ (batch as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (tools, shown) = match self {
            Self::Tools(tools) => (some_tools(tools, &mut chance)?, Vec::new()),
            Self::Rows(rows) => some_rows(rows, &mut chance),
        };
        let manner = MANNERS[chance.below(MANNERS.len())];
        let refusals = (size * 12).div_ceil(100);
        let mut user = format!(
            "The tools:\n{}\n\nWrite {size} different examples as a JSON array of objects \
             {{\"query\": what the user says, \"answers\": [{{\"name\": tool, \"arguments\": {{...}}}}]}}.\n\
             - Every value of an argument is said in the query, spelt as there; numbers are numbers.\n\
             - Arguments that are not required are given only where the query says them.\n\
             - Arguments stand in the order of the tool's parameters and obey their schema.\n\
             - About one in ten asks for two calls at once.\n\
             - {refusals} of them are about something that none of the tools can do; their answers are [].\n\
             - Vary names, numbers, places and sentence forms; in this batch prefer {manner}.\n",
            compact(&tools.to_json())
        );
        if !shown.is_empty() {
            user += "\nThese exist already; write others with other words and values:\n";
            for row in shown {
                user += &format!(
                    "{{\"query\":{},\"answers\":{}}}\n",
                    compact(&row.example.query.as_str().into()),
                    row.example.answers
                );
            }
        }
        let seed = chance.next() >> 33;
        Ok(Task { tools, user, seed })
    }
}

fn some_tools(tools: &ToolSet, chance: &mut Chance) -> crate::Result<ToolSet> {
    let mut all: Vec<&Tool> = tools.tools().collect();
    if all.len() <= MOST_TOOLS {
        return Ok(tools.clone());
    }
    chance.shuffle(&mut all);
    ToolSet::new(all.into_iter().take(MOST_TOOLS).cloned())
}

/// A row by chance, its tools, and others with the same tools.
fn some_rows<'a>(rows: &'a [Row], chance: &mut Chance) -> (ToolSet, Vec<&'a Row>) {
    let Some(first) = rows.get(chance.below(rows.len())) else {
        return (ToolSet::default(), Vec::new());
    };
    let mut alike: Vec<&Row> = rows
        .iter()
        .filter(|row| row.example.tools == first.example.tools)
        .collect();
    chance.shuffle(&mut alike);
    alike.truncate(MOST_SHOWN);
    (first.tools.clone().unwrap_or_default(), alike)
}
