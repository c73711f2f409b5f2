//! The programs that only read, each with the rule for its arguments.

use super::argument_rules::{ArgumentRule as Rule, NOTHING, OPERANDS, only};
use super::{awk, curl, find, git, sed, tar};
use crate::shell::syntax::Arg;

/// The directories in which a program's name can be trusted.
#[rustfmt::skip]
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/",
];

/// Programs whose purpose is to change files. Unknown programs are also treated as changing files,
/// but for these programs the user gets a clearer reason.
#[rustfmt::skip]
const CHANGES_FILES: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mkfifo", "mknod", "mktemp",
    "mv", "patch", "rename", "rm", "rmdir", "rsync", "shred", "split", "tee", "touch", "truncate",
    "unlink", "unzip", "wget", "zip",
];

/// Returns the name of a program without its directory.
pub(in crate::shell) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns true if the program is given by its bare name, or by a path in a system directory.
pub(in crate::shell) fn is_in_usual_place(name: &str) -> bool {
    let base = base_name(name);
    base == name || SYSTEM_DIRECTORIES.iter().any(|dir| name.strip_prefix(dir) == Some(base))
}

/// Explains why a command may change something. Returns `None` if it only reads.
pub(in crate::shell) fn why_may_change(name: &str, args: &[Arg]) -> Option<String> {
    let base = base_name(name);
    if !is_in_usual_place(name) {
        return Some(format!("`{name}` is not known to be read-only"));
    }
    let asks_version = HAS_VERSION.contains(&base) && is_version_request(base, args);
    match find_rule(base) {
        Some(rule) if asks_version || rule.allows(args) => None,
        None if asks_version => None,
        None if CHANGES_FILES.contains(&base) => Some(format!("`{base}` changes files")),
        None => Some(format!("`{base}` is not known to be read-only")),
        Some(Rule::Verbs(..)) => Some(reason_with_verb(base, args)),
        Some(_) if base == "git" => Some(reason_with_verb(base, args)),
        Some(_) => Some(format!("`{base}` with these arguments may change something")),
    }
}

fn reason_with_verb(base: &str, args: &[Arg]) -> String {
    let at = git::BEFORE_VERB.count_before_operand(args);
    match at.and_then(|at| args.get(at)).and_then(Arg::known) {
        Some(verb) => format!("`{base} {verb}` may change something"),
        None => format!("`{base}` with these arguments may change something"),
    }
}

fn find_rule(base: &str) -> Option<&'static Rule> {
    if ALWAYS_READ_ONLY.contains(&base) {
        return Some(&Rule::Any);
    }
    RULES.iter().find(|(name, _)| *name == base).map(|(_, rule)| rule)
}

/// Returns true if the sole argument asks for the version. Short options such as `-V` are accepted
/// only for programs in which they have this meaning.
fn is_version_request(base: &str, args: &[Arg]) -> bool {
    let [Arg::Known(arg)] = args else { return false };
    match arg.as_str() {
        "--version" => true,
        "-V" => {
            matches!(base, "cargo" | "curl" | "psql" | "mysql" | "python" | "python3" | "rustc")
        }
        "-v" => matches!(base, "node" | "npm"),
        "-version" => base == "java",
        _ => false,
    }
}

/// Programs that have no options to write a file or run another program.
#[rustfmt::skip]
const ALWAYS_READ_ONLY: &[&str] = &[
    ":", "arch", "b2sum", "basename", "break", "cat", "cd", "cksum", "clear", "cmp", "column",
    "comm", "continue", "cut", "df", "diff", "dig", "dirname", "dirs", "du", "echo", "egrep", "exa",
    "exit", "expand", "expr", "eza", "factor", "false", "fgrep", "fmt", "fold", "free", "getconf",
    "getent", "getfacl", "grep", "groups", "head", "hexdump", "host", "id", "join", "jq",
    "locale", "locate", "look", "ls", "lsattr", "lsb_release", "lsblk", "lscpu", "lsd", "lsmod",
    "lspci", "lsusb", "md5", "md5sum", "namei", "nl", "nproc", "nslookup", "numfmt", "od", "paste",
    "pgrep", "pidof", "ping", "popd", "printenv", "ps", "pstree", "pushd", "pwd", "readelf",
    "readlink", "realpath", "return", "rev", "seq", "sha1sum", "sha224sum", "sha256sum",
    "sha384sum", "sha512sum", "shasum", "shift", "sleep", "stat", "strings", "sum", "sw_vers",
    "tac", "tail", "times", "tr", "traceroute", "true", "tsort", "tty", "type", "uname",
    "unexpand", "uptime", "users", "vmstat", "w", "wait", "wc", "whereis", "which", "who",
    "whoami", "yes", "zipinfo",
];

/// Programs that do nothing but print their version when asked for it.
#[rustfmt::skip]
const HAS_VERSION: &[&str] = &[
    "ansible", "aws", "bash", "bun", "bundle", "cargo", "clang", "cmake", "curl", "deno", "docker",
    "dotnet", "g++", "gcc", "gem", "gh", "go", "helm", "java", "javac", "kubectl", "make", "mypy",
    "mysql", "node", "npm", "npx", "perl", "php", "pip", "pip3", "poetry", "psql", "python",
    "python3", "ruby", "ruff", "rustc", "rustfmt", "rustup", "sqlite3", "tar", "terraform", "tsc",
    "uv",
];

/// Programs with options that could write a file or run a program. The rules do not allow those
/// options.
#[rustfmt::skip]
const RULES: &[(&str, Rule)] = &[
    ("ag", Rule::Only(only("#ilLnSsvwcgQarUtuzA:B:C:G:m:", "ignore= nocolor color hidden depth= \
        stats literal"))),
    ("apt-cache", Rule::Verbs(only("", ""), &[("policy", OPERANDS), ("search", OPERANDS),
        ("show", OPERANDS), ("depends", OPERANDS), ("rdepends", OPERANDS)])),
    ("awk", Rule::Check(awk::is_read_only)),
    ("base64", Rule::Only(only("dw:i", "decode wrap= ignore-garbage"))),
    ("bat", Rule::Only(only("npAl:r:", "plain number style= language= line-range= color= \
        decorations="))),
    ("cal", Rule::Any),
    ("cargo", Rule::Verbs(only("", ""), &[("version", NOTHING), 
        ("locate-project", Rule::Only(only("", "workspace message-format=")))])),
    ("crontab", Rule::Only(only("l", "").max_operands(0).requires("l"))),
    ("curl", Rule::Check(curl::is_read_only)),
    ("date", DATE),
    ("dmesg", Rule::Only(only("TtHLxkuwl:", "ctime human level= color? nopager"))),
    ("docker", Rule::Verbs(only("H:", "context= host="), DOCKER)),
    ("dpkg", Rule::Only(only("lLsS", "list listfiles status search").requires("l L s S list \
        listfiles status search"))),
    ("fd", FD),
    ("fdfind", FD),
    ("file", Rule::Only(only("bihkLNprsv0E", "brief mime mime-type mime-encoding dereference \
        no-dereference version keep-going separator= extension apple no-pad print0"))),
    ("find", Rule::Check(find::is_read_only)),
    ("gawk", Rule::Check(awk::is_read_only)),
    ("gh", Rule::Verbs(only("R:", "repo="), GH)),
    ("git", git::GIT),
    ("go", Rule::Verbs(only("", ""), &[("version", OPERANDS), ("env", Rule::Only(only("",
        "").max_operands(usize::MAX)))])),
    ("gunzip", UNPACK),
    ("gzip", UNPACK),
    ("hostname", Rule::Only(only("fsidIA", "fqdn short all-fqdns ip-address").max_operands(0))),
    ("iconv", Rule::Only(only("f:t:lcs", "from-code= to-code= list silent"))),
    ("jobs", Rule::Only(only("lpnrs", ""))),
    ("journalctl", Rule::Only(only("u:n:fexbkp:S:U:rqo:at:", "unit= lines= follow no-pager since= \
        until= output= priority= boot? reverse no-tail all quiet dmesg user system list-boots"))),
    ("kubectl", Rule::Verbs(only("n:", "namespace= context="), KUBECTL)),
    ("lsof", Rule::Only(only("np:Pti?u:c:aU", ""))),
    ("mawk", Rule::Check(awk::is_read_only)),
    ("mount", NOTHING),
    ("netstat", Rule::Only(only("antulprsieogv", "listening numeric tcp udp all programs"))),
    ("npm", Rule::Verbs(only("g", "global"), &[("ls", NPM_LIST), ("list", NPM_LIST), ("view",
        NPM_LIST), ("info", NPM_LIST), ("root", NPM_LIST), ("prefix", NPM_LIST), ("outdated",
        NPM_LIST)])),
    ("pip", PIP),
    ("pip3", PIP),
    ("podman", Rule::Verbs(only("", ""), DOCKER)),
    ("rg", Rule::Only(only("#.ivnNlcowFPSsxzULHIaqupg:e:t:T:A:B:C:m:M:j:d:f:r:", "ignore-case \
        smart-case case-sensitive invert-match line-number no-line-number files \
        files-with-matches files-without-match count count-matches only-matching word-regexp \
        line-regexp fixed-strings pcre2 glob= iglob= type= type-not= after-context= \
        before-context= context= max-count= max-columns= max-depth= hidden no-ignore \
        no-ignore-vcs no-ignore-parent follow with-filename no-filename heading no-heading color= \
        colors= column json stats sort= sortr= multiline multiline-dotall text quiet null regexp= \
        file= unrestricted trim vimgrep replace= passthru type-list version debug threads= \
        no-messages no-config pretty null-data crlf encoding= max-filesize= one-file-system \
        search-zip only-matching max-columns-preview include-zero"))),
    ("sed", Rule::Check(sed::is_read_only)),
    ("shellcheck", Rule::Any),
    ("sort", Rule::Only(only("bdfgiMhnRrVcCmsuzk:t:S:", "ignore-leading-blanks dictionary-order \
        ignore-case general-numeric-sort ignore-nonprinting month-sort human-numeric-sort \
        numeric-sort random-sort reverse version-sort sort= check? merge key= stable unique \
        zero-terminated field-separator= parallel= debug buffer-size="))),
    ("ss", Rule::Only(only("antulpsmieorx46H", "all numeric tcp udp listening processes summary"))),
    ("systemctl", Rule::Verbs(only("lan:t:", "user no-pager all full type= state= plain \
        no-legend"), &[("status", SYSTEMCTL), ("is-active", SYSTEMCTL), ("is-enabled",
        SYSTEMCTL), ("is-failed", SYSTEMCTL), ("list-units", SYSTEMCTL), ("list-unit-files",
        SYSTEMCTL), ("list-timers", SYSTEMCTL), ("show", SYSTEMCTL), ("cat", SYSTEMCTL)])),
    ("tar", Rule::Check(tar::is_read_only)),
    ("tree", Rule::Only(only("adlfiqNQpugshDFrtCnJXxL:P:I:", "noreport dirsfirst gitignore prune \
        sort= charset= du matchdirs filelimit= si inodes device"))),
    ("uniq", Rule::Only(only("cdDuizf:s:w:", "count repeated all-repeated? unique ignore-case \
        skip-fields= skip-chars= check-chars= group? zero-terminated").max_operands(1))),
    ("unzip", Rule::Only(only("lvtpZ1qz", "").requires("l v t p Z"))),
    ("xxd", Rule::Only(only("abCdeEipuc:g:l:s:n:o:", "").max_operands(1))),
    ("xz", UNPACK),
    ("xzcat", OPERANDS),
    ("yq", Rule::Only(only("rPMCNejo:p:I:", "raw-output prettyPrint unwrapScalar= output-format= \
        input-format= no-colors exit-status null-input"))),
    ("zcat", OPERANDS),
    ("zgrep", Rule::Only(only("#inlcvwEFhHoqA:B:C:", ""))),
    ("zstd", UNPACK),
    ("zstdcat", OPERANDS),
];

/// Allows only formats as operands, because any other operand sets the clock.
const DATE: Rule = Rule::Check(|args| {
    let now = only("uRI?", "utc universal rfc-email iso-8601? rfc-3339=");
    let then = only("ud:r:I?", "date= reference= utc").requires("d r date reference");
    let format = |arg: &Arg| arg.known().is_some_and(|text| text.starts_with(['-', '+']));
    Rule::Only(now).allows(args) && args.iter().all(format) || Rule::Only(then).allows(args)
});

const FD: Rule = Rule::Only(only(
    "#HIsiFpaLlguut:e:d:E:S:0q1cj:",
    "hidden no-ignore case-sensitive ignore-case glob fixed-strings full-path absolute-path follow \
     list-details type= extension= max-depth= min-depth= exact-depth= exclude= size= \
     changed-within= changed-before= max-results= print0 color= threads= quiet unrestricted \
     no-ignore-vcs owner= and= regex prune version",
));

/// Allows listing, testing, and unpacking to standard output.
const UNPACK: Rule = Rule::Check(|args| {
    let to_stdout = only("cdvqfk0123456789", "stdout to-stdout decompress");
    let looks = only("ltvq", "list test verbose quiet");
    Rule::Only(to_stdout.requires("c stdout to-stdout")).allows(args)
        || Rule::Only(looks.requires("l t list test")).allows(args)
});

const SYSTEMCTL: Rule = Rule::Only(only(
    "ln:p:t:ao:",
    "no-pager user all full lines= property= type= state= plain no-legend value output=",
));

const NPM_LIST: Rule = Rule::Only(only("galp", "depth= json all global long parseable prod omit="));

const PIP: Rule = Rule::Verbs(
    only("", ""),
    &[
        ("list", Rule::Only(only("", "outdated format= user local not-required"))),
        ("show", Rule::Only(only("fv", "files verbose"))),
        ("freeze", Rule::Only(only("", "all local user"))),
    ],
);

#[rustfmt::skip]
const DOCKER: &[(&str, Rule)] = &[
    ("ps", Rule::Any),
    ("images", Rule::Any),
    ("inspect", Rule::Any),
    ("logs", Rule::Any),
    ("version", Rule::Any),
    ("info", Rule::Any),
    ("top", Rule::Any),
    ("port", Rule::Any),
    ("diff", Rule::Any),
    ("history", Rule::Any),
    ("stats", Rule::Any),
    ("container", Rule::Verbs(only("", ""), DOCKER_LIST)),
    ("image", Rule::Verbs(only("", ""), DOCKER_LIST)),
    ("network", Rule::Verbs(only("", ""), DOCKER_LIST)),
    ("volume", Rule::Verbs(only("", ""), DOCKER_LIST)),
    ("system", Rule::Verbs(only("", ""), &[("df", Rule::Any), ("info", Rule::Any)])),
    ("compose", Rule::Verbs(only("f:p:", "file= project-name= profile="), &[("ps", Rule::Any),
        ("logs", Rule::Any), ("ls", Rule::Any), ("images", Rule::Any), ("top", Rule::Any),
        ("version", Rule::Any)])),
];

#[rustfmt::skip]
const DOCKER_LIST: &[(&str, Rule)] = &[
    ("ls", Rule::Any), ("list", Rule::Any), ("inspect", Rule::Any), ("logs", Rule::Any),
    ("history", Rule::Any),
];

const KUBECTL_READ: Rule = Rule::Only(only(
    "n:Ao:l:wfc:pL:",
    "all-namespaces namespace= output= selector= watch show-labels context= field-selector= \
     sort-by= no-headers follow container= previous tail= since= timestamps all-containers? \
     prefix recursive api-group= namespaced? label-columns= client short show-events?",
));

#[rustfmt::skip]
const KUBECTL: &[(&str, Rule)] = &[
    ("get", KUBECTL_READ),
    ("describe", KUBECTL_READ),
    ("logs", KUBECTL_READ),
    ("version", KUBECTL_READ),
    ("explain", KUBECTL_READ),
    ("api-resources", KUBECTL_READ),
    ("api-versions", KUBECTL_READ),
    ("top", KUBECTL_READ),
    ("cluster-info", NOTHING),
    ("config", Rule::Verbs(only("", ""), &[("view", NOTHING), ("get-contexts", OPERANDS),
        ("current-context", NOTHING)])),
];

const GH_READ: Rule = Rule::Only(only(
    "R:L:s:S:l:a:A:q:t:j:c",
    "json= jq= template= repo= limit= state= search= label= assignee= author= comments name-only \
     patch color= log log-failed job= attempt= verbose branch= workflow= status= user= event= \
     base= head= required exit-status",
));

#[rustfmt::skip]
const GH_SHOW: &[(&str, Rule)] = &[
    ("view", GH_READ),
    ("list", GH_READ),
    ("status", GH_READ),
    ("diff", GH_READ),
    ("checks", GH_READ),
];

#[rustfmt::skip]
const GH: &[(&str, Rule)] = &[
    ("pr", Rule::Verbs(only("R:", "repo="), GH_SHOW)),
    ("issue", Rule::Verbs(only("R:", "repo="), GH_SHOW)),
    ("run", Rule::Verbs(only("R:", "repo="), GH_SHOW)),
    ("release", Rule::Verbs(only("R:", "repo="), GH_SHOW)),
    ("repo", Rule::Verbs(only("", ""), &[("view", GH_READ), ("list", GH_READ)])),
    ("workflow", Rule::Verbs(only("", ""), &[("list", GH_READ), ("view", GH_READ)])),
    ("auth", Rule::Verbs(only("", ""), &[("status", OPERANDS)])),
    ("api", Rule::Only(only("q:H:it:", "jq= paginate header= hostname= include template= \
        slurp").max_operands(1))),
    ("search", Rule::Verbs(only("", ""), &[("code", GH_READ), ("issues", GH_READ), ("prs",
        GH_READ), ("repos", GH_READ), ("commits", GH_READ)])),
    ("status", OPERANDS),
];
