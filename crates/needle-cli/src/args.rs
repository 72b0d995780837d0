//! What the user typed. Every flag is described here, with its default.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use needle_core::{DeviceSpec, Generation, Sampling};

use crate::{commands, input::WrongUsage, numbers, version};

/// Tool calls from text, by Needle, the tiny tool-calling model.
///
/// Try: needle run --model demo --tools examples/home.json "dim the kitchen to 30"
#[derive(Debug, Parser)]
#[command(name = "needle", version = version::text())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one query with tool calls
    Run(RunArgs),
    /// Talk in the terminal; tool results are typed or come from programs
    Chat(ChatArgs),
    /// Read values of a JSON schema out of texts
    Extract(ExtractArgs),
    /// Print the retrieval vector of a text
    Embed(EmbedArgs),
    /// Rank tools by nearness to a query
    Retrieve(RetrieveArgs),
    /// Describe a model file: geometry, tensors, sizes, bits, tokenizer, heads
    Inspect(InspectArgs),
    /// Show the tokens of a text
    Tokenize(TokenizeArgs),
    /// List devices: what is built in, what is there, what `auto` takes and why
    Devices(DevicesArgs),
    /// Check devices: what `devices` says, whether each computes, whether the built-in model answers
    Doctor(DevicesArgs),
    /// Download weights, check them, and print where they are
    Download(commands::download::Args),
    /// List, check or remove downloaded weights
    Models(commands::models::Args),
    /// Train an adapter on your own examples and judge it on the archive that it makes
    Finetune(commands::finetune::Args),
    /// Train a small model from nothing, by a recipe
    Train(commands::train::Args),
    /// Pack a checkpoint, with adapters put into it, as one archive
    Build(commands::build::Args),
    /// Check, count or split a file of examples
    Data(commands::data::Args),
    /// Have a large model write examples for your tools
    GenerateData(commands::generate_data::Args),
    /// Ask a model every query of a file and count how often it calls what is wanted
    Eval(commands::eval::Args),
    /// Print a script that completes this command in a shell
    Completions(CompletionsArgs),
    /// Print a page for `man`
    Man(ManArgs),
}

/// Which model, and where it runs.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model file (.cact archive, .safetensors or .pkl checkpoint), a name of the hub (needle2, ORG/REPO[/FILE]), or `demo` for
    /// the small built-in one [default: needle2, downloaded once]
    #[arg(long, short, alias = "checkpoint", value_name = "FILE|NAME|demo")]
    pub(crate) model: Option<String>,

    /// Which published weights, where --model names none; Needle 3 can be downloaded and inspected, not run yet
    #[arg(long, value_name = "2|3", conflicts_with = "model", default_value = "2", value_parser = numbers::generation)]
    pub(crate) generation: Generation,

    /// SentencePiece model for a checkpoint without a tokenizer [default: the model file's own]
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Where to compute: auto, cpu, cuda[:n], gpu[:n] or metal[:n]; one asked for by name is never replaced by another
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceSpec,

    /// Type to compute in: f32, f16 or bf16 [default: f32 on the CPU, the device's fastest elsewhere]
    #[arg(long, value_parser = ["f32", "f16", "bf16"])]
    pub(crate) dtype: Option<String>,

    /// Threads on the CPU [default: as many as prove fastest while it runs, at most one a core]
    #[arg(long, value_name = "N", value_parser = numbers::threads())]
    pub(crate) threads: Option<usize>,

    /// Arithmetic of packed weights on the CPU: fast (16 bits) or exact (float32)
    #[arg(long, default_value = "fast", value_parser = ["fast", "exact"])]
    pub(crate) numerics: String,

    /// How keys and values are kept on the CPU: f32, f16 or int8 [default: f16 with fast numerics, f32 with exact]
    #[arg(long, value_parser = ["f32", "f16", "int8"])]
    pub(crate) cache: Option<String>,

    /// Say nothing on stderr but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How tokens are picked, and how many.
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// Tokens to write at most
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) max_new_tokens: usize,

    /// Randomness, 0 to 1000; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.0, value_name = "T", allow_negative_numbers = true, value_parser = numbers::temperature)]
    pub(crate) temperature: f64,

    /// Choose among the K likeliest tokens only [default: all]
    #[arg(long, value_name = "K", value_parser = numbers::count())]
    pub(crate) top_k: Option<usize>,

    /// Choose among the likeliest tokens that together reach this probability [default: all]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = numbers::share)]
    pub(crate) top_p: Option<f64>,

    /// Seed of the randomness [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl DecodeArgs {
    /// How tokens are picked. What only bends chance is refused where there is none.
    pub(crate) fn sampling(&self) -> Result<Sampling, WrongUsage> {
        if self.temperature == 0.0 {
            let given = [
                ("--top-k", self.top_k.is_some()),
                ("--top-p", self.top_p.is_some()),
                ("--seed", self.seed.is_some()),
            ];
            return match given.into_iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(WrongUsage(format!(
                    "{flag} does nothing without a --temperature above 0"
                ))),
                None => Ok(Sampling::Greedy),
            };
        }
        let Self {
            temperature,
            top_k,
            top_p,
            seed,
            ..
        } = *self;
        Ok(Sampling::Random {
            temperature,
            top_k,
            top_p,
            seed: seed.unwrap_or(0),
        })
    }
}

/// The tools and how calls are treated.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Tools: a JSON file, the JSON itself, or - for stdin
    #[arg(long, short, value_name = "FILE|JSON|-")]
    pub(crate) tools: String,

    /// Facts for the model, such as "date: 2026-11-30; location: Lagos" [default: none]
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Put today's date in front of the facts
    #[arg(long)]
    pub(crate) auto_date: bool,

    /// Let the model write freely; calls are only checked afterwards
    #[arg(long)]
    pub(crate) no_grammar: bool,

    /// Withhold calls below this confidence, 0 to 1 [default: none are withheld]
    #[arg(long, value_name = "C", allow_negative_numbers = true, value_parser = numbers::confidence)]
    pub(crate) min_confidence: Option<f32>,

    /// Tools offered at once; of more, the model's retrieval head chooses
    #[arg(long, default_value_t = 5, value_name = "K", value_parser = numbers::count())]
    pub(crate) top_tools: usize,

    /// Keep the retrieval vectors of the tools in this file [default: made anew each time]
    #[arg(long, value_name = "FILE")]
    pub(crate) tool_index: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) tools: ToolArgs,

    #[command(flatten)]
    pub(crate) decode: DecodeArgs,

    /// What to ask [default: read from stdin]
    pub(crate) query: Option<String>,

    /// Answer each line of the query by itself instead of all of it at once
    #[arg(long)]
    pub(crate) stateless: bool,

    /// Print the completion as it is written
    #[arg(long)]
    pub(crate) stream: bool,

    /// Print the whole answer as JSON: calls, reasoning, confidence, speed, device
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) tools: ToolArgs,

    #[command(flatten)]
    pub(crate) decode: DecodeArgs,

    /// Forget each turn before the next
    #[arg(long)]
    pub(crate) stateless: bool,

    /// Program that carries out a tool: it gets the arguments as JSON on stdin and answers with JSON on stdout. May be given
    /// for several tools. No shell is involved [default: results are typed in at the terminal]
    #[arg(long, value_name = "TOOL=PROGRAM")]
    pub(crate) exec: Vec<String>,

    /// Seconds after which such a program is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = numbers::seconds())]
    pub(crate) exec_timeout: u64,

    /// Print one JSON object a turn
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// JSON schema of an object: a file, the JSON itself, or - for stdin
    #[arg(long, value_name = "FILE|JSON|-")]
    pub(crate) schema: String,

    /// The text, or - for stdin
    #[arg(long, value_name = "TEXT|-", required_unless_present = "jsonl")]
    pub(crate) text: Option<String>,

    /// File of JSON lines, each a text or an object with a field `text`, or - for stdin; one result line each, in order
    #[arg(long, value_name = "FILE|-", conflicts_with = "text")]
    pub(crate) jsonl: Option<String>,

    /// Tokens to write at most, for each text
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) max_new_tokens: usize,

    /// Refuse values that contradict the text
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print the whole answer as JSON: value, confidence, validation, speed
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// The text [default: read from stdin]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RetrieveArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Tools: a JSON file, the JSON itself, or - for stdin
    #[arg(long, short, value_name = "FILE|JSON|-")]
    pub(crate) tools: String,

    /// Tools to print
    #[arg(long, default_value_t = 5, value_name = "K", value_parser = numbers::count())]
    pub(crate) top_tools: usize,

    /// Keep the retrieval vectors of the tools in this file [default: made anew each time]
    #[arg(long, value_name = "FILE")]
    pub(crate) tool_index: Option<PathBuf>,

    /// What to ask [default: read from stdin]
    pub(crate) query: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Model file or adapter, a name of the hub, or `demo` for the small built-in model
    #[arg(value_name = "FILE|NAME|demo")]
    pub(crate) file: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenizeArgs {
    /// Model file with a tokenizer, SentencePiece .model, a name of the hub, or `demo`
    #[arg(long, short, value_name = "FILE|NAME|demo")]
    pub(crate) model: String,

    /// The text [default: read from stdin]
    pub(crate) text: Option<String>,

    /// Read token ids instead and print their text
    #[arg(long)]
    pub(crate) decode: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The page of one command, such as run [default: the page of needle itself]
    pub(crate) command: Option<String>,
}
