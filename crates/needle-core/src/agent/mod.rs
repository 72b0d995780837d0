//! The product: an agent with tools, asked in words, answering with calls.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use needle_core::{Needle, Tool};
//! let weather = Tool::new("get_weather", "Get the current weather for a city")
//!     .string("city", "which city")
//!     .handler(|args| Ok(serde_json::json!({ "city": args["city"], "temp_c": 27 })));
//! let mut agent = Needle::builder().demo().tool(weather).build()?;
//! let response = agent.run("what's it like in Lagos right now?")?;
//! println!("{:?}", response.results);
//! # Ok(())
//! # }
//! ```

mod builder;
mod conversation;
mod run;
mod turn;

pub use builder::NeedleBuilder;
pub use run::{RunOptions, Strictness};

use std::sync::Arc;

use crate::{
    decode::{Flow, Sampling},
    engine::Engine,
    error::{Error, Result},
    grammar::Matcher,
    grounding::{self, LocalTime, Sources},
    response::Response,
    retrieval::ToolIndex,
    tool::ToolSet,
};

use self::conversation::Conversation;

/// An agent: a shared engine, its own tools, its own conversation. `Send`; many may run at once on one engine.
#[derive(Debug)]
pub struct Needle {
    engine: Arc<Engine>,
    tools: ToolSet,
    settings: Settings,
    conversation: Conversation,
    /// The facts of this conversation's system turn; settled when it begins, so that a date in them stays the same.
    facts: Option<String>,
    sources: Sources,
    /// Where more tools are declared than a turn offers.
    index: Option<ToolIndex>,
    /// The grammar of the tools that the last turn offered.
    matcher: Option<(Vec<String>, Matcher)>,
    /// The names of the tools that the last query offered.
    offered: Vec<String>,
    /// Queries since the last reset.
    queries: usize,
}

/// How completions are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Along the grammar of the tools: a call is well-formed and obeys its schema.
    #[default]
    Constrained,
    /// As the model likes; calls are checked afterwards.
    Free,
}

/// Whether an agent remembers earlier turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statefulness {
    /// Later turns follow earlier ones until [`Needle::reset`].
    #[default]
    Conversation,
    /// Every query stands alone.
    Stateless,
}

#[derive(Clone, Debug)]
struct Settings {
    /// The facts of the system turn.
    system: Option<String>,
    date: DateFact,
    form: Form,
    statefulness: Statefulness,
    sampling: Sampling,
    max_new_tokens: usize,
    min_confidence: Option<f32>,
    top_tools: usize,
    most_calls: Option<usize>,
}

impl Settings {
    /// The system turn's facts, as of now.
    fn facts(&self) -> Result<Option<String>> {
        let given = self.system.as_deref();
        match self.date {
            DateFact::AsGiven => Ok(given.map(str::to_owned)),
            DateFact::Today => {
                let now = LocalTime::now().map_err(|error| Error::Unsupported(format!("today's date: {error}")))?;
                Ok(Some(grounding::with_date(given.unwrap_or_default(), now)))
            }
        }
    }
}

/// Whether the system turn tells today's date by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DateFact {
    AsGiven,
    Today,
}

impl Needle {
    /// Begins with no tools, the best device and a conversation that is remembered.
    pub fn builder() -> NeedleBuilder {
        NeedleBuilder::new()
    }

    /// The engine, to share with other agents.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The declared tools.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Answers one turn. Nothing is carried out: see [`Needle::run`] for that.
    ///
    /// # Errors
    /// [`crate::Error::PromptTooLong`] when the tools and the query do not fit the window; whatever the device refuses. A
    /// completion that is cut short is no error but an answer whose `success` is false.
    pub fn complete(&mut self, query: &str) -> Result<Response> {
        self.complete_streaming(query, |_| Flow::Continue)
    }

    /// As [`Needle::complete`]; `on_text` sees the completion as it is written, in whole characters, and may stop it.
    ///
    /// # Errors
    /// As [`Needle::complete`].
    pub fn complete_streaming(&mut self, query: &str, on_text: impl FnMut(&str) -> Flow) -> Result<Response> {
        if self.settings.statefulness == Statefulness::Stateless {
            self.reset();
        }
        if self.conversation.is_empty() {
            self.facts = self.settings.facts()?;
            self.sources = Sources::new(self.facts.as_deref());
        }
        let before = self.sources.clone();
        self.sources.note(query);
        self.queries += 1;
        let answer = self.turn(turn::Input::Query(query), on_text);
        if answer.is_err() {
            // What was refused was never said.
            self.sources = before;
            self.queries -= 1;
        }
        answer
    }

    /// Tokens that a completion may take from now on.
    pub(crate) fn limit_tokens(&mut self, tokens: usize) {
        self.settings.max_new_tokens = tokens;
    }

    /// Forgets the conversation; tools and settings stay.
    pub fn reset(&mut self) {
        self.conversation.clear();
        self.sources.reset();
        self.queries = 0;
    }
}
