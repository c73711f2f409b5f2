//! `takeback demo`: a scratch project, a scripted "agent" that wrecks it, and the way back.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::commands::{checkpoint, rollback};
use crate::context::Context;
use crate::failure::Failure;

/// See it work on a scratch project
#[derive(Args)]
pub(crate) struct Arguments {}

/// The files of the scratch project.
const PROJECT: [(&str, &str); 5] = [
    ("src/cart.py", "def total(items):\n    return sum(item.price for item in items)\n"),
    ("src/shop.py", "from cart import total\n"),
    (".env", "PAYMENT_KEY=only-here-and-nowhere-else\n"),
    (".gitignore", ".env\n"),
    ("deploy.sh", "#!/bin/sh\necho deploying\n"),
];

/// What the scripted agent runs.
const AGENT: [&str; 5] = [
    "rm -rf src",
    "mkdir src && echo 'import everything' > src/rewrite.py",
    "rm .env",
    "chmod 644 deploy.sh",
    "echo done > notes.txt",
];

pub(crate) fn run(_: &Arguments, context: &Context) -> Result<ExitCode, Failure> {
    let failed =
        |error: io::Error| Failure::new("cannot set up the scratch project").because(&error);
    let scratch = Scratch::new().map_err(failed)?;
    let project = scratch.path.join("shop");
    make_project(&project).map_err(failed)?;
    let context = context.elsewhere(&project, &scratch.path.join("home"));
    let before = look(&project).map_err(failed)?;

    println!("A scratch project in {}:", project.display());
    before.iter().for_each(|line| println!("  {line}"));
    let taken = checkpoint::take("before the agent", &context)?;
    println!("\n$ takeback checkpoint\nCheckpoint {}.\n", &taken.id.to_string()[..7]);

    println!("An agent goes to work:");
    for line in AGENT {
        println!("  $ {line}");
        let status =
            Command::new("sh").args(["-c", line]).current_dir(&project).status().map_err(failed)?;
        if !status.success() {
            return Err(Failure::new(format!("the scripted agent failed at `{line}`")));
        }
    }
    println!("What is left:");
    look(&project).map_err(failed)?.iter().for_each(|line| println!("  {line}"));

    let view = rollback::roll_back("1", &[], false, &context)?;
    println!("\n$ takeback rollback 1");
    println!("Restored {} paths, deleted {}.\n", view.restored.len(), view.deleted.len());
    let after = look(&project).map_err(failed)?;
    after.iter().for_each(|line| println!("  {line}"));
    if after != before {
        return Err(Failure::new("the project is not what it was: please report this"));
    }
    println!("\nEverything is back, byte for byte, .env and file modes included.");
    println!("Next, in a project of yours:\n  takeback checkpoint\n  takeback rollback");
    Ok(ExitCode::SUCCESS)
}

/// A directory that is gone when the demonstration is over.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Scratch> {
        let name = format!("takeback-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn make_project(project: &Path) -> io::Result<()> {
    for (path, content) in PROJECT {
        let path = project.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        fs::write(path, content)?;
    }
    fs::set_permissions(project.join(".env"), fs::Permissions::from_mode(0o600))?;
    fs::set_permissions(project.join("deploy.sh"), fs::Permissions::from_mode(0o755))
}

/// A line per file: mode, path, and the beginning of its content.
fn look(project: &Path) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut pending = vec![project.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(project).unwrap_or(&path).display().to_string();
            let content = fs::read_to_string(&path)?;
            let first = content.lines().next().unwrap_or_default();
            lines.push(format!("{:o}  {name:<16} {first}", metadata.permissions().mode() & 0o7777));
        }
    }
    lines.sort_by(|a, b| a[3..].cmp(&b[3..]));
    Ok(lines)
}
