//! The user's settings: the tables `[checkpoints]` and `[protection]` in config.toml.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use takeback_tree::CaptureRules;

/// The settings for checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// True if takeback takes checkpoints.
    pub enabled: bool,
    /// The points in a turn at which a checkpoint is taken.
    pub granularity: Granularity,
    /// The maximum number of rows that a workspace keeps. The same limit applies separately to the
    /// steps.
    pub max_snapshots: usize,
    /// The maximum size of the store.
    pub max_total_size_mb: u64,
    /// The maximum size of a captured file, unless git tracks it or a call names or sweeps it.
    pub max_file_size_mb: u64,
    /// The maximum size of a guarded file.
    pub max_guarded_kb: u64,
    /// The maximum total size of files that are captured only because a call names or sweeps them.
    pub max_named_mb: u64,
    /// The maximum number of files in a workspace that is captured as a whole.
    pub max_files: u64,
    /// The longest time that an agent waits for a checkpoint.
    pub timeout_ms: u64,
    /// True if a call that cannot be protected is refused instead of running unprotected.
    pub strict: bool,
    /// Patterns for paths that are not captured.
    pub exclude: Vec<String>,
    /// Patterns for paths that are captured even if another rule excludes them.
    pub include: Vec<String>,
    /// Patterns for files that hold secrets, or `skip` to exclude such files.
    pub private: Private,
    /// True if old checkpoints are pruned automatically.
    pub auto_prune: bool,
    /// The age after which an unused workspace loses its history.
    pub retention_days: u64,
    /// True if workspaces whose directory no longer exists also lose their history after
    /// `retention_days`.
    pub delete_orphans: bool,
    /// The minimum time between two automatic prunes.
    pub min_interval_hours: u64,
}

/// The protection of takeback's own history against the agents that it watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Protection {
    /// The response to a call that would delete or change takeback's own files or hooks.
    pub history: HistoryProtection,
    /// The home that holds a second copy of all checkpoints.
    pub mirror: Option<PathBuf>,
}

/// The response to a call that would delete or change takeback's own files or hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryProtection {
    /// Refuses the call.
    #[default]
    Refuse,
    /// Warns the user, and lets the call run.
    Warn,
    /// Lets the call run.
    Off,
}

/// The points in a turn at which a checkpoint is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// Before each mutating call, if files have changed since the last checkpoint.
    Step,
    /// Before the first mutating call.
    Turn,
}

/// The treatment of files that hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"skip\" or a list of patterns")]
pub enum Private {
    /// Excludes files that match the default patterns from every capture.
    Skip(Skip),
    /// Captures files that match these patterns, but never shows their content.
    Patterns(Vec<String>),
}

/// The word `skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    Skip,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            granularity: Granularity::Step,
            max_snapshots: 50,
            max_total_size_mb: 2048,
            max_file_size_mb: 10,
            max_guarded_kb: 1024,
            max_named_mb: 512,
            max_files: 200_000,
            timeout_ms: 3000,
            strict: false,
            exclude: Vec::new(),
            include: Vec::new(),
            private: Private::Patterns(CaptureRules::default().private),
            auto_prune: true,
            retention_days: 30,
            delete_orphans: true,
            min_interval_hours: 24,
        }
    }
}

impl Settings {
    /// Returns the rules that captures follow.
    pub fn rules(&self) -> CaptureRules {
        let (private, skip_private) = match &self.private {
            Private::Skip(Skip::Skip) => (CaptureRules::default().private, true),
            Private::Patterns(patterns) => (patterns.clone(), false),
        };
        CaptureRules {
            exclude: self.exclude.clone(),
            include: self.include.clone(),
            private,
            skip_private,
            max_file_size: self.max_file_size_mb.saturating_mul(1 << 20),
            // Files that do not fit into the store would only be evicted again.
            max_named_size: self.max_named_mb.min(self.max_total_size_mb).saturating_mul(1 << 20),
            max_guarded_size: self.max_guarded_kb.saturating_mul(1 << 10),
            max_files: self.max_files,
        }
    }

    /// Returns the maximum size of the store, in bytes.
    pub fn max_total_size(&self) -> u64 {
        self.max_total_size_mb.saturating_mul(1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_files_never_exceed_the_size_cap() {
        let with_cap = |max_total_size_mb| {
            Settings { max_total_size_mb, ..Settings::default() }.rules().max_named_size >> 20
        };
        assert_eq!((with_cap(2048), with_cap(100)), (512, 100));
    }
}
