//! The root of a workspace: the repository or project that a directory is in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_base::paths::canonicalize;
use takeback_tree::ForbiddenRoots;

/// Names that mark the root of a repository. They take precedence over project markers.
const REPOSITORY_MARKERS: [&str; 3] = [".git", ".hg", ".jj"];

/// Names that mark the root of a project without a repository.
const PROJECT_MARKERS: [&str; 17] = [
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "pom.xml",
    "Gemfile",
    "setup.py",
    "requirements.txt",
    "composer.json",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "mix.exs",
    "deno.json",
    "Package.swift",
    "pubspec.yaml",
];

/// The root that a directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRoot {
    /// The canonical path of the root.
    pub path: PathBuf,
    /// True if a marker was found; false if the root is just the directory itself.
    pub is_project: bool,
}

/// Finds the root of the workspace that a directory belongs to: the nearest repository, else the
/// nearest project, else the directory itself. The search ends below the home directory and below
/// temporary directories, so that a stray `.git` or `package.json` in one of them does not turn it
/// into a workspace.
///
/// ```
/// use takeback_undo::root_of;
///
/// # fn main() -> std::io::Result<()> {
/// # let scratch = tempfile::tempdir()?;
/// # let scratch = std::fs::canonicalize(scratch.path())?;
/// std::fs::create_dir_all(scratch.join("shop/src"))?;
/// std::fs::write(scratch.join("shop/Cargo.toml"), "")?;
/// let root = root_of(&scratch.join("shop/src"), &Default::default())?;
/// assert_eq!(root.path, scratch.join("shop"));
/// assert!(root.is_project);
/// # Ok(())
/// # }
/// ```
pub fn root_of(directory: &Path, forbidden: &ForbiddenRoots) -> io::Result<ProjectRoot> {
    let directory = canonicalize(directory)?;
    let candidates: Vec<&Path> =
        directory.ancestors().take_while(|path| !is_beyond(path, forbidden)).collect();
    let has_any = |path: &Path, names: &[&str]| {
        names.iter().any(|name| fs::symlink_metadata(path.join(name)).is_ok())
    };
    let nearest = |names: &[&str]| candidates.iter().find(|path| has_any(path, names));
    let found = nearest(&REPOSITORY_MARKERS).or_else(|| nearest(&PROJECT_MARKERS));
    Ok(match found {
        Some(path) => ProjectRoot { path: path.to_path_buf(), is_project: true },
        None => ProjectRoot { path: directory, is_project: false },
    })
}

/// Returns true if the search ends before this directory: it is the root of the file system, or it
/// is at or above one of the directories that limit the search.
fn is_beyond(path: &Path, forbidden: &ForbiddenRoots) -> bool {
    path.parent().is_none() || forbidden.search_limits().any(|limit| limit.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home directory with projects in it.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new(paths: &[&str]) -> Home {
            let home = Home(tempfile::tempdir().unwrap());
            for path in paths {
                let path = home.path().join(path);
                match path.to_str().unwrap().ends_with('/') {
                    true => fs::create_dir_all(path).unwrap(),
                    false => {
                        fs::create_dir_all(path.parent().unwrap()).unwrap();
                        fs::write(path, "").unwrap();
                    }
                }
            }
            home
        }

        fn path(&self) -> PathBuf {
            fs::canonicalize(self.0.path()).unwrap()
        }

        fn root(&self, directory: &str) -> (String, bool) {
            let forbidden = ForbiddenRoots::new(Some(self.path()), Vec::new(), None);
            let root = root_of(&self.path().join(directory), &forbidden).unwrap();
            let path = root.path.strip_prefix(self.path()).unwrap().display().to_string();
            (path, root.is_project)
        }
    }

    #[test]
    fn the_nearest_repository_wins_over_nearer_projects() {
        let home = Home::new(&["a/.git/", "a/b/package.json", "a/b/c/"]);
        assert_eq!(home.root("a/b/c"), ("a".into(), true));
    }

    #[test]
    fn without_a_repository_the_nearest_project_is_the_root() {
        let home = Home::new(&["a/Makefile", "a/b/Cargo.toml", "a/b/c/"]);
        assert_eq!(home.root("a/b/c"), ("a/b".into(), true));
        assert_eq!(home.root("a"), ("a".into(), true));
    }

    #[test]
    fn without_a_marker_the_directory_is_the_root() {
        let home = Home::new(&["a/b/"]);
        assert_eq!(home.root("a/b"), ("a/b".into(), false));
    }

    #[test]
    fn a_stray_marker_in_the_home_directory_is_ignored() {
        let home = Home::new(&[".git/", "package.json", "a/b/"]);
        assert_eq!(home.root("a/b"), ("a/b".into(), false));
        assert_eq!(home.root(""), ("".into(), false));
    }

    #[test]
    fn the_git_file_of_a_worktree_marks_a_root() {
        let home = Home::new(&["a/.git", "a/b/"]);
        assert_eq!(home.root("a/b"), ("a".into(), true));
    }
}
