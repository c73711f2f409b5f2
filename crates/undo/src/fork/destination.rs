//! The directory that a fork's files are written to.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use takeback_base::paths::{canonicalize_existing, normalize};

use super::{ForkError, ForkFiles};
use crate::Opened;

/// Chooses the directory for the files of a fork, and checks that it can be created. The result is
/// absolute, and no part of it is a link.
pub(super) fn choose_destination(
    opened: &Opened,
    files: &ForkFiles,
    workspace: &Path,
) -> Result<PathBuf, ForkError> {
    let path = match files {
        ForkFiles::Into(path) => normalize(&canonicalize_existing(path)),
        _ => find_free_name(workspace),
    };
    if let Some(what) = opened.forbidden.refusal(&path) {
        return Err(ForkError::Refused { path, what });
    }
    // To a rollback, a fork inside the workspace would look like files that the agent created, and
    // the rollback would delete it.
    if path.starts_with(workspace) {
        return Err(ForkError::Inside(path));
    }
    match fs::symlink_metadata(&path) {
        Err(_) => Ok(path),
        Ok(found) if found.is_dir() && is_empty(&path)? => Ok(path),
        Ok(_) => Err(ForkError::NotEmpty(path)),
    }
}

fn is_empty(path: &Path) -> Result<bool, ForkError> {
    let failed = |source| ForkError::Create { path: path.to_owned(), source };
    Ok(fs::read_dir(path).map_err(failed)?.next().is_none())
}

/// Finds an unused name for a directory beside a workspace: `shop-fork`, `shop-fork-2`, and so on.
fn find_free_name(workspace: &Path) -> PathBuf {
    let name = |number: usize| {
        let mut name = OsString::from(workspace.file_name().unwrap_or_default());
        name.push("-fork");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        workspace.with_file_name(name)
    };
    let mut names = (1..).map(name);
    names.find(|path| fs::symlink_metadata(path).is_err()).expect("there are enough numbers")
}
