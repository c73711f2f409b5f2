//! Determines when awk only reads.

use super::argument_rules::only;
use crate::shell::syntax::Arg;

/// Returns true if an awk program neither writes nor runs anything. Treats text in strings as code.
pub(super) fn is_read_only(args: &[Arg]) -> bool {
    let Some(at) = only("F:v:", "").count_before_operand(args) else { return false };
    let Some(program) = args.get(at).and_then(Arg::known) else { return false };
    let plain = program.replace("||", " ").replace(">=", " ");
    !plain.contains(['>', '|', '@'])
        && !plain.contains("system")
        && !plain.contains("getline")
        // The arguments after the program are files, but some implementations still accept options
        // there.
        && args[at + 1..].iter().all(Arg::is_operand)
}
