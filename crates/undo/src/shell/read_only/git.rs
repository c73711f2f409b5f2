//! The arguments that keep git read-only.
//!
//! Options that name a file to write to or a program to run are not allowed, and neither are
//! options that could have the same effect through git's configuration: `-c`, `--ext-diff`,
//! `--exec-path=…`.

use super::argument_rules::{AllowedOptions, ArgumentRule as Rule, OPERANDS, only};
use crate::shell::syntax::Arg;

/// The options before the verb.
pub(super) const BEFORE_VERB: AllowedOptions = only(
    "C:pP",
    "no-pager paginate git-dir= work-tree= namespace= bare no-optional-locks literal-pathspecs \
     no-replace-objects glob-pathspecs noglob-pathspecs icase-pathspecs no-lazy-fetch",
);

/// The rule for git as a whole. Without a verb, it allows only `--version` and similar options.
pub(super) const GIT: Rule = Rule::Check(|args| {
    Rule::Verbs(BEFORE_VERB, VERBS).allows(args)
        || Rule::Only(
            only("hv", "version help exec-path html-path man-path info-path").max_operands(0),
        )
        .allows(args)
});

const LOG: Rule = Rule::Only(only(
    "#pusU:zwWbB?M?C?DRaitn:l:S:G:O:L:gmcrEFPqh",
    "oneline graph all stat? shortstat numstat dirstat? summary name-only name-status patch no-patch \
     raw unified= patch-with-stat patch-with-raw minimal patience histogram diff-algorithm= \
     color? no-color color-words? word-diff? word-diff-regex= color-moved? no-renames find-renames? \
     find-copies? find-copies-harder diff-filter= pickaxe-regex pickaxe-all relative? text \
     ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines \
     ignore-matching-lines= inter-hunk-context= function-context exit-code quiet no-ext-diff \
     no-textconv ignore-submodules? submodule? src-prefix= dst-prefix= no-prefix \
     default-prefix line-prefix= full-index binary abbrev? no-abbrev no-abbrev-commit cached staged \
     merge-base no-index check cc combined-all-paths base ours theirs \
     pretty? format= decorate? no-decorate decorate-refs= date= relative-date reverse follow \
     max-count= skip= since= after= until= before= author= committer= grep= grep-reflog= \
     all-match invert-grep regexp-ignore-case basic-regexp extended-regexp fixed-strings \
     perl-regexp merges no-merges first-parent branches? tags? remotes? glob= exclude= reflog \
     walk-reflogs boundary left-right cherry-pick cherry-mark cherry left-only right-only \
     simplify-by-decoration full-history simplify-merges dense sparse ancestry-path topo-order \
     date-order author-date-order no-walk? objects source use-mailmap mailmap no-mailmap notes? \
     no-notes root show-pulls abbrev-commit parents children count stdin not \
     remove-empty z null encoding= expand-tabs? no-expand-tabs break-rewrites? compact-summary \
     indent-heuristic no-indent-heuristic ws-error-highlight= rotate-to= skip-to= max-parents= \
     min-parents= clear-decorations remerge-diff diff-merges= no-diff-merges log-size tree",
));

const LIST_BRANCHES: Rule = Rule::Check(|args| {
    let options = only(
        "arvil",
        "all remotes verbose list show-current contains* no-contains* merged* no-merged* sort= \
         points-at= format= color? no-color column? no-column ignore-case abbrev? no-abbrev",
    );
    Rule::Only(options.max_operands(0)).allows(args)
        || Rule::Only(options.requires("list")).allows(args) && !has_short(args, 'l')
});

const LIST_TAGS: Rule = Rule::Check(|args| {
    let options = only(
        "n?il",
        "list contains* no-contains* merged* no-merged* sort= points-at= format= color? column? \
         no-column ignore-case",
    );
    Rule::Only(options.max_operands(0)).allows(args)
        || Rule::Only(options.requires("l list")).allows(args)
});

const CONFIG_READ: AllowedOptions = only(
    "lz",
    "list get get-all get-regexp get-urlmatch get-color= name-only show-origin show-scope global \
     local system worktree null file= blob= type= includes no-includes all default= bool int path",
);

const CONFIG_VERBS: Rule = Rule::Verbs(
    only("", ""),
    &[("list", Rule::Only(CONFIG_READ)), ("get", Rule::Only(CONFIG_READ))],
);

/// Allows `--get`, `--list` and similar options, or just the name of a setting.
const CONFIG: Rule = Rule::Check(|args| {
    let asked = Rule::Only(CONFIG_READ.requires("l list get get-all get-regexp get-urlmatch"));
    let one = Rule::Only(CONFIG_READ.max_operands(1));
    let dotted = |arg: &Arg| arg.known().is_some_and(|text| text.contains('.'));
    asked.allows(args)
        || CONFIG_VERBS.allows(args)
        || (one.allows(args) && args.last().is_some_and(dotted))
});

const REMOTE_VERBS: Rule = Rule::Verbs(
    only("v", "verbose"),
    &[("show", Rule::Only(only("n", ""))), ("get-url", Rule::Only(only("", "all push")))],
);

const REMOTE: Rule = Rule::Check(|args| {
    Rule::Only(only("v", "verbose").max_operands(0)).allows(args) || REMOTE_VERBS.allows(args)
});

const REFLOG: Rule = Rule::Check(|args| match args.first().and_then(Arg::known) {
    Some("expire" | "delete" | "drop" | "write") => false,
    Some("show" | "list" | "exists") => LOG.allows(&args[1..]),
    _ => LOG.allows(args),
});

/// Allows only the usual transports, because other transports run programs.
const LS_REMOTE: Rule = Rule::Check(|args| {
    let options = only("htq", "heads branches tags refs get-url symref sort= exit-code quiet");
    let plain = |arg: &Arg| arg.known().is_some_and(|text| !text.contains("::"));
    Rule::Only(options).allows(args) && args.iter().all(plain)
});

fn has_short(args: &[Arg], letter: char) -> bool {
    let bundle = |text: &str| text.starts_with('-') && !text.starts_with("--");
    args.iter().filter_map(Arg::known).any(|text| bundle(text) && text.contains(letter))
}

const LIST_REFS: AllowedOptions = only(
    "dsq",
    "count= sort= format= points-at= merged= no-merged= contains= no-contains= ignore-case shell \
     perl python color? omit-empty heads head branches tags dereference hash? verify abbrev? quiet \
     exclude-existing? exists exclude= stdin",
);

#[rustfmt::skip]
const VERBS: &[(&str, Rule)] = &[
    ("annotate", BLAME),
    ("apply", Rule::Only(only("p:", "stat numstat summary check cached index reverse directory= \
        include= exclude=").requires("stat numstat summary check"))),
    ("bisect", Rule::Verbs(only("", ""), &[("log", Rule::Any)])),
    ("blame", BLAME),
    ("branch", LIST_BRANCHES),
    ("cat-file", Rule::Only(only("tspe", "batch? batch-check? batch-command? batch-all-objects \
        buffer unordered follow-symlinks allow-unknown-type"))),
    ("check-attr", Rule::Any),
    ("check-ignore", Rule::Any),
    ("check-mailmap", Rule::Any),
    ("check-ref-format", Rule::Any),
    ("cherry", Rule::Only(only("v", "verbose abbrev?"))),
    ("config", CONFIG),
    ("count-objects", Rule::Any),
    ("describe", Rule::Only(only("", "all tags contains abbrev= candidates= exact-match debug \
        long match= exclude= always first-parent dirty? broken?"))),
    ("diff", LOG),
    ("diff-files", LOG),
    ("diff-index", LOG),
    ("diff-tree", LOG),
    ("for-each-ref", Rule::Only(LIST_REFS)),
    ("fsck", Rule::Only(only("v", "full strict unreachable dangling no-dangling root tags cache \
        no-reflogs verbose progress no-progress connectivity-only name-objects"))),
    ("grep", Rule::Only(only("#nilLcvwEFGPhHIaozqpWre:f:A:B:C:m:", "cached untracked no-index \
        line-number ignore-case files-with-matches files-without-match name-only count \
        invert-match word-regexp extended-regexp basic-regexp fixed-strings perl-regexp text and \
        or not all-match show-function function-context heading break color? no-color context= \
        after-context= before-context= recurse-submodules max-depth= max-count= column \
        only-matching quiet null threads= full-name exclude-standard no-exclude-standard"))),
    ("hash-object", Rule::Only(only("t:", "stdin stdin-paths path= no-filters literally"))),
    ("help", Rule::Only(only("ag", "all guides config").max_operands(0))),
    ("log", LOG),
    ("ls-files", Rule::Only(only("cdmoikustvfzx:X:", "cached deleted modified others ignored \
        stage unmerged killed directory no-empty-directory exclude= exclude-from= \
        exclude-per-directory= exclude-standard error-unmatch with-tree= full-name \
        recurse-submodules abbrev? debug eol deduplicate format= resolve-undo"))),
    ("ls-remote", LS_REMOTE),
    ("ls-tree", Rule::Only(only("drtlz", "long name-only name-status object-only full-name \
        full-tree abbrev? format="))),
    ("merge-base", Rule::Only(only("a", "all octopus independent is-ancestor fork-point"))),
    ("name-rev", Rule::Only(only("", "tags refs= exclude= all stdin annotate-stdin name-only \
        no-undefined always"))),
    ("notes", Rule::Verbs(only("", "ref="), &[("list", OPERANDS), ("show", OPERANDS)])),
    ("range-diff", LOG),
    ("reflog", REFLOG),
    ("remote", REMOTE),
    ("rev-list", LOG),
    ("rev-parse", Rule::Any),
    ("shortlog", Rule::Only(only("nsec#", "numbered summary email group= committer all since= \
        until= after= before= author= no-merges merges format=").max_operands(usize::MAX))),
    ("show", LOG),
    ("show-branch", Rule::Only(only("ar", "all remotes current topo-order date-order sparse more= \
        list merge-base independent no-name sha1-name topics color? no-color"))),
    ("show-ref", Rule::Only(LIST_REFS)),
    ("stash", Rule::Verbs(only("", ""), &[("list", LOG), ("show", LOG)])),
    ("status", Rule::Only(only("sbvzu?", "short branch show-stash porcelain? long verbose \
        untracked-files? ignore-submodules? ignored? column? no-column ahead-behind \
        no-ahead-behind renames no-renames find-renames? null"))),
    ("submodule", Rule::Verbs(only("", ""), &[("status", Rule::Only(only("", "recursive \
        cached")))])),
    ("symbolic-ref", Rule::Only(only("q", "short quiet recurse no-recurse").max_operands(1))),
    ("tag", LIST_TAGS),
    ("var", OPERANDS),
    ("version", Rule::Only(only("", "build-options"))),
    ("whatchanged", LOG),
    ("worktree", Rule::Verbs(only("", ""), &[("list", Rule::Only(only("vz", "porcelain verbose \
        expire=")))])),
];

const BLAME: Rule = Rule::Only(only(
    "L:lftnswebcpM?C?",
    "root show-stats reverse= first-parent porcelain line-porcelain incremental encoding= \
     contents= date= since= color-lines color-by-age minimal ignore-rev= ignore-revs-file= \
     show-name show-number show-email progress no-progress abbrev=",
));
