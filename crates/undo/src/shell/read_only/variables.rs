//! The variables that can be set without changing what later programs do.

use crate::shell::parser::is_name;

/// Returns true if it is harmless to export a variable, or to set it for a single program.
pub(in crate::shell) fn is_harmless_for_programs(name: &str, value: Option<&str>) -> bool {
    #[rustfmt::skip]
    const HARMLESS: &[&str] = &[
        "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "RUST_BACKTRACE", "TERM",
        "TZ",
    ];
    let is_pager = matches!(name, "PAGER" | "GIT_PAGER" | "GH_PAGER" | "MANPAGER");
    HARMLESS.contains(&name)
        || name.starts_with("LC_")
        || (is_pager && matches!(value, Some("cat" | "")))
}

/// Returns true if it is harmless to set a shell variable. The variable may already be exported, so
/// names that the shell or other programs read are not harmless.
pub(in crate::shell) fn is_harmless_in_shell(name: &str) -> bool {
    #[rustfmt::skip]
    const PARTS: &[&str] = &[
        "PATH", "HOME", "PAGER", "EDITOR", "CONFIG", "OPT", "PROXY", "SHELL", "PROMPT", "BASH",
        "LESS", "PRELOAD", "ENV", "HIST", "COMMAND",
    ];
    #[rustfmt::skip]
    const STARTS: &[&str] = &[
        "LD_", "DYLD_", "GIT_", "GH_", "PYTHON", "PERL", "RUBY", "NODE", "JAVA", "XDG_", "KUBE",
        "DOCKER", "CARGO", "RUST", "RIPGREP", "FZF", "BAT_", "TERM", "MAN", "ZDOT", "MALLOC", "PS",
        "AWK", "POSIXLY", "NPM", "SSH", "SUDO", "GREP", "JQ", "CURL", "SSL", "TAR", "GZIP", "XZ",
        "ZSTD", "UNZIP",
    ];
    #[rustfmt::skip]
    const NAMES: &[&str] =
        &["IFS", "VISUAL", "BROWSER", "TMPDIR", "OPTIND", "NULLCMD", "READNULLCMD", "CDABLE"];
    // zsh ties these variables to their upper-case forms, or gives them a special meaning.
    #[rustfmt::skip]
    const ZSH: &[&str] =
        &["path", "fpath", "cdpath", "manpath", "mailpath", "module_path", "aliases", "functions",
          "commands", "galiases", "saliases", "options", "nameddirs", "prompt", "argv"];
    let is_read_by_programs = |name: &str| {
        PARTS.iter().any(|part| name.contains(part))
            || STARTS.iter().any(|start| name.starts_with(start))
            || NAMES.contains(&name)
    };
    if !is_name(name) || ZSH.contains(&name) {
        return false;
    }
    if name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return !name.contains("proxy");
    }
    !is_read_by_programs(name) || is_harmless_for_programs(name, None)
}
