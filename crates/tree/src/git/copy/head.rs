//! Moving HEAD of a copied repository back to an earlier commit.

use std::fs;
use std::io;
use std::path::Path;

use takeback_base::durable;

use super::super::objects::ForeignRepository;
use super::super::{GitDirectory, Head, MAX_LARGE_FILE, read_regular_file};
use crate::oid::Oid;
use crate::path::RelPath;

/// Moves HEAD of a copy, and the branch that HEAD was on, back to the positions in `wanted`.
/// Returns false, and leaves them unchanged, if the repository no longer has the commit or has an
/// unusual format.
pub(super) fn move_head(copy: &Path, wanted: Option<&Head>) -> io::Result<bool> {
    let present = GitDirectory { path: copy.to_owned() }.head();
    let Some(wanted) = wanted.filter(|wanted| **wanted != Head::default()) else { return Ok(true) };
    if *wanted == present {
        return Ok(true);
    }
    let Ok(repository) = ForeignRepository::open(copy) else { return Ok(false) };
    if let Some(commit) = &wanted.commit {
        let commit = commit.parse::<Oid>();
        if !commit.is_ok_and(|commit| repository.commit(&commit).is_ok()) {
            return Ok(false);
        }
    }
    match (&wanted.branch, &wanted.commit) {
        (Some(branch), commit) => {
            let Some(branch) = branch_path(branch) else { return Ok(false) };
            let reference = copy.join(&branch);
            match commit {
                Some(commit) if !write_ref(&reference, commit)? => return Ok(false),
                Some(_) => {}
                None => delete_branch(copy, &branch)?,
            }
            replace(&copy.join("HEAD"), &format!("ref: {branch}\n"))?;
        }
        (None, Some(commit)) => replace(&copy.join("HEAD"), &format!("{commit}\n"))?,
        (None, None) => return Ok(false),
    }
    Ok(true)
}

/// Returns the name of a branch's ref, or `None` if it cannot be the name of a ref.
fn branch_path(branch: &str) -> Option<String> {
    let name = match branch.starts_with("refs/") {
        true => branch.to_owned(),
        false => format!("refs/heads/{branch}"),
    };
    let is_plain = !name.contains(|c: char| c.is_control() || c == '\\' || c == ' ');
    let is_path = RelPath::new(name.as_bytes()).is_ok_and(|path| !path.is_root());
    (is_plain && is_path && !name.ends_with(".lock")).then_some(name)
}

/// Writes a ref. Returns false if another branch is in the way: `a` if the ref is `a/b`, or vice
/// versa.
fn write_ref(path: &Path, commit: &str) -> io::Result<bool> {
    let has_parent = path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok());
    if !has_parent || path.is_dir() {
        return Ok(false);
    }
    replace(path, &format!("{commit}\n"))?;
    Ok(true)
}

/// Deletes a branch that did not have a commit yet at the earlier time.
fn delete_branch(copy: &Path, branch: &str) -> io::Result<()> {
    durable::ignore_missing(fs::remove_file(copy.join(branch)))?;
    let packed = copy.join("packed-refs");
    let Some(text) = read_regular_file(&packed, MAX_LARGE_FILE) else { return Ok(()) };
    let ends = |line: &[u8]| line.ends_with(format!(" {branch}").as_bytes());
    let kept: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !ends(line)).collect();
    fs::remove_file(&packed)?;
    fs::write(&packed, kept.join(&b'\n'))
}

/// Replaces a file of the copy. Does not write to the old file, which may be a hard link to a file
/// of the original, or a symbolic link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    durable::ignore_missing(fs::remove_file(path))?;
    fs::write(path, text)
}
