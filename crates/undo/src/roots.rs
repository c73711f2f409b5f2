//! Which directory is the workspace: the root of the project that a path is in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use takeback_tree::Places;

/// What marks the root of a repository: these count first.
const REPOSITORIES: [&str; 3] = [".git", ".hg", ".jj"];

/// What marks the root of a project that has no repository.
const PROJECTS: [&str; 17] = [
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

/// The root of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its canonical path.
    pub path: PathBuf,
    /// Whether something marks it as a project; otherwise it is just the directory.
    pub is_project: bool,
}

/// The workspace that a directory belongs to: the nearest repository, else the nearest project,
/// else itself. The search ends below the home directory and below roots of temporary files: a
/// stray `.git` or `package.json` there makes no workspace of them.
pub fn root_of(directory: &Path, places: &Places) -> io::Result<Root> {
    let directory = fs::canonicalize(directory)?;
    let limits = limits(places);
    let candidates: Vec<&Path> =
        directory.ancestors().take_while(|path| !is_beyond(path, &limits)).collect();
    let has_any = |path: &Path, names: &[&str]| {
        names.iter().any(|name| fs::symlink_metadata(path.join(name)).is_ok())
    };
    let nearest = |names: &[&str]| candidates.iter().find(|path| has_any(path, names));
    let found = nearest(&REPOSITORIES).or_else(|| nearest(&PROJECTS));
    Ok(match found {
        Some(path) => Root { path: path.to_path_buf(), is_project: true },
        None => Root { path: directory, is_project: false },
    })
}

/// Where no workspace is: the home directory, roots of temporary files.
fn limits(places: &Places) -> Vec<PathBuf> {
    let all = places.home.iter().chain(&places.temporary);
    all.filter_map(|place| fs::canonicalize(place).ok()).collect()
}

/// Whether a directory is one of these, or above one.
fn is_beyond(path: &Path, limits: &[PathBuf]) -> bool {
    path.parent().is_none() || limits.iter().any(|limit| limit.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home with projects in it, and what `root_of` says there.
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
            let places = Places { home: Some(self.path()), ..Places::default() };
            let root = root_of(&self.path().join(directory), &places).unwrap();
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
    fn without_a_repository_the_nearest_project_is_it() {
        let home = Home::new(&["a/Makefile", "a/b/Cargo.toml", "a/b/c/"]);
        assert_eq!(home.root("a/b/c"), ("a/b".into(), true));
        assert_eq!(home.root("a"), ("a".into(), true));
    }

    #[test]
    fn otherwise_it_is_the_directory() {
        let home = Home::new(&["a/b/"]);
        assert_eq!(home.root("a/b"), ("a/b".into(), false));
    }

    #[test]
    fn a_stray_marker_in_the_home_directory_is_none() {
        let home = Home::new(&[".git/", "package.json", "a/b/"]);
        assert_eq!(home.root("a/b"), ("a/b".into(), false));
        assert_eq!(home.root(""), ("".into(), false));
    }

    #[test]
    fn a_worktree_has_a_file_of_that_name() {
        let home = Home::new(&["a/.git", "a/b/"]);
        assert_eq!(home.root("a/b"), ("a".into(), true));
    }
}
