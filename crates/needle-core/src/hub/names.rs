//! Which names are fit to become paths and addresses.
//!
//! All names from outside pass through here: those that a user types, those that a server lists, and the commit and ETag
//! that a server states.

use crate::error::{Error, HubFault, Result};

pub(super) fn is_archive(file: &str) -> bool {
    file.ends_with(".cact")
}

pub(super) fn is_weight_file(file: &str) -> bool {
    is_archive(file) || file.ends_with(".pkl") || file.ends_with(".safetensors")
}

pub(super) fn checked_repo(org: &str, name: &str) -> Result<String> {
    let repo = format!("{org}/{name}");
    if is_repo(&repo) {
        return Ok(repo);
    }
    let reason = "expected <org>/<repo> of letters, digits, '-', '_' and '.', without '--' or '..'";
    Err(Error::hub(format!("{repo:?}"), HubFault::Request, reason))
}

/// The hub's own rule for the names of organisations and repositories.
pub(super) fn is_repo(repo: &str) -> bool {
    let word = |part: &str| {
        let plain = part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        plain && !part.is_empty() && !part.starts_with(['-', '.']) && !part.ends_with(['-', '.'])
    };
    let parts: Vec<&str> = repo.split('/').collect();
    parts.len() == 2
        && parts.iter().all(|part| word(part))
        && repo.len() <= 96
        && !repo.contains("--")
        && !repo.contains("..")
        && !repo.ends_with(".git")
}

/// A path inside a repository that also is a path inside a folder: no way out, no empty part, nothing unprintable.
pub(super) fn checked_file(file: &str) -> Result<&str> {
    let part_ok = |part: &str| {
        let drive = cfg!(windows) && part.contains(':');
        !part.is_empty() && part != "." && part != ".." && !drive && part.len() <= 255
    };
    let printable = !file.chars().any(|c| c.is_control() || c == '\\');
    if printable && file.split('/').all(part_ok) {
        return Ok(file);
    }
    let reason = "not a file name of a repository: it would leave the folder, or has an empty or unprintable part";
    Err(Error::hub(format!("{file:?}"), HubFault::Request, reason))
}

pub(super) fn checked_revision(revision: &str) -> Result<&str> {
    let printable = revision
        .chars()
        .all(|c| c.is_ascii_graphic() && !"\\:?*[~^".contains(c));
    let part_ok = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    if printable && revision.len() <= 255 && !revision.contains("..") && revision.split('/').all(part_ok) {
        return Ok(revision);
    }
    let reason = "not the name of a branch, a tag or a commit";
    Err(Error::hub(format!("{revision:?}"), HubFault::Request, reason))
}

pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && is_hex(text)
}

pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
