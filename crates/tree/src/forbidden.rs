//! The directories that can never be a workspace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use takeback_base::paths::{canonicalize, canonicalize_existing};

/// The directories that can never be a workspace: the user's home directory and everything above
/// it, the directories for temporary files, and takeback's own directory. The caller provides their
/// paths; each path is resolved at most once.
#[derive(Clone, Debug, Default)]
pub struct ForbiddenRoots {
    home: Option<PathBuf>,
    temporary: Vec<PathBuf>,
    own: Option<PathBuf>,
    resolved: OnceLock<ResolvedRoots>,
}

/// The forbidden directories with all links resolved.
#[derive(Clone, Debug)]
struct ResolvedRoots {
    home: Option<PathBuf>,
    temporary: Vec<PathBuf>,
    own: Option<PathBuf>,
}

impl ForbiddenRoots {
    /// Forbids the user's home directory, the directories for temporary files, such as `/tmp`, and
    /// takeback's own directory.
    ///
    /// ```
    /// use std::path::{Path, PathBuf};
    ///
    /// use takeback_tree::ForbiddenRoots;
    ///
    /// let forbidden = ForbiddenRoots::new(Some("/srv/me".into()), vec!["/tmp".into()], None);
    /// assert!(forbidden.refusal(Path::new("/srv/me")).is_some());
    /// assert!(forbidden.refusal(Path::new("/srv/me/shop")).is_none());
    /// ```
    pub fn new(
        home: Option<PathBuf>,
        mut temporary: Vec<PathBuf>,
        own: Option<PathBuf>,
    ) -> ForbiddenRoots {
        temporary.sort();
        temporary.dedup();
        ForbiddenRoots { home, temporary, own, resolved: OnceLock::new() }
    }

    /// Returns a copy in which another directory is takeback's own directory.
    pub fn with_own(&self, own: &Path) -> ForbiddenRoots {
        let (home, temporary) = (self.home.clone(), self.temporary.clone());
        ForbiddenRoots::new(home, temporary, Some(own.to_owned()))
    }

    /// Returns the user's home directory, as it was given.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns the directories that an upward search for a project must not reach, with all links
    /// resolved.
    pub fn search_limits(&self) -> impl Iterator<Item = &Path> {
        let resolved = self.resolve();
        resolved.home.iter().chain(&resolved.temporary).map(PathBuf::as_path)
    }

    /// True if a canonical path is a directory for temporary files or is below one.
    pub fn is_temporary(&self, path: &Path) -> bool {
        self.resolve().temporary.iter().any(|root| path.starts_with(root))
    }

    /// Returns takeback's own directory, with all links resolved.
    pub(crate) fn own(&self) -> Option<&Path> {
        self.resolve().own.as_deref()
    }

    /// Returns why a directory can never be a workspace, such as `the root of the file system`.
    /// Returns `None` if the directory can be one. The path must be canonical.
    pub fn refusal(&self, path: &Path) -> Option<&'static str> {
        let ResolvedRoots { home, temporary, own } = self.resolve();
        if path.parent().is_none() {
            Some("the root of the file system")
        } else if home.as_deref() == Some(path) {
            Some("the home directory")
        } else if home.as_ref().is_some_and(|home| home.starts_with(path)) {
            Some("above the home directory")
        } else if temporary.iter().any(|root| root == path) {
            Some("a directory for temporary files")
        } else if own.as_ref().is_some_and(|own| path.starts_with(own)) {
            Some("takeback's own directory")
        } else {
            None
        }
    }

    fn resolve(&self) -> &ResolvedRoots {
        self.resolved.get_or_init(|| ResolvedRoots {
            home: self.home.as_deref().and_then(resolve_root),
            temporary: self.temporary.iter().filter_map(|root| resolve_root(root)).collect(),
            own: self.own.as_deref().and_then(resolve_root),
        })
    }
}

/// Resolves the links in the path of a directory. If the directory does not exist yet, the part of
/// its path that exists is resolved, so that the directory is forbidden once it is created. A
/// directory that cannot be resolved is not forbidden.
fn resolve_root(root: &Path) -> Option<PathBuf> {
    match canonicalize(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(canonicalize_existing(root)),
        resolved => resolved.ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn forbidden_roots_are_refused_even_through_links_and_before_they_exist() {
        let scratch = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(scratch.path()).unwrap();
        fs::create_dir_all(base.join("real/user")).unwrap();
        symlink("real", base.join("homes")).unwrap();
        let home = base.join("homes/user");
        let forbidden = ForbiddenRoots::new(
            Some(home.clone()),
            vec![base.join("tmp"), base.join("tmp")],
            Some(home.join(".takeback")),
        );
        let real = base.join("real/user");
        assert_eq!(forbidden.home(), Some(home.as_path()));
        assert_eq!(forbidden.refusal(&real), Some("the home directory"));
        assert_eq!(forbidden.refusal(&base.join("real")), Some("above the home directory"));
        assert_eq!(forbidden.refusal(&real.join("code")), None);
        fs::create_dir_all(real.join(".takeback/checkpoints")).unwrap();
        let own = real.join(".takeback/checkpoints");
        assert_eq!(forbidden.refusal(&own), Some("takeback's own directory"));
        let temporary = base.join("tmp");
        assert_eq!(forbidden.refusal(&temporary), Some("a directory for temporary files"));
        assert!(forbidden.is_temporary(&temporary.join("x")));
        assert_eq!(forbidden.search_limits().count(), 2);
        assert_eq!(forbidden.refusal(Path::new("/")), Some("the root of the file system"));
    }
}
