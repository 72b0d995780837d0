//! Everything that can be chosen about an agent before it is built.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use candle_core::DType;

use super::{DateFact, Form, Needle, Settings, Statefulness, conversation::Conversation};
use crate::{
    cpu::CpuOptions,
    decode::Sampling,
    device::DeviceSpec,
    engine::{Engine, EngineOptions},
    error::{Error, Result},
    grounding::Sources,
    retrieval::ToolIndex,
    tool::{Tool, ToolSet},
};

/// Tokens that a completion may take unless told otherwise, as the reference has it.
const MAX_NEW_TOKENS: usize = 256;
/// Tools that a turn offers at most unless told otherwise, as the reference has it.
const TOP_TOOLS: usize = 5;

/// Builds a [`Needle`].
#[derive(Clone, Debug)]
pub struct NeedleBuilder {
    source: Option<Source>,
    options: EngineOptions,
    tools: Vec<Tool>,
    index_path: Option<PathBuf>,
    settings: Settings,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Demo,
    Engine(Arc<Engine>),
}

impl NeedleBuilder {
    pub(super) fn new() -> Self {
        let settings = Settings {
            system: None,
            date: DateFact::AsGiven,
            form: Form::Constrained,
            statefulness: Statefulness::Conversation,
            sampling: Sampling::Greedy,
            max_new_tokens: MAX_NEW_TOKENS,
            min_confidence: None,
            top_tools: TOP_TOOLS,
            most_calls: None,
        };
        Self {
            source: None,
            options: EngineOptions::default(),
            tools: Vec::new(),
            index_path: None,
            settings,
        }
    }

    /// Weights out of a file with a tokenizer inside, such as a `.cact` archive.
    pub fn weights(mut self, path: impl Into<PathBuf>) -> Self {
        self.source = Some(Source::File(path.into()));
        self
    }

    /// The small demo model inside the library. It shows that everything works and knows little.
    pub fn demo(mut self) -> Self {
        self.source = Some(Source::Demo);
        self
    }

    /// An engine that other agents use too; device and type are the engine's.
    pub fn engine(mut self, engine: &Arc<Engine>) -> Self {
        self.source = Some(Source::Engine(engine.clone()));
        self
    }

    /// Where to compute; the best device there is unless chosen.
    pub fn device(mut self, device: DeviceSpec) -> Self {
        self.options.device = device;
        self
    }

    /// The type to compute in; the device's own unless chosen.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.options.dtype = Some(dtype);
        self
    }

    /// Threads and numerics on the CPU in float32.
    pub fn cpu(mut self, options: CpuOptions) -> Self {
        self.options.cpu = options;
        self
    }

    /// One more tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// More tools.
    pub fn tools(mut self, tools: &ToolSet) -> Self {
        self.tools.extend(tools.tools().cloned());
        self
    }

    /// Facts for the model, as `date: …; location: …`. They are facts, not instructions.
    pub fn system(mut self, facts: impl Into<String>) -> Self {
        self.settings.system = Some(facts.into());
        self
    }

    /// Puts today's date in front of the facts unless they have one.
    pub fn auto_date(mut self) -> Self {
        self.settings.date = DateFact::Today;
        self
    }

    /// Every query stands alone.
    pub fn stateless(mut self) -> Self {
        self.settings.statefulness = Statefulness::Stateless;
        self
    }

    /// Lets the model write what it likes; calls are only checked afterwards.
    pub fn free_form(mut self) -> Self {
        self.settings.form = Form::Free;
        self
    }

    /// How tokens are picked; greedily unless chosen.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.settings.sampling = sampling;
        self
    }

    /// Tokens that a completion may take; 256 unless chosen.
    pub fn max_new_tokens(mut self, tokens: usize) -> Self {
        self.settings.max_new_tokens = tokens;
        self
    }

    /// Withholds calls whose confidence is below this, from 0 to 1.
    pub fn min_confidence(mut self, least: f32) -> Self {
        self.settings.min_confidence = Some(least);
        self
    }

    /// Tools that a turn offers at most; of more, the model's own retrieval head chooses. 5 unless chosen.
    pub fn top_tools(mut self, count: usize) -> Self {
        self.settings.top_tools = count;
        self
    }

    /// Calls that one completion may hold at most; any number unless chosen.
    pub fn most_calls(mut self, count: usize) -> Self {
        self.settings.most_calls = Some(count);
        self
    }

    /// Keeps the retrieval index in this file, so that only changed tools are embedded again.
    pub fn tool_index(mut self, path: impl Into<PathBuf>) -> Self {
        self.index_path = Some(path.into());
        self
    }

    /// Opens the model and compiles the tools.
    ///
    /// # Errors
    /// [`Error::Schema`] or [`Error::Tools`] for a tool that cannot be honoured; whatever [`Engine::open`] refuses;
    /// [`Error::Unsupported`] without weights or for numbers out of range.
    pub fn build(self) -> Result<Needle> {
        let Self {
            source,
            options,
            tools,
            index_path,
            settings,
        } = self;
        if let Some(least) = settings.min_confidence.filter(|least| !(0.0..=1.0).contains(least)) {
            return Err(Error::Unsupported(format!(
                "min_confidence: expected 0 to 1, found {least}"
            )));
        }
        if settings.top_tools == 0 {
            return Err(Error::Unsupported("top_tools: expected at least 1, found 0".into()));
        }
        let tools = ToolSet::new(tools)?;
        let engine = match source {
            Some(Source::File(path)) => Engine::open(&path, options)?,
            Some(Source::Demo) => Engine::demo(options)?,
            Some(Source::Engine(engine)) => engine,
            None => {
                let ways =
                    "no weights were chosen: give a file with weights(…), or the built-in demo model with demo()";
                return Err(Error::Unsupported(ways.into()));
            }
        };
        if settings.min_confidence.is_some() && !engine.runner().has_confidence() {
            let source = engine.source();
            return Err(Error::Unsupported(format!(
                "min_confidence: {source} carries no confidence head, so no call could be told weak"
            )));
        }
        let index = match tools.len() > settings.top_tools && engine.runner().has_contrastive() {
            true => Some(ToolIndex::build(&engine, &tools, index_path.as_deref().map(Path::new))?),
            false => None,
        };
        let conversation = Conversation::default();
        let mut agent = Needle {
            engine,
            tools,
            settings,
            conversation,
            facts: None,
            sources: Sources::default(),
            index,
            matcher: None,
            offered: Vec::new(),
            queries: 0,
        };
        // A schema that only the grammar can refuse is refused here, not at the first query.
        let all: Vec<String> = agent.tools.tools().map(|tool| tool.name().to_owned()).collect();
        agent.matcher_for(&all)?;
        Ok(agent)
    }
}
