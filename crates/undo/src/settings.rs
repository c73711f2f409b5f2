//! What the user decides about checkpoints: `[checkpoints]` of the configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use takeback_tree::Rules;

/// All settings with their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whether anything is done at all.
    pub enabled: bool,
    /// How often within a turn.
    pub granularity: Granularity,
    /// How many rows a workspace keeps, and how many further steps.
    pub max_snapshots: usize,
    /// How large the store may be.
    pub max_total_size_mb: u64,
    /// Larger files are not covered.
    pub max_file_size_mb: u64,
    /// Larger ignored files are not guarded.
    pub max_guarded_kb: u64,
    /// A workspace with more files is not captured.
    pub max_files: u64,
    /// How long an agent waits for a checkpoint at most.
    pub timeout_ms: u64,
    /// Whether a call that cannot be protected is refused, instead of going on unprotected.
    pub strict: bool,
    /// Patterns of what is not captured.
    pub exclude: Vec<String>,
    /// Patterns of what is captured all the same.
    pub include: Vec<String>,
    /// Which files hold secrets, or that they are left out.
    pub private: Private,
    /// Whether old checkpoints go by themselves.
    pub auto_prune: bool,
    /// Workspaces that nobody worked in for so long lose their history.
    pub retention_days: u64,
    /// Whether those that are gone do, too.
    pub delete_orphans: bool,
    /// How often old checkpoints go by themselves.
    pub min_interval_hours: u64,
}

/// How often a turn is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// Before each call that follows a change.
    Step,
    /// Before its first mutating call.
    Turn,
}

/// What is done about secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"skip\" or a list of patterns")]
pub enum Private {
    /// They are left out.
    Skip(Skip),
    /// They are captured and never shown: these, or the usual ones if there are none.
    Patterns(Vec<String>),
}

/// The word `skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// The only one.
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
            max_files: 50_000,
            timeout_ms: 5000,
            strict: false,
            exclude: Vec::new(),
            include: Vec::new(),
            private: Private::Patterns(Rules::default().private),
            auto_prune: true,
            retention_days: 30,
            delete_orphans: true,
            min_interval_hours: 24,
        }
    }
}

impl Settings {
    /// The rules that captures follow.
    pub fn rules(&self) -> Rules {
        let (private, skip_private) = match &self.private {
            Private::Skip(Skip::Skip) => (Rules::default().private, true),
            Private::Patterns(patterns) => (patterns.clone(), false),
        };
        Rules {
            exclude: self.exclude.clone(),
            include: self.include.clone(),
            private,
            skip_private,
            max_file_size: self.max_file_size_mb.saturating_mul(1 << 20),
            max_guarded_size: self.max_guarded_kb.saturating_mul(1 << 10),
            max_files: self.max_files,
        }
    }

    /// How large the store may be, in bytes.
    pub fn max_total_size(&self) -> u64 {
        self.max_total_size_mb.saturating_mul(1 << 20)
    }

    /// How long a workspace keeps its history without being touched.
    pub fn retention(&self) -> Duration {
        Duration::from_secs(self.retention_days.saturating_mul(86_400))
    }
}
