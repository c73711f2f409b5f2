//! The guarded files in a tree. The filter that the tree was captured with and the `.gitignore`
//! files in the tree determine which files are guarded. The `.gitignore` files in the workspace
//! have no effect, because an agent may have changed them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::capture::databases::database_of;
use crate::compare::find_node;
use crate::object::OwnedEntry;
use crate::oid::Oid;
use crate::path::{RelPath, split};
use crate::rules::{Filter, Matcher, Scope, Verdict};
use crate::store::{ObjectError, Store};

/// The rules that determine which files in one tree are guarded.
pub(crate) struct Guard<'a> {
    store: &'a Store,
    tree: Oid,
    filter: &'a Filter,
    matcher: Matcher,
    /// The patterns that apply in each directory; `None` if the directory is excluded.
    scopes: HashMap<Vec<u8>, Option<Arc<Scope>>>,
    /// The trees of the directories that were entered, so that lookups need not start at the root.
    trees: HashMap<Vec<u8>, Oid>,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(store: &'a Store, tree: Oid, filter: &'a Filter) -> Guard<'a> {
        let matcher = Matcher::new(&filter.rules);
        let trees = HashMap::from([(Vec::new(), tree)]);
        Guard { store, tree, filter, matcher, scopes: HashMap::new(), trees }
    }

    /// True if a file is guarded: a single ignored file in a directory that is captured.
    pub(crate) fn is_guarded(&mut self, path: &RelPath) -> Result<bool, ObjectError> {
        // The companion files of a database are treated like the database itself: restoring a log
        // together with a different state of its database would destroy the database.
        if let Some(database) = database_of(path.as_bytes())
            && let Ok(database) = RelPath::new(database.to_vec())
            && find_node(self.store, self.tree, &database)?.is_some_and(|node| node.mode.is_file())
        {
            return self.is_guarded(&database);
        }
        if self.filter.tracked.contains(path) {
            return Ok(false);
        }
        Ok(self.judge_file(path)? == Some(Verdict::Ignore))
    }

    /// True if the rules exclude a file.
    pub(crate) fn is_excluded(&mut self, path: &RelPath) -> Result<bool, ObjectError> {
        Ok(matches!(self.judge_file(path)?, None | Some(Verdict::Exclude)))
    }

    /// Applies the rules to a file. Returns `None` if it is in an excluded directory.
    fn judge_file(&mut self, path: &RelPath) -> Result<Option<Verdict>, ObjectError> {
        let scope = self.scope_of(split(path.as_bytes()).0)?;
        Ok(scope.map(|scope| self.matcher.judge(&scope, path.as_bytes(), false)))
    }

    fn scope_of(&mut self, directory: &[u8]) -> Result<Option<Arc<Scope>>, ObjectError> {
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
                Some(above) if self.is_entered(&above, directory) => {
                    let text = self.read_gitignore(directory)?;
                    Some(Scope::enter(Some(&above), directory, text.as_deref()))
                }
                _ => None,
            };
            self.scopes.insert(directory.to_vec(), scope.clone());
        }
        Ok(scope)
    }

    fn is_entered(&self, above: &Scope, directory: &[u8]) -> bool {
        directory.is_empty() || self.matcher.judge(above, directory, true) == Verdict::Capture
    }

    /// Reads the `.gitignore` of a directory. The directory above it must already have been
    /// entered.
    fn read_gitignore(&mut self, directory: &[u8]) -> Result<Option<Vec<u8>>, ObjectError> {
        if !directory.is_empty() {
            let (above, name) = split(directory);
            let Some(above) = self.trees.get(above) else { return Ok(None) };
            let inside = self.find_entry(*above, name)?.filter(|node| node.mode.is_directory());
            let Some(inside) = inside else { return Ok(None) };
            self.trees.insert(directory.to_vec(), inside.oid);
        }
        let tree = self.trees[directory];
        match self.find_entry(tree, b".gitignore")? {
            Some(node) if node.mode.is_file() => self.store.blob(&node.oid).map(Some),
            _ => Ok(None),
        }
    }

    fn find_entry(&self, tree: Oid, name: &[u8]) -> Result<Option<OwnedEntry>, ObjectError> {
        Ok(self.store.tree(&tree)?.into_iter().find(|entry| entry.name == name))
    }
}
