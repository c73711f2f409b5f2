//! The rules that determine what is captured. There are five kinds, each of which overrides the
//! kinds before it: built-in excludes, `.gitignore` files, configured excludes, configured
//! includes, and paths that the caller names or that the workspace's git index tracks.

use std::sync::Arc;

use bstr::ByteSlice;
use gix_glob::wildmatch;
use serde::{Deserialize, Serialize};

use crate::path::{RelPath, is_within, split};

// The built-in excludes, version 1. Stored filters do not repeat them, so a restore applies this
// list to every checkpoint.

/// Directories that a tool recreates on demand: dependencies, caches, environments.
const REMADE: [&str; 19] = [
    "node_modules",
    "bower_components",
    "target",
    "__pycache__",
    ".cache",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".parcel-cache",
    ".terraform",
];
/// Directories that usually hold build output, but sometimes hold files that no tool can recreate.
const OUTPUT: [&str; 2] = ["dist", "build"];
/// Files that are not worth capturing.
const NOISE: [&str; 5] = ["*.pyc", "*.pyo", ".DS_Store", "Thumbs.db", "*.log"];

/// True if a directory with this name can be regenerated. Such a directory is not captured, even if
/// a call names it. If the call only sweeps the directory, the usual names of build output are
/// treated in the same way.
///
/// ```
/// use takeback_tree::can_be_made_again;
///
/// assert!(can_be_made_again(b"node_modules", false));
/// // `build` may hold files that no tool can recreate, so only a sweep leaves it out.
/// assert!(!can_be_made_again(b"build", false));
/// assert!(can_be_made_again(b"build", true));
/// ```
pub fn can_be_made_again(name: &[u8], is_swept: bool) -> bool {
    let is_in = |names: &[&str]| names.iter().any(|other| other.as_bytes() == name);
    is_in(&REMADE) || (is_swept && is_in(&OUTPUT))
}

/// The names of files that usually hold secrets.
const PRIVATE: [&str; 3] = [".env*", "*.pem", "id_*"];

/// The default of [`CaptureRules::max_named_size`].
const DEFAULT_BUDGET: u64 = 512 << 20;

/// True if the budget is the default. In that case, records omit the budget, so that older versions
/// of takeback, which do not have this setting, can still read the records.
fn is_default_budget(budget: &u64) -> bool {
    *budget == DEFAULT_BUDGET
}

/// The configured rules of a capture. They are stored with every checkpoint, so that a restore uses
/// the same rules as its capture.
///
/// ```
/// use takeback_tree::{CaptureOptions, CaptureRules, RelPath, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let project = scratch.path().join("shop");
/// # std::fs::create_dir(&project)?;
/// # let store = Store::open(scratch.path().join("store"))?;
/// # let workspace = store.workspace(&project, &Default::default())?;
/// # let mut lock = workspace.lock()?;
/// # let now = std::time::SystemTime::now();
/// std::fs::write(project.join("intro.mp4"), "frames")?;
/// std::fs::write(project.join("app.log"), "started\n")?;
/// let rules = CaptureRules {
///     exclude: vec!["*.mp4".into()],
///     // By default, logs are not captured.
///     include: vec!["/app.log".into()],
///     ..CaptureRules::default()
/// };
/// let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
/// let tree = lock.capture(&options)?.tree;
/// lock.pin(tree, now, "")?;
/// let has = |name: &str| store.find_entry(&tree, &RelPath::new(name).unwrap());
/// assert!(has("app.log")?.is_some());
/// assert!(has("intro.mp4")?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRules {
    /// Patterns for paths that are not captured, in the syntax of `.gitignore`.
    pub exclude: Vec<String>,
    /// Patterns for paths that are captured even if another rule excludes them.
    pub include: Vec<String>,
    /// Patterns for files whose content is never shown.
    pub private: Vec<String>,
    /// True if ignored private files are not captured at all.
    pub skip_private: bool,
    /// The maximum size in bytes of a captured file. A larger file is uncovered, unless git tracks
    /// it or the caller names or sweeps it.
    pub max_file_size: u64,
    /// The maximum size in bytes of a guarded file. A larger ignored file is uncovered.
    pub max_guarded_size: u64,
    /// The maximum total size in bytes of the files that are captured only because they are named
    /// or swept.
    #[serde(skip_serializing_if = "is_default_budget")]
    pub max_named_size: u64,
    /// The maximum number of files. A workspace with more is refused.
    pub max_files: u64,
}

impl Default for CaptureRules {
    fn default() -> CaptureRules {
        CaptureRules {
            exclude: Vec::new(),
            include: Vec::new(),
            private: PRIVATE.map(str::to_owned).to_vec(),
            skip_private: false,
            max_file_size: 10 << 20,
            max_guarded_size: 1 << 20,
            max_named_size: DEFAULT_BUDGET,
            max_files: 200_000,
        }
    }
}

/// The rules of a capture, and the decisions that do not follow from the rules alone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Filter {
    pub rules: CaptureRules,
    /// Ignored files that were captured like all other files because git tracked them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracked: Vec<RelPath>,
}

/// The decision about a path, based on the rules alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Capture,
    /// Captured, with everything below it, regardless of other rules.
    Include,
    /// Ignored by a `.gitignore`.
    Ignore,
    /// Excluded by the configuration or the built-in list.
    Exclude,
}

/// One pattern, parsed and matched step by step as in git's `dir.c`. gix-ignore differs: it skips a
/// UTF-16 byte order mark and lines of tabs, keeps a carriage return at the end of the text and
/// everything after a NUL, and does not match `a**` as `a` followed by a separate `**`.
#[derive(Debug)]
struct Pattern {
    /// The pattern without its `!` and without slashes at its ends.
    text: Vec<u8>,
    /// The length of the text before the first wildcard or escape.
    literal: usize,
    is_negative: bool,
    only_directories: bool,
    /// True if the pattern has no slash. Such a pattern matches names in all directories.
    is_name: bool,
}

impl Pattern {
    fn parse(line: &[u8]) -> Option<Pattern> {
        let (is_negative, text) = (line.starts_with(b"!"), line.strip_prefix(b"!").unwrap_or(line));
        let (only_directories, text) =
            (text.ends_with(b"/"), text.strip_suffix(b"/").unwrap_or(text));
        let is_name = !text.contains(&b'/');
        let text = text.strip_prefix(b"/").unwrap_or(text).to_vec();
        let literal = text.find_byteset(br"*?[\").unwrap_or(text.len());
        let pattern = Pattern { text, literal, is_negative, only_directories, is_name };
        (!pattern.text.is_empty()).then_some(pattern)
    }

    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.only_directories && !is_directory {
            return false;
        }
        let subject = if self.is_name { split(path).1 } else { path };
        // As in git, the literal beginning is matched separately from the rest, so that `a**/b`
        // matches `a/x/b`.
        let (literal, special) = self.text.split_at(self.literal);
        let Some(rest) = subject.strip_prefix(literal) else { return false };
        let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
        match special {
            b"" => rest.is_empty(),
            _ => gix_glob::wildmatch(special.as_bstr(), rest.as_bstr(), mode),
        }
    }
}

/// The patterns of one source, in order.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

impl Patterns {
    pub(crate) fn parse(text: &[u8]) -> Patterns {
        Patterns::parse_some(text, usize::MAX).expect("the number of lines fits into a usize")
    }

    /// Parses at most `limit` patterns. Returns `None` if the text has more.
    fn parse_some(text: &[u8], limit: usize) -> Option<Patterns> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.split(|byte| *byte == b'\n');
        let patterns = lines.filter_map(|line| Pattern::parse(strip_line(line)?));
        let patterns: Vec<Pattern> = patterns.take(limit.saturating_add(1)).collect();
        (patterns.len() <= limit).then_some(Patterns(patterns))
    }

    /// Returns the result of the last matching pattern: true, or false if the pattern is negated.
    fn last_match(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        let last = self.0.iter().rev().find(|pattern| pattern.matches(path, is_directory));
        last.map(|pattern| !pattern.is_negative)
    }
}

/// Removes the line ending and unescaped trailing spaces. Returns `None` for a comment.
fn strip_line(line: &[u8]) -> Option<&[u8]> {
    if line.starts_with(b"#") {
        return None;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let (mut at, mut end) = (0, 0);
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at.min(line.len());
        }
    }
    Some(&line[..end])
}

/// The maximum number of patterns in the `.gitignore` files that apply in a directory. In the worst
/// case, every path is compared with all of them.
pub const MAX_PATTERNS: usize = 10_000;

/// The `.gitignore` files that apply in a directory: its own and those above it.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    parent: Option<Arc<Scope>>,
    /// The number of patterns in this scope and in the scopes above it.
    count: usize,
    /// True if the directory's own file has too many patterns and is not applied.
    pub(crate) is_over_limit: bool,
    /// The length of the directory's path, slash included.
    base: usize,
    patterns: Patterns,
}

impl Scope {
    /// Returns the scope of `directory`, whose `.gitignore` has this content.
    pub(crate) fn enter(
        parent: Option<&Arc<Scope>>,
        directory: &[u8],
        gitignore: Option<&[u8]>,
    ) -> Arc<Scope> {
        let (parent, text) = match (parent, gitignore) {
            (Some(parent), None) => return parent.clone(),
            (parent, text) => (parent, text.unwrap_or_default()),
        };
        let above = parent.map_or(0, |parent| parent.count);
        let patterns = Patterns::parse_some(text, MAX_PATTERNS - above);
        let is_over_limit = patterns.is_none();
        let patterns = patterns.unwrap_or_default();
        Arc::new(Scope {
            parent: parent.cloned(),
            count: above + patterns.0.len(),
            is_over_limit,
            base: if directory.is_empty() { 0 } else { directory.len() + 1 },
            patterns,
        })
    }

    /// Returns the result of the nearest `.gitignore` with a matching pattern.
    fn last_match(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        let mut scope = Some(self);
        while let Some(current) = scope {
            let answer = current.patterns.last_match(&path[current.base..], is_directory);
            if answer.is_some() {
                return answer;
            }
            scope = current.parent.as_deref();
        }
        None
    }
}

/// Capture rules, parsed for matching.
#[derive(Debug)]
pub(crate) struct Matcher {
    built_in: Patterns,
    exclude: Patterns,
    include: Patterns,
    private: Patterns,
}

impl Matcher {
    pub(crate) fn new(rules: &CaptureRules) -> Matcher {
        let patterns = |lines: &[String]| Patterns::parse(lines.join("\n").as_bytes());
        let directories = REMADE.iter().chain(&OUTPUT).map(|name| format!("{name}/"));
        let built_in: Vec<String> = directories.chain(NOISE.map(str::to_owned)).collect();
        Matcher {
            built_in: patterns(&built_in),
            exclude: patterns(&rules.exclude),
            include: patterns(&rules.include),
            private: patterns(&rules.private),
        }
    }

    /// Applies the rules to a path. All directories above it must be captured.
    pub(crate) fn judge(&self, scope: &Scope, path: &[u8], is_directory: bool) -> Verdict {
        if self.include.last_match(path, is_directory) == Some(true) {
            return Verdict::Include;
        }
        if let Some(excluded) = self.exclude.last_match(path, is_directory) {
            return if excluded { Verdict::Exclude } else { Verdict::Capture };
        }
        match scope.last_match(path, is_directory) {
            Some(true) => Verdict::Ignore,
            Some(false) => Verdict::Capture,
            None if self.built_in.last_match(path, is_directory) == Some(true) => Verdict::Exclude,
            None => Verdict::Capture,
        }
    }

    /// True if a configured include may match a path in this excluded directory.
    pub(crate) fn has_include_under(&self, directory: &[u8]) -> bool {
        self.include.0.iter().any(|pattern| {
            let literal = &pattern.text[..pattern.literal];
            !pattern.is_name && !pattern.is_negative && is_within(literal, directory)
        })
    }

    /// True if the content of a file is never shown.
    pub(crate) fn is_private(&self, path: &[u8]) -> bool {
        self.private.last_match(path, false) == Some(true)
    }
}
