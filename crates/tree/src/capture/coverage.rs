//! The decision about each path: captured, entered, or left out, and why.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::beneath::Stat;
use crate::capture::cache::{Cause, FileClass, Reach};
use crate::capture::{CaptureContext, CaptureOptions};
use crate::git::index::TrackedPaths;
use crate::object::is_git_name;
use crate::pack::MAX_OBJECT;
use crate::path::{RelPath, is_within, split};
use crate::rules::{self, CaptureRules, Matcher, Scope, Verdict};

/// Everything that determines what a capture covers, except the `.gitignore` files.
pub(crate) struct Coverage {
    pub(crate) rules: CaptureRules,
    pub(crate) matcher: Matcher,
    /// The maximum number of files. A workspace with more is refused.
    pub(crate) max_files: u64,
    /// The paths that a restore will replace. They are captured regardless of the rules and the
    /// budget.
    in_the_way: PathSet,
    /// The paths that the caller names.
    named: PathSet,
    /// The directories that the caller sweeps.
    swept: PathSet,
    /// Takeback's own directory, if it is inside the workspace.
    own: Option<RelPath>,
    /// The single file of the workspace, which is captured regardless of the rules.
    only: Option<Vec<u8>>,
    index: Option<PathBuf>,
    tracked: OnceLock<TrackedPaths>,
}

/// The reason why a path is captured although the rules exclude it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    InTheWay,
    Named,
    Swept,
}

/// Paths of files and directories, sorted.
struct PathSet {
    paths: Vec<RelPath>,
    has_root: bool,
}

impl PathSet {
    fn new(paths: &[RelPath]) -> PathSet {
        let mut sorted: Vec<RelPath> =
            paths.iter().filter(|path| !path.is_root()).cloned().collect();
        sorted.sort();
        PathSet { has_root: paths.iter().any(RelPath::is_root), paths: sorted }
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.has_root
    }

    fn contains(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|other| other.as_bytes().cmp(path)).is_ok()
    }

    /// True if the set has this path or a directory above it.
    fn covers(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        self.has_root
            || (!self.paths.is_empty()
                && (self.contains(path) || ends.into_iter().any(|end| self.contains(&path[..end]))))
    }

    /// True if the set has a path below this path.
    fn has_any_below(&self, path: &[u8]) -> bool {
        if self.paths.is_empty() {
            return false;
        }
        let below = [path, b"/"].concat();
        let at = self.paths.partition_point(|other| other.as_bytes() < &below[..]);
        self.paths.get(at).is_some_and(|other| is_within(other.as_bytes(), path))
    }
}

/// The decision about a file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// A file is captured, unless it is larger than its class allows.
    Capture(FileClass),
    /// A directory is entered. The cause says whether and why the rules exclude the directory.
    Enter(Reach, Cause),
    /// A file or directory is left out and reported as uncovered.
    Leave(Cause),
    /// A directory that the caller asks for is left out, because it can be regenerated.
    LeaveRemade,
    /// A file or directory is left out without a report: git's own data, a path inside a directory
    /// that is itself reported, or any other file if the workspace is a single file.
    Pass,
}

impl Coverage {
    pub(crate) fn new(
        options: &CaptureOptions<'_>,
        context: &CaptureContext<'_>,
        index: Option<PathBuf>,
    ) -> Coverage {
        // A call that names the whole workspace does not say which files it changes, so the root is
        // not treated as named.
        let named: Vec<RelPath> =
            options.named.iter().filter(|path| !path.is_root()).cloned().collect();
        Coverage {
            rules: options.rules.clone(),
            matcher: Matcher::new(options.rules),
            max_files: context.in_the_way.map_or(options.rules.max_files, |_| u64::MAX),
            in_the_way: PathSet::new(context.in_the_way.unwrap_or_default()),
            named: PathSet::new(&named),
            swept: PathSet::new(options.swept),
            own: context.own.clone(),
            only: context.only.map(<[u8]>::to_vec),
            index,
            tracked: OnceLock::new(),
        }
    }

    /// True if the caller asks for some paths to be captured regardless of the rules.
    pub(crate) fn has_requests(&self) -> bool {
        self.sets().iter().any(|(_, set)| !set.is_empty())
    }

    fn sets(&self) -> [(Request, &PathSet); 3] {
        let (in_the_way, named, swept) = (&self.in_the_way, &self.named, &self.swept);
        [(Request::InTheWay, in_the_way), (Request::Named, named), (Request::Swept, swept)]
    }

    /// Returns the strongest request that covers a path.
    pub(crate) fn request(&self, path: &[u8]) -> Option<Request> {
        let mut sets = self.sets().into_iter();
        sets.find(|(_, set)| set.covers(path)).map(|(request, _)| request)
    }

    /// True if the caller asks for a path below this path.
    pub(crate) fn has_requests_below(&self, path: &[u8]) -> bool {
        self.sets().iter().any(|(_, set)| set.has_any_below(path))
    }

    /// True if the caller asks for exactly this path.
    fn is_asked_for_itself(&self, path: &[u8]) -> bool {
        self.in_the_way.contains(path) || self.named.contains(path)
    }

    /// True if this capture had to decide about paths without knowing everything that git tracks.
    pub(crate) fn lacks_tracked_paths(&self) -> bool {
        self.tracked.get().is_some_and(|tracked| tracked.is_incomplete)
    }

    /// Returns the paths that git tracks in the workspace. They are read on first use.
    pub(crate) fn tracked(&self) -> &TrackedPaths {
        self.tracked
            .get_or_init(|| self.index.as_deref().map(TrackedPaths::read).unwrap_or_default())
    }

    /// Decides what to do with `path`, whose directory has this reach and scope.
    pub(crate) fn decide(
        &self,
        reach: Reach,
        scope: &Arc<Scope>,
        path: &[u8],
        stat: &Stat,
    ) -> Decision {
        let is_directory = stat.is_directory();
        if is_git_name(split(path).1) {
            return Decision::Pass;
        }
        if let Some(only) = &self.only {
            let is_it = path == only && (stat.is_file() || stat.is_symlink());
            let is_large = stat.size > self.size_limit(FileClass::Plain, path);
            let class = if is_large { FileClass::Named } else { FileClass::Plain };
            return if is_it { Decision::Capture(class) } else { Decision::Pass };
        }
        if self.own.as_ref().is_some_and(|own| own.as_bytes() == path) {
            return Decision::Leave(Cause::Excluded);
        }
        if !is_directory && !stat.is_file() && !stat.is_symlink() {
            return if reach == Reach::Partial && !self.is_asked_for_itself(path) {
                Decision::Pass
            } else {
                Decision::Leave(Cause::Special)
            };
        }
        let verdict = match (reach, self.matcher.judge(scope, path, is_directory)) {
            (Reach::Normal, verdict) => verdict,
            (Reach::Included, _) | (_, Verdict::Include) => Verdict::Include,
            (Reach::Named, _) => Verdict::Ignore,
            (Reach::Partial, _) => Verdict::Exclude,
        };
        if is_directory {
            self.decide_directory(reach, path, verdict)
        } else {
            self.decide_file(reach, path, verdict, stat)
        }
    }

    fn decide_directory(&self, reach: Reach, path: &[u8], verdict: Verdict) -> Decision {
        let mut cause = match verdict {
            Verdict::Capture => return Decision::Enter(Reach::Normal, Cause::None),
            Verdict::Include => return Decision::Enter(Reach::Included, Cause::None),
            Verdict::Ignore => Cause::Ignored,
            Verdict::Exclude => Cause::Excluded,
        };
        let request = self.request(path);
        if request.is_some_and(|request| !can_be_made_again(request, reach, path)) {
            return Decision::Enter(Reach::Named, cause);
        }
        if request.is_some() {
            cause = Cause::Excluded;
        }
        let leads_somewhere = self.has_requests_below(path)
            || self.matcher.has_include_under(path)
            || self.tracked().has_any_under(path);
        match (leads_somewhere, reach) {
            (true, _) => Decision::Enter(Reach::Partial, cause),
            (false, Reach::Partial) => Decision::Pass,
            (false, _) if request.is_some() => Decision::LeaveRemade,
            (false, _) => Decision::Leave(cause),
        }
    }

    fn decide_file(&self, reach: Reach, path: &[u8], verdict: Verdict, stat: &Stat) -> Decision {
        let is_left_out = matches!(verdict, Verdict::Ignore | Verdict::Exclude);
        let is_tracked = || self.tracked().contains(path);
        // A requested directory has partial reach only if it can be regenerated. In such a
        // directory, a file is requested only if the request gives the path of the file itself.
        let is_requested = match reach {
            Reach::Partial => self.is_asked_for_itself(path),
            _ => self.has_requests() && self.request(path).is_some(),
        };
        // Secrets that the user excludes are left out even if a tool call names them.
        let is_skipped = self.rules.skip_private
            && (verdict == Verdict::Ignore || (is_left_out && is_requested))
            && self.matcher.is_private(path);
        if is_skipped && !is_tracked() {
            return Decision::Leave(Cause::Private);
        }
        let class = match verdict {
            Verdict::Capture | Verdict::Include => Some(FileClass::Plain),
            _ if is_tracked() => Some(FileClass::Tracked),
            Verdict::Ignore if reach != Reach::Named => Some(FileClass::Guarded),
            _ => None,
        };
        match class {
            Some(class) if !is_requested => Decision::Capture(class),
            Some(class) if stat.is_symlink() || stat.size <= self.size_limit(class, path) => {
                Decision::Capture(class)
            }
            // The file is too large for its class, but git tracks it. If the class is plain, the
            // scan applies the limit for tracked files.
            Some(class) if is_tracked() => Decision::Capture(class),
            _ if is_requested => Decision::Capture(FileClass::Named),
            _ if reach == Reach::Partial => Decision::Pass,
            _ => Decision::Leave(Cause::Excluded),
        }
    }

    /// True if the workspace is a single file. In that case, no other file is captured.
    pub(crate) fn is_single_file(&self) -> bool {
        self.only.is_some()
    }

    /// True if the budget for named paths applies to a file of this class.
    pub(crate) fn is_budgeted(&self, class: FileClass, path: &[u8]) -> bool {
        class == FileClass::Named && self.request(path) != Some(Request::InTheWay)
    }

    /// Returns the maximum size of a captured file of this class.
    pub(crate) fn size_limit(&self, class: FileClass, path: &[u8]) -> u64 {
        let limit = match class {
            FileClass::Plain => self.rules.max_file_size,
            // To determine which files are guarded, a restore needs every `.gitignore`, even an
            // ignored one.
            FileClass::Guarded if split(path).1 == b".gitignore" => self.rules.max_file_size,
            FileClass::Guarded => self.rules.max_guarded_size,
            FileClass::Tracked | FileClass::Named => MAX_OBJECT,
        };
        limit.min(MAX_OBJECT)
    }
}

/// True if a requested directory can be regenerated, or is inside one that can be.
fn can_be_made_again(request: Request, reach: Reach, path: &[u8]) -> bool {
    let is_swept = request == Request::Swept;
    match (request, reach) {
        (Request::InTheWay, _) => false,
        (_, Reach::Partial) => {
            path.split(|byte| *byte == b'/').any(|name| rules::can_be_made_again(name, is_swept))
        }
        _ => rules::can_be_made_again(split(path).1, is_swept),
    }
}
