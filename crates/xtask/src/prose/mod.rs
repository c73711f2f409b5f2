//! `cargo xtask prose`: counts habits that make comments and names hard to read. It only reports,
//! and fails only if it cannot read a file.

mod habits;
mod lexer;
mod report;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::run::repository;
use habits::Counts;

/// Runs `cargo xtask prose [PATH…] [--list]`.
pub(crate) fn report_prose(options: &[&str]) -> Result<(), Failure> {
    let (flags, paths): (Vec<&str>, Vec<&str>) =
        options.iter().partition(|option| option.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--list") {
        return Err(format!("unknown option {unknown}"));
    }
    let mut roots: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    if roots.is_empty() {
        roots.push(repository());
    }
    let mut crates = Vec::new();
    for root in &roots {
        for file in rust_files(root)? {
            count_file(root, &file, &mut crates)?;
        }
    }
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    print!("{}", report::render_table(&crates));
    if !flags.is_empty() {
        print!("{}", report::render_list(&crates));
    }
    Ok(())
}

/// The counts of one crate, with its tests counted separately.
#[derive(Default)]
struct CrateCounts {
    name: String,
    code: Counts,
    tests: Counts,
}

/// Adds the counts of a file to those of its crate.
fn count_file(root: &Path, file: &Path, crates: &mut Vec<CrateCounts>) -> Result<(), Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let name = crate_name(file);
    let index = match crates.iter().position(|known| known.name == name) {
        Some(index) => index,
        None => {
            crates.push(CrateCounts { name, ..CrateCounts::default() });
            crates.len() - 1
        }
    };
    let counts = match is_test_file(file) {
        true => &mut crates[index].tests,
        false => &mut crates[index].code,
    };
    let shown = file.strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty());
    counts.add_file(&shown.unwrap_or(file).display().to_string(), &text);
    Ok(())
}

/// True for `tests.rs` and for everything in a directory named `tests`.
fn is_test_file(file: &Path) -> bool {
    let mut names = file.iter().rev();
    names.next().is_some_and(|name| name == "tests.rs") || names.any(|name| name == "tests")
}

/// Lists all Rust files below a path, sorted. Leaves out build output, hidden directories, and this
/// module, which quotes everything that it counts.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("cannot read {path}: {error}")
    };
    let mut files = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        if fs::symlink_metadata(&path).map_err(failed(&path))?.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed(&path))? {
                let entry = entry.map_err(failed(&path))?;
                let name = entry.file_name();
                let is_skipped = name == "target"
                    || name.to_string_lossy().starts_with('.')
                    || entry.path().ends_with("xtask/src/prose");
                if !is_skipped {
                    pending.push(entry.path());
                }
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the name of a file's crate: the nearest directory that has a `Cargo.toml`.
fn crate_name(file: &Path) -> String {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut directories = file.ancestors().skip(1);
    let found = directories.find(|directory| directory.join("Cargo.toml").is_file());
    let name = found.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}
