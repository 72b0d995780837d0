//! A case: a prompt with the calls that are wanted.

use super::{ExpectedCall, Wording};
use crate::{data::Row, tool::ToolSet};

/// One question of an evaluation.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where it comes from: `line 7`, or the id of its file.
    pub id: String,
    /// What kind it is, for a table by kind.
    pub category: String,
    /// Facts for the model.
    pub system: Option<String>,
    /// The user's words.
    pub query: String,
    /// The tools, or why they cannot be offered; such a case is a fault.
    pub tools: std::result::Result<ToolSet, String>,
    /// The calls that are wanted; none for a refusal.
    pub expected: Vec<ExpectedCall>,
    /// How texts are compared.
    pub wording: Wording,
}

impl From<&Row> for Case {
    fn from(row: &Row) -> Self {
        let unusable = || "the row's tools cannot be honoured".to_owned();
        Self {
            id: format!("line {}", row.line),
            category: row.kind().to_owned(),
            system: row.example.system.clone(),
            query: row.example.query.clone(),
            tools: row.tools.clone().ok_or_else(unusable),
            expected: row.calls.iter().map(ExpectedCall::exactly).collect(),
            wording: Wording::Exact,
        }
    }
}

/// The cases of some rows.
pub fn cases(rows: &[Row]) -> Vec<Case> {
    rows.iter().map(Case::from).collect()
}
