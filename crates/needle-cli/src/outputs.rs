//! Files that a command is about to write, looked at before it works for them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::input::WrongUsage;

/// Refuses to write what is read, to write one file twice, and to write where no folder is.
pub(crate) fn expect_apart<'a>(
    written: impl IntoIterator<Item = &'a PathBuf>,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let sources: Vec<_> = read
        .into_iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let mut seen = BTreeSet::new();
    for path in written {
        let shown = path.display();
        if !seen.insert(path) {
            bail!(WrongUsage(format!(
                "{shown} would be written twice; give --out another ending"
            )));
        }
        if fs::canonicalize(path).is_ok_and(|real| sources.contains(&real)) {
            bail!(WrongUsage(format!(
                "{shown} would be replaced; name another file with --out"
            )));
        }
        if path.is_dir() {
            bail!(WrongUsage(format!("{shown} is a folder; name a file with --out")));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("there is no folder {}", folder.display());
        }
    }
    Ok(())
}
