//! Gives the command its commit: the variable `NEEDLE_COMMIT`, "unknown" where the sources are no git checkout.

use std::{path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=NEEDLE_COMMIT={}",
        commit().unwrap_or_else(|| "unknown".to_owned())
    );
}

fn commit() -> Option<String> {
    // Sources unpacked inside somebody else's repository are not at that repository's commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // HEAD names a branch, its log and the branch's file move with every commit; a packed branch has no file.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"]
        .into_iter()
        .chain(branch.as_deref())
    {
        let path = git(&["rev-parse", "--git-path", name])?;
        // Cargo takes a missing file for a changed one and would run this script every time.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
