//! Completions for bash. They are like clap's own, but a list of choices also shows what each
//! choice means.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;

use crate::context::variable;
use crate::output;

/// The maximum width of the meaning of a choice, in columns.
const MEANING_WIDTH: usize = 60;

/// The script that bash loads. Bash splits words at colons, which occur in the ids of sessions. The
/// script therefore splits the line itself, and removes from each choice the part up to the last
/// colon that the user has typed.
const SCRIPT: &str = r#"_takeback() {
    local line=${COMP_LINE:0:COMP_POINT} words current
    IFS=$' \t' read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]} - 1]}
    local IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash COMP_KIND=$COMP_TYPE COMPLETER -- "${words[@]}"))
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local known=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$known"}")
    fi
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o nosort -F _takeback PROGRAM 2>/dev/null ||
    complete -o bashdefault -F _takeback PROGRAM"#;

/// The completion adapter for bash.
pub(super) struct Bash;

/// The values of `COMP_TYPE` with which bash asks only for a list of the choices, for example
/// because the user pressed Tab twice.
const LISTING: [&str; 2] = ["63", "33"];

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let script = SCRIPT.replace("VARIABLE", variable).replace("COMPLETER", completer);
        writeln!(out, "{}", script.replace("PROGRAM", program))
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let last = words.len().saturating_sub(1);
        let found = complete(command, words, last, directory)?;
        let is_listing = found.len() > 1
            && variable("COMP_KIND").is_some_and(|kind| LISTING.contains(&kind.as_str()));
        for candidate in found {
            let value = candidate.get_value().to_string_lossy();
            match candidate.get_help().filter(|_| is_listing) {
                Some(help) => {
                    let help =
                        output::shorten(&output::join_lines(&help.to_string()), MEANING_WIDTH);
                    writeln!(out, "{value}  ({help})")?;
                }
                None => writeln!(out, "{value}")?,
            }
        }
        Ok(())
    }
}
