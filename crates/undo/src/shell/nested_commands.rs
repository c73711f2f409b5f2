//! Finds the commands that are run by another command: the arguments of `sudo`, `xargs` and `find
//! -exec`, and the script of `bash -c`.

use super::parser::Dialect;
use super::read_only::programs::base_name;
use super::read_only::variables::is_harmless_for_programs;
use super::read_only::{AllowedOptions, only};
use super::syntax::Arg;

/// A command within a command. If `is_exact` is false, the outer command may do more than run the
/// inner one.
pub(super) enum NestedCommand {
    Program { args: Vec<Arg>, is_exact: bool },
    Script { text: String, dialect: Dialect, is_exact: bool },
}

impl NestedCommand {
    pub(super) fn is_exact(&self) -> bool {
        let (NestedCommand::Program { is_exact, .. } | NestedCommand::Script { is_exact, .. }) =
            self;
        *is_exact
    }
}

/// A program that takes options, perhaps assignments, and then a command.
struct Wrapper {
    name: &'static str,
    options: AllowedOptions,
    /// The number of operands before the command.
    operands: usize,
    takes_assignments: bool,
    /// True if the program does nothing but run the command.
    is_exact: bool,
}

const fn wrapper(name: &'static str, short: &'static str, long: &'static str) -> Wrapper {
    Wrapper {
        name,
        options: only(short, long),
        operands: 0,
        takes_assignments: false,
        is_exact: true,
    }
}

impl Wrapper {
    const fn inexact(self) -> Wrapper {
        Wrapper { is_exact: false, ..self }
    }

    const fn after(self, operands: usize) -> Wrapper {
        Wrapper { operands, ..self }
    }

    const fn with_assignments(self) -> Wrapper {
        Wrapper { takes_assignments: true, ..self }
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

/// Programs that run another program, which follows a verb, as in `poetry run x`.
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

pub(super) const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash", "ksh", "ash"];

/// Finds the commands within a command. Returns `None` if the program runs no other commands.
pub(super) fn find_nested_commands(name: &str, args: &[Arg]) -> Option<Vec<NestedCommand>> {
    let base = base_name(name);
    if base == "command" && starts_with_flag(args, &["-v", "-V"]) {
        return Some(Vec::new());
    }
    if matches!(base, "env" | "exec") && args.is_empty() {
        return Some(Vec::new());
    }
    if base == "xargs" {
        return Some(vec![find_xargs_command(args)]);
    }
    if base == "find" {
        return find_exec_commands(args);
    }
    if SHELLS.contains(&base) || base == "su" {
        return find_shell_script(base, args).map(|script| vec![script]);
    }
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == base) {
        return wrapper.find_command(args).map(|command| vec![command]);
    }
    let (_, verbs) = RUNNERS.iter().find(|(runner, _)| *runner == base)?;
    let is_verb = |arg: &Arg| arg.known().is_some_and(|text| verbs.contains(&text));
    let at = args.iter().position(|arg| is_verb(arg) || arg.is_operand())?;
    if !is_verb(&args[at]) {
        return None;
    }
    let rest = &args[at + 1..];
    let start = rest.iter().position(Arg::is_operand)?;
    Some(vec![NestedCommand::Program { args: rest[start..].to_vec(), is_exact: false }])
}

impl Wrapper {
    fn find_command(&self, args: &[Arg]) -> Option<NestedCommand> {
        let mut is_exact = self.is_exact;
        let mut at = self.options.count_before_operand(args).unwrap_or_else(|| {
            is_exact = false;
            let is_option = |arg: &Arg| arg.known().is_some_and(|text| text.starts_with('-'));
            args.iter().position(|arg| !is_option(arg)).unwrap_or(args.len())
        });
        at += self.operands;
        while let Some(Arg::Known(text)) = args.get(at)
            && self.takes_assignments
            && let Some((name, value)) = text.split_once('=')
        {
            is_exact &= is_harmless_for_programs(name, Some(value));
            at += 1;
        }
        let command = args.get(at..).filter(|command| !command.is_empty())?;
        Some(NestedCommand::Program { args: command.to_vec(), is_exact })
    }
}

fn starts_with_flag(args: &[Arg], flags: &[&str]) -> bool {
    args.first().and_then(Arg::known).is_some_and(|first| flags.contains(&first))
}

/// Finds the command that xargs runs. xargs adds the words from standard input at the end of the
/// command, or puts them in place of a placeholder.
fn find_xargs_command(args: &[Arg]) -> NestedCommand {
    let options = only(
        "0rtxpn:P:I:L:d:s:E:a:",
        "null no-run-if-empty verbose exit max-args= max-procs= replace? delimiter= arg-file= \
         max-lines? interactive max-chars= eof?",
    );
    let before = options.count_before_operand(args);
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
    NestedCommand::Program { args: command, is_exact: before.is_some() }
}

/// Finds the commands after `-exec` and its variants. The last command in the result is `find`
/// itself, without these options.
fn find_exec_commands(args: &[Arg]) -> Option<Vec<NestedCommand>> {
    let runs = |arg: &Arg| matches!(arg.known(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    if !args.iter().any(runs) {
        return None;
    }
    let mut rest = vec![Arg::Known("find".to_owned())];
    let mut nested = Vec::new();
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
            // `find` replaces this word with a path that begins with a searched directory, so the
            // word cannot be an option.
            Some("{}") => Arg::Operand,
            Some(text) if text.contains("{}") => Arg::Unknown,
            _ => arg.clone(),
        });
        nested.push(NestedCommand::Program { args: command.collect(), is_exact: true });
        at += length + 1;
    }
    nested.push(NestedCommand::Program { args: rest, is_exact: true });
    Some(nested)
}

/// Finds the script of `bash -c`. Other options may make a shell read more than this script.
fn find_shell_script(base: &str, args: &[Arg]) -> Option<NestedCommand> {
    let is_command = |arg: &Arg| {
        let text = arg.known().unwrap_or_default();
        text.starts_with('-') && !text.starts_with("--") && text.contains('c')
    };
    let at = args.iter().position(is_command)?;
    let Arg::Known(text) = args.get(at + 1)? else { return None };
    let is_plain = |arg: &Arg| {
        let letters = arg.known().and_then(|text| text.strip_prefix('-'));
        letters.is_some_and(|letters| letters.bytes().all(|byte| b"celux".contains(&byte)))
    };
    let is_exact = base != "su" && args[..=at].iter().all(is_plain);
    let is_bash = matches!(base, "bash" | "zsh");
    let dialect = if is_bash { Dialect::Bash } else { Dialect::Posix };
    Some(NestedCommand::Script { text: text.clone(), dialect, is_exact })
}
