//! Which files of a tree are guarded, by the filter it was captured with and its own `.gitignore`
//! files: never by those in the workspace, which may be part of what is being taken back.

use std::collections::HashMap;
use std::sync::Arc;

use crate::compare::lookup;
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::rules::{Filter, Matcher, Scope, Verdict};
use crate::store::{ObjectError, Store};

pub(crate) struct Guard<'a> {
    store: &'a Store,
    tree: Oid,
    filter: &'a Filter,
    matcher: Matcher,
    /// For each directory: its rules, or none if it is excluded.
    scopes: HashMap<Vec<u8>, Option<Arc<Scope>>>,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(store: &'a Store, tree: Oid, filter: &'a Filter) -> Guard<'a> {
        Guard { store, tree, filter, matcher: Matcher::new(&filter.rules), scopes: HashMap::new() }
    }

    /// Whether a file is a single ignored one beside captured ones.
    pub(crate) fn guards(&mut self, path: &RelPath) -> Result<bool, ObjectError> {
        if self.filter.tracked.contains(path) {
            return Ok(false);
        }
        let scope = self.scope(split(path.as_bytes()).0)?;
        let verdict = |scope: Arc<Scope>| self.matcher.verdict(&scope, path.as_bytes(), false);
        Ok(scope.map(verdict) == Some(Verdict::Ignore))
    }

    /// Whether the rules leave a file out.
    pub(crate) fn leaves_out(&mut self, path: &RelPath) -> Result<bool, ObjectError> {
        let scope = self.scope(split(path.as_bytes()).0)?;
        let verdict = |scope: Arc<Scope>| self.matcher.verdict(&scope, path.as_bytes(), false);
        Ok(matches!(scope.map(verdict), None | Some(Verdict::Exclude)))
    }

    fn scope(&mut self, directory: &[u8]) -> Result<Option<Arc<Scope>>, ObjectError> {
        let mut missing = Vec::new();
        let mut at = directory;
        let mut scope = loop {
            if let Some(scope) = self.scopes.get(at) {
                break scope.clone();
            }
            missing.push(at);
            if at.is_empty() {
                break Some(Arc::default());
            }
            at = split(at).0;
        };
        for directory in missing.into_iter().rev() {
            scope = match scope {
                Some(above) if self.enters(&above, directory) => {
                    let text = self.gitignore(directory)?;
                    Some(Scope::enter(Some(&above), directory, text.as_deref()))
                }
                _ => None,
            };
            self.scopes.insert(directory.to_vec(), scope.clone());
        }
        Ok(scope)
    }

    fn enters(&self, above: &Scope, directory: &[u8]) -> bool {
        directory.is_empty() || self.matcher.verdict(above, directory, true) == Verdict::Capture
    }

    fn gitignore(&self, directory: &[u8]) -> Result<Option<Vec<u8>>, ObjectError> {
        let path = RelPath::new(crate::path::join(directory, b".gitignore"))
            .expect("a directory of a tree has a path");
        match lookup(self.store, self.tree, &path)? {
            Some(node) if node.mode.is_file() => self.store.blob(&node.oid).map(Some),
            _ => Ok(None),
        }
    }
}
