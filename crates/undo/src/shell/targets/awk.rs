//! `awk`: the files that it changes in place, and the commands that its program runs.

use super::arguments::{last_name, split_operands_until};
use super::value::Value;
use super::{Change, Finder, literals};
use crate::shell::nested_commands::SHELLS;
use crate::shell::parser::is_name;

/// The options that take a value.
const VALUED: &str = "F v f i e l E assign exec field-separator file include load source";

impl Finder<'_> {
    pub(super) fn visit_awk(&mut self, args: &[Vec<Value>], text: &str) {
        let (split, at) = split_operands_until(args, VALUED);
        let mut operands = &args[at..];
        let files = split.options_named(&["-f", "--file", "-E", "--exec"]);
        let sources = split.options_named(&["-e", "--source"]);
        let mut programs: Vec<String> = Vec::new();
        if files.is_empty() && sources.is_empty() {
            let (program, rest) = operands.split_at(operands.len().min(1));
            operands = rest;
            programs.extend(program.iter().flatten().filter_map(Value::text).map(str::to_owned));
        }
        programs.extend(sources.into_iter().flatten().filter_map(Value::text).map(str::to_owned));
        for file in files {
            programs.extend(self.read_scripts(file, text));
        }
        for program in &programs {
            self.visit_awk_program(program, text);
        }
        let is_library = |name: &str| matches!(last_name(name), "inplace" | "inplace.awk");
        let included = split.options_named(&["-i", "--include"]);
        let in_place = included.into_iter().flatten().any(|value| is_library(value.start()))
            || programs.iter().any(|program| program.contains("@include \"inplace"));
        if in_place {
            for group in operands.iter().filter(|group| !group.iter().any(is_assignment)) {
                self.add_values(group, Change::Overwrites, text);
            }
        }
    }

    fn visit_awk_program(&mut self, program: &str, text: &str) {
        literals::visit_code(self, program, text);
        let commands = find_commands(program);
        for script in &commands.scripts {
            self.visit_inner_script(script, &[]);
        }
        if commands.has_others {
            literals::visit_words(self, program, false);
        }
        if commands.is_opaque || (commands.has_others && literals::names_deleting_program(program))
        {
            self.note_unknown(text);
        }
    }
}

/// Returns true for an operand that sets a variable.
fn is_assignment(value: &Value) -> bool {
    value.start().split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// The commands that an awk program runs.
#[derive(Debug, Default, PartialEq, Eq)]
struct AwkCommands {
    scripts: Vec<String>,
    /// True if the program may run commands that are partly known.
    has_others: bool,
    /// True if the program runs commands that are completely unknown.
    is_opaque: bool,
}

/// A piece of an awk program.
enum Piece<'a> {
    Code(&'a str),
    /// The content of a string.
    Text(String),
}

/// Finds the arguments of `system`, and the commands before and after `|`.
fn find_commands(program: &str) -> AwkCommands {
    let mut commands = AwkCommands::default();
    if !program.contains("system") && !program.contains('|') {
        return commands;
    }
    let Some(pieces) = split_program(program) else {
        return AwkCommands { has_others: true, ..commands };
    };
    let text_at = |at: Option<usize>| match at.and_then(|at| pieces.get(at)) {
        Some(Piece::Text(text)) => Some(text),
        _ => None,
    };
    let code_at = |at: Option<usize>| match at.and_then(|at| pieces.get(at)) {
        Some(Piece::Code(code)) => code.trim_matches([' ', '\t']),
        _ => "",
    };
    for (at, piece) in pieces.iter().enumerate() {
        let Piece::Code(code) = piece else { continue };
        let code = code.replace("||", "  ");
        let code = code.trim_matches([' ', '\t']);
        let (before, after) = (text_at(at.checked_sub(1)), text_at(Some(at + 1)));
        let (earlier, later) = (code_at(at.checked_sub(2)), code_at(Some(at + 2)));
        let mut uses = code.matches('|').count();
        for (start, _) in code.match_indices("system") {
            let argument = code[start + "system".len()..].trim_start();
            let Some(argument) = argument.strip_prefix('(').map(str::trim_start) else { continue };
            match after {
                Some(script) if argument.is_empty() && later.starts_with(')') => {
                    commands.scripts.push(script.clone());
                }
                Some(_) if argument.is_empty() => commands.has_others = true,
                _ => commands.is_opaque = true,
            }
        }
        if let Some(script) = before
            && code.starts_with('|')
            && (earlier.is_empty() || earlier.ends_with(['{', '(', ';', '\n', '!']))
        {
            commands.scripts.push(script.clone());
            uses -= 1;
        }
        if let Some(script) = after
            && uses > 0
            && code.trim_end_matches('&').ends_with('|')
            && (later.is_empty() || later.starts_with(['}', ')', ';', '\n', '#']))
        {
            // If this command is a shell, it runs the text that the awk program prints.
            commands.has_others |= SHELLS.contains(&last_name(script.trim()));
            commands.scripts.push(script.clone());
            uses -= 1;
        }
        commands.has_others |= uses > 0;
    }
    commands
}

/// Splits a program into code and strings. Returns `None` if a string does not end.
fn split_program(program: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = program;
    while let Some((code, after)) = rest.split_once('"') {
        pieces.push(Piece::Code(code));
        let mut text = String::new();
        let mut chars = after.char_indices();
        rest = loop {
            match chars.next()? {
                (at, '"') => break &after[at + 1..],
                (_, '\\') => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                }),
                (_, other) => text.push(other),
            }
        };
        pieces.push(Piece::Text(text));
    }
    pieces.push(Piece::Code(rest));
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_awk_programs_are_found() {
        for (program, scripts, has_others, is_opaque) in [
            (r#"BEGIN{system("rm -rf a")}"#, &["rm -rf a"][..], false, false),
            (r#"BEGIN{system( "a" ); system("b \"c\"")}"#, &["a", r#"b "c""#], false, false),
            (r#"{print | "sort > x"}"#, &["sort > x"], false, false),
            (r#"{while ("ls" | getline f) n++}"#, &["ls"], false, false),
            (r#"{print "rm " $1 | "sh"}"#, &["sh"], true, false),
            (r#"{system("rm " $1)}"#, &[], true, false),
            (r#"{"rm " $1 | getline}"#, &[], true, false),
            (r#"{print | cmd}"#, &[], true, false),
            (r#"{system($0)}"#, &[], false, true),
            (r#"/"/ {system("a")}"#, &[], true, false),
            (r#"a || b {print "x" "y"}"#, &[], false, false),
        ] {
            let scripts = scripts.iter().map(|&script| script.to_owned()).collect();
            let expected = AwkCommands { scripts, has_others, is_opaque };
            assert_eq!(find_commands(program), expected, "{program}");
        }
    }
}
