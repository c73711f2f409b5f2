//! Which variables may be set without changing what the programs do that come after.

use super::parse::is_name;

/// Whether a variable may be given to a program or exported.
pub(super) fn is_harmless_for_programs(name: &str, value: Option<&str>) -> bool {
    #[rustfmt::skip]
    const HARMLESS: &[&str] = &[
        "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "RUST_BACKTRACE", "TERM",
        "TZ",
    ];
    let pager = matches!(name, "PAGER" | "GIT_PAGER" | "GH_PAGER" | "MANPAGER");
    HARMLESS.contains(&name)
        || name.starts_with("LC_")
        || (pager && matches!(value, Some("cat" | "")))
}

/// Whether a variable of the shell may be set. It may have been exported before, so names to which
/// the shell or programs listen are out.
pub(super) fn is_harmless_in_shell(name: &str) -> bool {
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
    // In zsh these are tied to the ones in capitals.
    #[rustfmt::skip]
    const ZSH: &[&str] =
        &["path", "fpath", "cdpath", "manpath", "mailpath", "module_path", "aliases", "functions",
          "commands", "galiases", "saliases", "options", "nameddirs", "prompt", "argv"];
    let shared = |name: &str| {
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
    !shared(name) || is_harmless_for_programs(name, None)
}
