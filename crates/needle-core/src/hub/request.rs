//! What may be asked of the hub: a repository, a file in it, a revision; and how a user writes it.

use std::path::{Path, PathBuf};

use super::names::{checked_file, checked_repo, checked_revision, is_weight_file};
use crate::config::Generation;
use crate::error::{Error, HubFault, Result};

const CHECKPOINT_FOLDER: &str = "checkpoints";

/// Which copy will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A cached copy is taken without asking the hub; only an absent one is fetched.
    Cached,
    /// The hub is asked for the revision's present state.
    Latest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileChoice {
    /// The first of these that exists.
    FirstOf(Vec<String>),
    /// The one archive of the repository.
    OnlyArchive,
}

/// One file of the hub, as a user asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    pub(super) spec: String,
    pub(super) repo: String,
    pub(super) files: FileChoice,
    pub(super) revision: String,
    pub(super) freshness: Freshness,
}

impl ModelRequest {
    /// The published base weights of a generation: `needle2.cact` of `Cactus-Compute/needle2`, or the same with 3.
    pub fn base(generation: Generation) -> Self {
        let name = base_name(generation);
        Self::of(
            name.into(),
            base_repo(generation),
            FileChoice::FirstOf(vec![format!("{name}.cact")]),
        )
    }

    /// Reads `needle2`, `needle3` (the archive), `needle2.pkl`, `needle3.safetensors` (a checkpoint to train from),
    /// `<org>/<repo>` (its only archive) or `<org>/<repo>/<file>`.
    ///
    /// A checkpoint is looked for under `checkpoints/` and then at the root of its generation's repository.
    pub fn parse(spec: &str) -> Result<Self> {
        let parts: Vec<&str> = spec.split('/').collect();
        match parts.as_slice() {
            [name] => Self::parse_short(name),
            [org, repo] if !is_weight_file(repo) => {
                Ok(Self::of(spec.into(), checked_repo(org, repo)?, FileChoice::OnlyArchive))
            }
            [org, repo, ..] if parts.len() > 2 => {
                let file = checked_file(&parts[2..].join("/"))?.to_string();
                Ok(Self::of(
                    spec.into(),
                    checked_repo(org, repo)?,
                    FileChoice::FirstOf(vec![file]),
                ))
            }
            _ => Err(unknown(spec)),
        }
    }

    fn parse_short(name: &str) -> Result<Self> {
        for generation in [Generation::Two, Generation::Three] {
            let base = base_name(generation);
            if name == base || name.strip_suffix(".cact") == Some(base) {
                return Ok(Self::base(generation));
            }
            if name.starts_with(base) && (name.ends_with(".pkl") || name.ends_with(".safetensors")) {
                let file = checked_file(name)?.to_string();
                let files = FileChoice::FirstOf(vec![format!("{CHECKPOINT_FOLDER}/{file}"), file]);
                return Ok(Self::of(name.into(), base_repo(generation), files));
            }
        }
        Err(unknown(name))
    }

    /// Another branch, tag or commit than `main`. A full commit of 40 digits is a pin: it never changes.
    pub fn at_revision(mut self, revision: &str) -> Result<Self> {
        self.revision = checked_revision(revision)?.to_string();
        Ok(self)
    }

    /// Asks the hub for the present state even when a copy is cached.
    pub fn latest(mut self) -> Self {
        self.freshness = Freshness::Latest;
        self
    }

    /// The request as the user wrote it.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// `org/repo`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// Whether a cached file is one that this request asks for, in any revision.
    pub fn names(&self, repo: &str, file: &str) -> bool {
        let known = match &self.files {
            FileChoice::FirstOf(names) => names.iter().any(|name| name == file),
            FileChoice::OnlyArchive => true,
        };
        known && self.repo == repo
    }

    /// `org/repo`, with the file when there is one name for it.
    pub(super) fn label(&self) -> String {
        match &self.files {
            FileChoice::FirstOf(names) if !names.is_empty() => format!("{}/{}", self.repo, names[0]),
            _ => self.repo.clone(),
        }
    }

    fn of(spec: String, repo: String, files: FileChoice) -> Self {
        let freshness = Freshness::Cached;
        Self {
            spec,
            repo,
            files,
            revision: "main".into(),
            freshness,
        }
    }
}

/// What `--model` may say. A file that exists always wins over a name of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A file on this machine.
    File(PathBuf),
    /// A file of the hub.
    Hub(ModelRequest),
}

impl ModelSource {
    /// A file if there is one of that name or if `text` can only be a path; else a request to the hub.
    ///
    /// A path is what is absolute, starts with `.` or `~`, has a backslash, or is `folder/name` with the ending of a
    /// weight file: a mistyped path is never sent to the hub as a repository's name.
    pub fn parse(text: &str) -> Result<Self> {
        let path = Path::new(text);
        let path_like = path.is_absolute() || text.starts_with(['.', '~']) || text.contains('\\');
        let file_like = text.split('/').count() == 2 && is_weight_file(text);
        if path.exists() || path_like || file_like {
            return Ok(Self::File(path.into()));
        }
        match ModelRequest::parse(text) {
            Ok(request) => Ok(Self::Hub(request)),
            Err(_) if is_weight_file(text) => Ok(Self::File(path.into())),
            Err(error) => Err(error),
        }
    }
}

fn base_name(generation: Generation) -> &'static str {
    match generation {
        Generation::Two => "needle2",
        Generation::Three => "needle3",
    }
}

fn base_repo(generation: Generation) -> String {
    format!("Cactus-Compute/{}", base_name(generation))
}

fn unknown(spec: &str) -> Error {
    let reason = "not a file here and not a download; pass needle2, needle3, needle2.pkl, needle3.safetensors, \
                  <org>/<repo> or <org>/<repo>/<file>";
    Error::hub(format!("{spec:?}"), HubFault::Request, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(spec: &str) -> (String, FileChoice) {
        let request = ModelRequest::parse(spec).unwrap();
        (request.repo, request.files)
    }

    fn first_of(files: &[&str]) -> FileChoice {
        FileChoice::FirstOf(files.iter().map(|file| file.to_string()).collect())
    }

    #[test]
    fn short_names_are_those_of_the_reference() {
        assert_eq!(
            parsed("needle2"),
            ("Cactus-Compute/needle2".into(), first_of(&["needle2.cact"]))
        );
        assert_eq!(
            parsed("needle3.cact"),
            ("Cactus-Compute/needle3".into(), first_of(&["needle3.cact"]))
        );
        let checkpoint = first_of(&["checkpoints/needle2.pkl", "needle2.pkl"]);
        assert_eq!(parsed("needle2.pkl"), ("Cactus-Compute/needle2".into(), checkpoint));
        let checkpoint = first_of(&["checkpoints/needle3.safetensors", "needle3.safetensors"]);
        assert_eq!(
            parsed("needle3.safetensors"),
            ("Cactus-Compute/needle3".into(), checkpoint)
        );
    }

    #[test]
    fn long_names_are_repository_and_file() {
        assert_eq!(parsed("me/kitchen"), ("me/kitchen".into(), FileChoice::OnlyArchive));
        assert_eq!(
            parsed("me/kitchen/a b/ü.cact"),
            ("me/kitchen".into(), first_of(&["a b/ü.cact"]))
        );
    }

    #[test]
    fn odd_names_are_refused() {
        let odd = [
            "",
            "/",
            "needle4",
            "a/",
            "/a",
            "a/b/",
            "a/b/../c.cact",
            "a/b/..",
            "a/b//c",
            "../b/c",
            "a/b/c\nd",
            "a/b/c\\d",
            "a--b/c/d",
            "a/b..c/d",
            "a/.b/c",
            "a/b.git/c",
            "a/b/\u{0}",
            "a/b/.",
            "ä/b/c",
            "needle2/../../x.pkl",
        ];
        for spec in odd {
            let error = ModelRequest::parse(spec).unwrap_err();
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
        let request = || ModelRequest::base(Generation::Two);
        for revision in ["", "..", "a/../b", "/a", "a/", ".hid", "a b", "a\nb", "a//b", "x.lock"] {
            assert!(request().at_revision(revision).is_err(), "{revision:?}");
        }
        assert_eq!(request().at_revision("refs/pr/1").unwrap().revision, "refs/pr/1");
    }

    #[test]
    fn a_path_is_not_sent_to_the_hub() {
        for path in [
            "./needle2",
            "models/needle.cact",
            "/x/y/z.cact",
            "..",
            "~/w.cact",
            "tuned.cact",
            "Cargo.toml",
        ] {
            assert_eq!(
                ModelSource::parse(path).unwrap(),
                ModelSource::File(path.into()),
                "{path}"
            );
        }
        assert!(matches!(ModelSource::parse("needle3").unwrap(), ModelSource::Hub(_)));
        assert!(matches!(ModelSource::parse("me/kitchen").unwrap(), ModelSource::Hub(_)));
    }
}
