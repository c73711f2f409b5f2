//! Resolving the paths that a model names.

use std::fs;
use std::path::{Component, Path, PathBuf};

use takeback_base::paths::{canonicalize_existing, normalize};
use takeback_base::text::disarm;

/// The maximum number of names in a directory that are compared with a missing name.
const MAX_COMPARED: usize = 2000;

/// Resolves a path: relative to `directory`, with `~` for the home directory, and with all links
/// followed as far as the path exists. Two names of the same file have the same result.
///
/// Any path can be named. A path outside the workspace needs approval.
pub(super) fn resolve_path(
    name: &str,
    directory: &Path,
    home: Option<&Path>,
) -> Result<PathBuf, String> {
    if name.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if name.contains('\0') {
        return Err("the path contains a NUL character".to_owned());
    }
    let below_home = match name.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Some(rest.trim_start_matches('/'))
        }
        _ => None,
    };
    let path = match (below_home, home) {
        (Some(rest), Some(home)) => directory.join(home).join(rest),
        (Some(_), None) => return Err("the home directory is not known".to_owned()),
        (None, _) => directory.join(name),
    };
    let path = match name.contains(char::REPLACEMENT_CHARACTER) {
        true => find_shown_path(&path),
        false => path,
    };
    // After a part that does not exist, `..` can be resolved only by removing the name before it.
    Ok(normalize(&canonicalize_existing(&path)))
}

/// Finds the actual path for a path as the model sees it. A name that is not UTF-8 is shown to the
/// model with replacement characters.
fn find_shown_path(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for component in path.components() {
        let shown = component.as_os_str();
        let is_exact = matches!(component, Component::Normal(_))
            && !shown.to_string_lossy().contains(char::REPLACEMENT_CHARACTER);
        let is_known = is_exact || !matches!(component, Component::Normal(_));
        let actual = match is_known || fs::symlink_metadata(found.join(shown)).is_ok() {
            true => None,
            false => list_names(&found)
                .into_iter()
                .find(|name| name.to_string_lossy() == shown.to_string_lossy()),
        };
        found.push(actual.as_deref().unwrap_or(shown));
    }
    found
}

fn list_names(directory: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.flatten().take(MAX_COMPARED).map(|entry| entry.file_name()).collect()
}

/// Returns a path as the model sees it: relative if it is in `directory`, and on one line.
pub(super) fn show_path(path: &Path, directory: &Path) -> String {
    let inner = path.strip_prefix(directory).unwrap_or(path);
    match inner.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => disarm(&inner.to_string_lossy()),
    }
}

/// Describes a missing path, and names the existing path that is most similar to it.
pub(super) fn describe_missing(path: &Path, directory: &Path) -> String {
    let missing = format!("{} does not exist", show_path(path, directory));
    let Some(parent) = path.parent() else { return missing };
    if !parent.is_dir() {
        let above = parent.ancestors().find(|above| above.is_dir());
        let above = above.map(|above| show_path(above, directory)).unwrap_or_default();
        return format!(
            "{missing}: there is no directory {}, only {above}",
            show_path(parent, directory)
        );
    }
    let wanted = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let similar = list_names(parent)
        .into_iter()
        .map(|name| (distance(&wanted, &name.to_string_lossy().to_lowercase()), name))
        .min()
        .filter(|(distance, _)| *distance <= wanted.chars().count() / 3);
    match similar {
        Some((_, name)) => {
            format!("{missing}; did you mean {}?", show_path(&parent.join(name), directory))
        }
        None => missing,
    }
}

/// Returns the number of characters that must be inserted, deleted or replaced to turn one name
/// into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        (scratch, root)
    }

    #[test]
    fn all_names_of_a_file_resolve_to_one_path() {
        let (_scratch, root) = scratch();
        fs::create_dir_all(root.join("home/a")).unwrap();
        fs::write(root.join("home/a/file"), "").unwrap();
        symlink("home/a/file", root.join("link")).unwrap();
        symlink("home/a", root.join("directory")).unwrap();
        let home = root.join("home");
        let absolute = root.join("home/a/file").into_os_string().into_string().unwrap();
        for name in [
            "home/a/file",
            "./home//a/./file",
            "link",
            "directory/file",
            "home/b/../a/file",
            "directory/../a/file",
            "~/a/file",
            &absolute,
        ] {
            assert_eq!(
                resolve_path(name, &root, Some(&home)),
                Ok(root.join("home/a/file")),
                "{name}"
            );
        }
        assert_eq!(resolve_path("~", &root, Some(&home)), Ok(home.clone()));
        assert_eq!(resolve_path("~x", &root, Some(&home)), Ok(root.join("~x")));
        assert_eq!(resolve_path("new/../../x", &root, None), Ok(root.parent().unwrap().join("x")));
    }

    #[test]
    fn a_path_that_cannot_be_resolved_is_refused() {
        let (_scratch, root) = scratch();
        for name in ["", "a\0b", "~/a"] {
            assert!(resolve_path(name, &root, None).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_is_found_by_its_displayed_form() {
        let (_scratch, root) = scratch();
        let name = OsStr::from_bytes(b"caf\xe9");
        fs::create_dir(root.join(name)).unwrap();
        let shown = format!("{}/x", show_path(&root.join(name), &root));
        assert_eq!(resolve_path(&shown, &root, None), Ok(root.join(name).join("x")));
    }

    #[test]
    fn the_error_for_a_missing_file_names_the_most_similar_file() {
        let (_scratch, root) = scratch();
        fs::write(root.join("README.md"), "").unwrap();
        let describe = |name: &str| describe_missing(&root.join(name), &root);
        assert_eq!(describe("readme.md"), "readme.md does not exist; did you mean README.md?");
        assert_eq!(describe("READ.md"), "READ.md does not exist; did you mean README.md?");
        assert_eq!(describe("main.rs"), "main.rs does not exist");
        assert_eq!(
            describe("src/deep/main.rs"),
            "src/deep/main.rs does not exist: there is no directory src/deep, only ."
        );
    }

    #[test]
    fn a_name_cannot_pretend_to_be_several_lines() {
        assert_eq!(show_path(Path::new("/w/a\nb"), Path::new("/w")), "a\\nb");
        assert_eq!(show_path(Path::new("/w"), Path::new("/w")), ".");
        assert_eq!(show_path(Path::new("/x/y"), Path::new("/w")), "/x/y");
    }

    #[test]
    fn the_distance_counts_changed_characters() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 2), ("é", "e", 1)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
