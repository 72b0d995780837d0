//! A large catalogue narrowed to the few tools that a query may mean, by the model's own contrastive head.
//!
//! The head makes a unit vector of a text: of the query, and once of each tool's compact JSON. The nearest tools are those
//! with the largest products. A tool that the query names is always among them.

mod store;

use std::path::Path;

use crate::{
    engine::Engine,
    error::{Error, Result},
    json,
    tool::ToolSet,
};

use self::store::{Entry, Store};

/// The unit vector that the contrastive head makes of a text.
///
/// # Errors
/// [`Error::Unsupported`] where the weights have no such head; [`Error::PromptTooLong`] for a text longer than the model takes.
pub fn embed(engine: &Engine, text: &str) -> Result<Vec<f32>> {
    let mut ids = vec![engine.tokenizer().bos_id()];
    ids.extend(engine.tokenizer().encode(text));
    let (tokens, limit) = (ids.len(), engine.runner().config().max_seq_len);
    if tokens > limit {
        return Err(Error::PromptTooLong { tokens, limit });
    }
    let vector = engine.runner().contrastive(&ids)?;
    vector.ok_or_else(|| Error::Unsupported(format!("{}: the weights carry no contrastive head", engine.source())))
}

/// A tool and how near it is to a query, from −1 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The tool's name.
    pub name: String,
    /// The product of the two unit vectors.
    pub similarity: f32,
    /// Whether the query names it.
    pub named: bool,
}

/// The vectors of a catalogue's tools.
#[derive(Clone, Debug)]
pub struct ToolIndex {
    /// In the order of declaration.
    tools: Vec<(String, Vec<f32>)>,
    embedded: usize,
}

impl ToolIndex {
    /// Embeds the tools. With a file, vectors of unchanged tools are taken from it, and it is brought up to date.
    ///
    /// # Errors
    /// As [`embed`]; [`Error::Io`] or [`Error::Format`] for the file. A file made with other weights is replaced.
    pub fn build(engine: &Engine, tools: &ToolSet, file: Option<&Path>) -> Result<Self> {
        let known = file
            .map(Store::open)
            .transpose()?
            .flatten()
            .filter(|store| store.model == engine.fingerprint());
        let mut store = Store {
            model: engine.fingerprint().to_owned(),
            tools: Default::default(),
        };
        let width = embed(engine, "")?.len();
        let (mut index, mut changed) = (Vec::new(), known.is_none());
        let mut embedded = 0;
        for tool in tools.tools() {
            let text = json::compact(tool.to_json());
            let known = known.as_ref().and_then(|store| store.tools.get(tool.name()));
            let found = known.filter(|entry| entry.tool == text && entry.is_whole(width));
            let vector = match found {
                Some(entry) => entry.embedding.clone(),
                None => {
                    (changed, embedded) = (true, embedded + 1);
                    embed(engine, &text)?
                }
            };
            store.tools.insert(
                tool.name().to_owned(),
                Entry {
                    tool: text,
                    embedding: vector.clone(),
                },
            );
            index.push((tool.name().to_owned(), vector));
        }
        changed |= known.is_some_and(|known| known.tools.len() != store.tools.len());
        if let Some(file) = file.filter(|_| changed) {
            store.save(file)?;
        }
        Ok(Self { tools: index, embedded })
    }

    /// Tools that were embedded when the index was built; the others came from its file.
    pub fn embedded(&self) -> usize {
        self.embedded
    }

    /// All tools by nearness to the query, those that it names first; of equals, the one declared first.
    ///
    /// # Errors
    /// As [`embed`].
    pub fn rank(&self, engine: &Engine, query: &str) -> Result<Vec<Neighbour>> {
        let vector = embed(engine, query)?;
        let words = normal(query);
        let mut ranked: Vec<Neighbour> = self
            .tools
            .iter()
            .map(|(name, tool)| Neighbour {
                name: name.clone(),
                similarity: tool.iter().zip(&vector).map(|(a, b)| a * b).sum(),
                named: words.contains(&normal(name)),
            })
            .collect();
        ranked.sort_by(|a, b| b.named.cmp(&a.named).then(b.similarity.total_cmp(&a.similarity)));
        Ok(ranked)
    }

    /// The names of the nearest `count` tools, in the order of declaration; more where the query names more.
    ///
    /// # Errors
    /// As [`embed`].
    pub fn nearest(&self, engine: &Engine, query: &str, count: usize) -> Result<Vec<String>> {
        let ranked = self.rank(engine, query)?;
        let named = ranked.iter().filter(|tool| tool.named).count();
        let chosen = &ranked[..count.max(named).min(ranked.len())];
        let kept = self
            .tools
            .iter()
            .filter(|(name, _)| chosen.iter().any(|tool| tool.name == *name));
        Ok(kept.map(|(name, _)| name.clone()).collect())
    }
}

/// Lower-case words between single spaces, with one at either end, so that a name is found as whole words only.
fn normal(text: &str) -> String {
    let words: Vec<String> = text
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    format!(" {} ", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_whole_words() {
        let query = normal("please use Tool_37 on Lagos");
        assert!(query.contains(&normal("tool_37")));
        assert!(!query.contains(&normal("tool_3")));
        assert!(normal("set the thermostat").contains(&normal("set the thermostat")));
        assert!(!normal("reset the thermostat").contains(&normal("set_the")));
    }
}
