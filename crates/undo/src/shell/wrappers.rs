//! Programs that run another command, which they get as their arguments.

use super::options::{Options, only};
use super::parse::Dialect;
use super::programs::base_name;
use super::syntax::Arg;

/// What a command runs besides itself.
pub(super) enum Inner {
    /// Another command. If it is not `exact`, the outer command may do more than run it.
    Command { args: Vec<Arg>, exact: bool },
    /// A script.
    Script { text: String, dialect: Dialect, exact: bool },
}

/// A program with options, perhaps assignments, and then a command.
struct Wrapper {
    name: &'static str,
    options: Options,
    /// How many operands come before the command.
    operands: usize,
    assignments: bool,
    /// Whether it does nothing but run the command.
    exact: bool,
}

const fn wrapper(name: &'static str, short: &'static str, long: &'static str) -> Wrapper {
    Wrapper { name, options: only(short, long), operands: 0, assignments: false, exact: true }
}

impl Wrapper {
    const fn inexact(self) -> Wrapper {
        Wrapper { exact: false, ..self }
    }

    const fn after(self, operands: usize) -> Wrapper {
        Wrapper { operands, ..self }
    }

    const fn with_assignments(self) -> Wrapper {
        Wrapper { assignments: true, ..self }
    }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", ""),
    wrapper("bunx", "", "bun").inexact(),
    wrapper("busybox", "", "").inexact(),
    wrapper("caffeinate", "dimsu", ""),
    wrapper("chronic", "", ""),
    wrapper("chroot", "", "userspec=").after(1).inexact(),
    wrapper("command", "p", ""),
    wrapper("doas", "nu:", ""),
    wrapper("env", "i0vu:C:", "ignore-environment unset= chdir= null debug").with_assignments(),
    wrapper("exec", "cl", ""),
    wrapper("flock", "nsxw:", "").after(1).inexact(),
    wrapper("ionice", "c:n:t", ""),
    wrapper("nice", "#n:", "adjustment="),
    wrapper("noglob", "", ""),
    wrapper("nohup", "", "").inexact(),
    wrapper("npx", "yqp:", "yes no-install package= no quiet").inexact(),
    wrapper("parallel", "0kj:n:", "").inexact(),
    wrapper("setsid", "cfw", "wait fork ctty"),
    wrapper("stdbuf", "i:o:e:", "input= output= error="),
    wrapper("sudo", "AEHnSu:g:p:", "user= group= non-interactive preserve-env? set-home")
        .with_assignments(),
    wrapper("time", "pvl", "portability verbose"),
    wrapper("timeout", "k:s:v", "kill-after= signal= preserve-status foreground verbose").after(1),
    wrapper("toybox", "", "").inexact(),
    wrapper("uvx", "", "").inexact(),
    wrapper("watch", "n:dtg", "interval= no-title differences?").inexact(),
];

/// `poetry run x`: programs that run another one after a verb.
const RUNNERS: &[(&str, &[&str])] = &[
    ("bundle", &["exec"]),
    ("direnv", &["exec"]),
    ("doppler", &["run"]),
    ("hatch", &["run"]),
    ("npm", &["exec"]),
    ("op", &["run"]),
    ("pdm", &["run"]),
    ("pipenv", &["run"]),
    ("pnpm", &["exec", "dlx"]),
    ("poetry", &["run"]),
    ("python", &["-m"]),
    ("python3", &["-m"]),
    ("rye", &["run"]),
    ("uv", &["run"]),
    ("yarn", &["exec", "dlx", "run"]),
];

const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash", "ksh", "ash"];

/// The commands within a command; `None` if the program runs no others.
pub(super) fn inner(name: &str, args: &[Arg]) -> Option<Vec<Inner>> {
    let base = base_name(name);
    if base == "command" && has_flag(args, &["-v", "-V"]) {
        return Some(Vec::new());
    }
    if matches!(base, "env" | "exec") && args.is_empty() {
        return Some(Vec::new());
    }
    if base == "xargs" {
        return Some(vec![xargs(args)]);
    }
    if base == "find" {
        return find(args);
    }
    if SHELLS.contains(&base) || base == "su" {
        return shell(base, args).map(|script| vec![script]);
    }
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == base) {
        return wrapper.command(args).map(|command| vec![command]);
    }
    let (_, verbs) = RUNNERS.iter().find(|(runner, _)| *runner == base)?;
    let is_verb = |arg: &Arg| arg.known().is_some_and(|text| verbs.contains(&text));
    let at = args.iter().position(|arg| is_verb(arg) || arg.is_operand())?;
    if !is_verb(&args[at]) {
        return None;
    }
    let rest = &args[at + 1..];
    let start = rest.iter().position(Arg::is_operand)?;
    Some(vec![Inner::Command { args: rest[start..].to_vec(), exact: false }])
}

impl Wrapper {
    fn command(&self, args: &[Arg]) -> Option<Inner> {
        let mut exact = self.exact;
        let mut at = self.options.before_operand(args).unwrap_or_else(|| {
            exact = false;
            let option = |arg: &Arg| arg.known().is_some_and(|text| text.starts_with('-'));
            args.iter().position(|arg| !option(arg)).unwrap_or(args.len())
        });
        at += self.operands;
        while let Some(Arg::Known(text)) = args.get(at)
            && self.assignments
            && let Some((name, value)) = text.split_once('=')
        {
            exact &= super::variables::is_harmless_for_programs(name, Some(value));
            at += 1;
        }
        let command = args.get(at..).filter(|command| !command.is_empty())?;
        Some(Inner::Command { args: command.to_vec(), exact })
    }
}

fn has_flag(args: &[Arg], flags: &[&str]) -> bool {
    args.first().and_then(Arg::known).is_some_and(|first| flags.contains(&first))
}

/// The command gets words from standard input, or has them put where the mark is.
fn xargs(args: &[Arg]) -> Inner {
    let options = only(
        "0rtxpn:P:I:L:d:s:E:a:",
        "null no-run-if-empty verbose exit max-args= max-procs= replace? delimiter= arg-file= \
         max-lines? interactive max-chars= eof?",
    );
    let before = options.before_operand(args);
    let at = before.unwrap_or_else(|| args.iter().position(Arg::is_operand).unwrap_or(args.len()));
    let mut mark = None;
    for (index, option) in args[..at].iter().enumerate() {
        let Some(text) = option.known() else { continue };
        if let Some((_, attached)) = text.split_once('I')
            && text.starts_with('-')
        {
            let next = args.get(index + 1).and_then(Arg::known);
            mark = Some(if attached.is_empty() { next.unwrap_or("{}") } else { attached });
        } else if text.starts_with("--replace") {
            mark = Some(text.strip_prefix("--replace=").unwrap_or("{}"));
        }
    }
    let replaced = |arg: &Arg| match (arg.known(), mark) {
        (Some(text), Some(mark)) if text.contains(mark) => Arg::Unknown,
        _ => arg.clone(),
    };
    let mut command: Vec<Arg> = args[at..].iter().map(replaced).collect();
    if command.is_empty() {
        command.push(Arg::Known("echo".to_owned()));
    }
    command.push(Arg::Unknown);
    Inner::Command { args: command, exact: before.is_some() }
}

/// The commands after `-exec` and its like, and the rest of the arguments as a command itself.
fn find(args: &[Arg]) -> Option<Vec<Inner>> {
    let runs = |arg: &Arg| matches!(arg.known(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    if !args.iter().any(runs) {
        return None;
    }
    let mut rest = vec![Arg::Known("find".to_owned())];
    let mut inner = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if !runs(arg) {
            rest.push(arg.clone());
            continue;
        }
        let ends = |arg: &Arg| matches!(arg.known(), Some(";" | "+"));
        let length = args[at..].iter().position(ends).unwrap_or(args.len() - at);
        let command = args[at..at + length].iter().map(|arg| match arg.known() {
            // A path that starts like one of the places to search, none of which is an option.
            Some("{}") => Arg::Operand,
            Some(text) if text.contains("{}") => Arg::Unknown,
            _ => arg.clone(),
        });
        inner.push(Inner::Command { args: command.collect(), exact: true });
        at += length + 1;
    }
    inner.push(Inner::Command { args: rest, exact: true });
    Some(inner)
}

/// `bash -c script`. Other options may make a shell read more than the script.
fn shell(base: &str, args: &[Arg]) -> Option<Inner> {
    let is_command = |arg: &Arg| {
        let text = arg.known().unwrap_or_default();
        text.starts_with('-') && !text.starts_with("--") && text.contains('c')
    };
    let at = args.iter().position(is_command)?;
    let Arg::Known(text) = args.get(at + 1)? else { return None };
    let plain = |arg: &Arg| {
        let letters = arg.known().and_then(|text| text.strip_prefix('-'));
        letters.is_some_and(|letters| letters.bytes().all(|byte| b"celux".contains(&byte)))
    };
    let exact = base != "su" && args[..=at].iter().all(plain);
    let bash = matches!(base, "bash" | "zsh");
    let dialect = if bash { Dialect::Bash } else { Dialect::Posix };
    Some(Inner::Script { text: text.clone(), dialect, exact })
}
