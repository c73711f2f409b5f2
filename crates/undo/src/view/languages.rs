//! The languages whose code is colored, with their comments, strings and keywords.

/// A kind of string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) start: &'static str,
    pub(super) end: &'static str,
    /// True if a backslash escapes the next character.
    pub(super) is_escaped: bool,
    pub(super) is_multiline: bool,
}

/// The kind of a language. It determines how words in the language are colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Code,
    /// Keys and values: JSON, YAML, TOML.
    Data,
    /// Tags: HTML, XML.
    Markup,
    /// Style sheets, such as CSS.
    Sheet,
}

/// A language that the lexer knows.
#[derive(Debug)]
pub(super) struct Language {
    /// The file extensions of the language, and whole file names such as `makefile`.
    names: &'static [&'static str],
    pub(super) style: Style,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comments: &'static [(&'static str, &'static str)],
    pub(super) quotes: &'static [Quote],
    pub(super) keywords: &'static [&'static str],
    /// Symbols that begin a word: `@decorator`, `$variable`.
    pub(super) sigils: &'static str,
    pub(super) ignores_case: bool,
    pub(super) has_dashes: bool,
    pub(super) has_lifetimes: bool,
    /// True if a line comment can begin only after a space or at the start of a line.
    pub(super) has_spaced_comments: bool,
}

impl Language {
    /// Finds the language of a file by its name, or by the first line of a script.
    pub(super) fn of(name: &str, first_line: &str) -> Option<&'static Language> {
        let name = name.to_ascii_lowercase();
        let ending = name.rsplit_once('.').map_or(name.as_str(), |(_, ending)| ending);
        let fits = |word: &str| LANGUAGES.iter().find(|known| known.names.contains(&word));
        let script = || {
            let program = first_line.strip_prefix("#!")?.split_whitespace();
            let program = program.flat_map(|word| word.rsplit('/').next());
            program.filter(|word| *word != "env").find_map(|word| match word {
                "bash" | "dash" | "sh" | "zsh" => fits("sh"),
                "node" | "deno" => fits("js"),
                word if word.starts_with("python") => fits("py"),
                word => fits(word),
            })
        };
        fits(&name).or_else(|| fits(ending)).or_else(script)
    }
}

const fn quote(mark: &'static str) -> Quote {
    Quote { start: mark, end: mark, is_escaped: true, is_multiline: false }
}

const fn long(start: &'static str, end: &'static str, is_escaped: bool) -> Quote {
    Quote { start, end, is_escaped, is_multiline: true }
}

const DOUBLE: Quote = quote("\"");
const SINGLE: Quote = quote("'");
const C_COMMENTS: &[(&str, &str)] = &[("/*", "*/")];

const PLAIN: Language = Language {
    names: &[],
    style: Style::Code,
    line_comments: &[],
    block_comments: &[],
    quotes: &[DOUBLE, SINGLE],
    keywords: &[],
    sigils: "",
    ignores_case: false,
    has_dashes: false,
    has_lifetimes: false,
    has_spaced_comments: false,
};

/// Languages with comments like those of C.
const C_LIKE: Language = Language { line_comments: &["//"], block_comments: C_COMMENTS, ..PLAIN };

#[rustfmt::skip]
const LANGUAGES: &[Language] = &[
    Language {
        names: &["rs"],
        quotes: &[long("r#\"", "\"#", false), long("r\"", "\"", false), long("\"", "\"", true), SINGLE],
        keywords: &["as", "async", "await", "break", "const", "continue", "crate", "dyn", "else",
            "enum", "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match",
            "mod", "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct",
            "super", "trait", "true", "type", "union", "unsafe", "use", "where", "while"],
        has_lifetimes: true,
        ..C_LIKE
    },
    Language {
        names: &["py", "pyi", "pyw", "bzl", "star"],
        line_comments: &["#"],
        quotes: &[long("\"\"\"", "\"\"\"", true), long("'''", "'''", true), DOUBLE, SINGLE],
        keywords: &["and", "as", "assert", "async", "await", "break", "case", "class", "continue",
            "def", "del", "elif", "else", "except", "False", "finally", "for", "from", "global",
            "if", "import", "in", "is", "lambda", "match", "None", "nonlocal", "not", "or", "pass",
            "raise", "return", "self", "True", "try", "while", "with", "yield"],
        sigils: "@",
        ..PLAIN
    },
    Language {
        names: &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte"],
        quotes: &[DOUBLE, SINGLE, long("`", "`", true)],
        keywords: &["abstract", "as", "async", "await", "break", "case", "catch", "class", "const",
            "continue", "debugger", "declare", "default", "delete", "do", "else", "enum", "export",
            "extends", "false", "finally", "for", "from", "function", "get", "if", "implements",
            "import", "in", "instanceof", "interface", "let", "namespace", "new", "null", "of",
            "private", "protected", "public", "readonly", "return", "satisfies", "set", "static",
            "super", "switch", "this", "throw", "true", "try", "type", "typeof", "undefined",
            "var", "void", "while", "yield"],
        sigils: "@$",
        ..C_LIKE
    },
    Language {
        names: &["go"],
        quotes: &[DOUBLE, SINGLE, long("`", "`", false)],
        keywords: &["break", "case", "chan", "const", "continue", "default", "defer", "else",
            "fallthrough", "false", "for", "func", "go", "goto", "if", "import", "interface",
            "iota", "map", "nil", "package", "range", "return", "select", "struct", "switch",
            "true", "type", "var"],
        ..C_LIKE
    },
    Language {
        names: &["java", "kt", "kts", "scala", "groovy", "gradle", "cs", "swift", "dart"],
        quotes: &[long("\"\"\"", "\"\"\"", true), DOUBLE, SINGLE],
        keywords: &["abstract", "as", "assert", "async", "await", "boolean", "break", "byte",
            "case", "catch", "char", "class", "const", "continue", "data", "def", "default", "do",
            "double", "else", "enum", "extends", "extension", "false", "final", "finally", "float",
            "for", "foreach", "fun", "func", "guard", "if", "implements", "import", "in", "init",
            "instanceof", "int", "interface", "internal", "is", "let", "long", "namespace", "new",
            "nil", "null", "object", "open", "out", "override", "package", "private", "protected",
            "protocol", "public", "readonly", "return", "sealed", "self", "short", "static",
            "string", "struct", "super", "switch", "synchronized", "this", "throw", "throws",
            "trait", "true", "try", "using", "val", "var", "virtual", "void", "volatile", "when",
            "where", "while", "with", "yield"],
        sigils: "@",
        ..C_LIKE
    },
    Language {
        names: &["c", "h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "m", "mm", "cu", "ino", "proto", "glsl"],
        keywords: &["alignas", "auto", "bool", "break", "case", "catch", "char", "class", "const",
            "constexpr", "continue", "default", "define", "delete", "do", "double", "else", "endif",
            "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "ifdef",
            "ifndef", "include", "inline", "int", "long", "message", "namespace", "new",
            "noexcept", "NULL", "nullptr", "operator", "override", "pragma", "private",
            "protected", "public", "return", "service", "short", "signed", "sizeof", "static",
            "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename",
            "union", "unsigned", "using", "virtual", "void", "volatile", "while"],
        ..C_LIKE
    },
    Language {
        names: &["rb", "rake", "gemspec", "gemfile", "rakefile", "ex", "exs", "cr"],
        line_comments: &["#"],
        keywords: &["alias", "and", "begin", "break", "case", "class", "def", "defmodule", "defp",
            "do", "else", "elsif", "end", "ensure", "false", "fn", "for", "if", "in", "module",
            "next", "nil", "not", "or", "raise", "redo", "require", "rescue", "retry", "return",
            "self", "super", "then", "true", "undef", "unless", "until", "use", "when", "while",
            "yield"],
        sigils: "@$",
        ..PLAIN
    },
    Language {
        names: &["php"],
        line_comments: &["//", "#"],
        block_comments: C_COMMENTS,
        keywords: &["abstract", "array", "as", "break", "case", "catch", "class", "const",
            "continue", "default", "do", "echo", "else", "elseif", "extends", "false", "final",
            "finally", "fn", "for", "foreach", "function", "global", "if", "implements", "include",
            "instanceof", "interface", "match", "namespace", "new", "null", "private", "protected",
            "public", "readonly", "require", "return", "static", "switch", "this", "throw",
            "trait", "true", "try", "use", "var", "while", "yield"],
        sigils: "$",
        ignores_case: true,
        ..PLAIN
    },
    Language {
        names: &["sh", "bash", "zsh", "fish", "bashrc", "zshrc", "profile", "env"],
        line_comments: &["#"],
        quotes: &[long("\"", "\"", true), long("'", "'", false)],
        keywords: &["case", "do", "done", "elif", "else", "esac", "eval", "exec", "exit", "export",
            "fi", "for", "function", "if", "in", "local", "readonly", "return", "set", "shift",
            "source", "test", "then", "trap", "unset", "until", "while"],
        sigils: "$",
        has_dashes: true,
        has_spaced_comments: true,
        ..PLAIN
    },
    Language {
        names: &["makefile", "mk", "dockerfile", "containerfile", "justfile", "cmake", "cmakelists.txt"],
        line_comments: &["#"],
        keywords: &["add", "arg", "cmd", "copy", "define", "else", "endef", "endif", "entrypoint",
            "env", "export", "expose", "from", "function", "healthcheck", "ifdef", "ifeq",
            "ifndef", "ifneq", "include", "label", "onbuild", "run", "shell", "stopsignal", "user",
            "volume", "workdir"],
        sigils: "$",
        ignores_case: true,
        has_dashes: true,
        ..PLAIN
    },
    Language {
        names: &["sql", "psql", "ddl"],
        line_comments: &["--"],
        block_comments: C_COMMENTS,
        quotes: &[long("'", "'", false), DOUBLE],
        keywords: &["add", "all", "alter", "and", "as", "asc", "begin", "between", "bigint", "by",
            "cascade", "case", "check", "column", "commit", "constraint", "create", "cross",
            "database", "default", "delete", "desc", "distinct", "drop", "else", "end", "exists",
            "foreign", "from", "full", "grant", "group", "having", "if", "in", "index", "inner",
            "insert", "int", "integer", "into", "is", "join", "key", "left", "like", "limit",
            "not", "null", "offset", "on", "or", "order", "outer", "primary", "references",
            "returning", "right", "rollback", "select", "set", "table", "text", "then",
            "timestamp", "transaction", "trigger", "union", "unique", "update", "using", "values",
            "varchar", "view", "when", "where", "with"],
        ignores_case: true,
        ..PLAIN
    },
    Language {
        names: &["html", "htm", "xhtml", "xml", "svg", "plist", "xaml"],
        style: Style::Markup,
        block_comments: &[("<!--", "-->")],
        quotes: &[long("\"", "\"", false)],
        has_dashes: true,
        ..PLAIN
    },
    Language {
        names: &["css", "scss", "sass", "less"],
        style: Style::Sheet,
        line_comments: &[],
        keywords: &["important", "and", "not", "only", "from", "to"],
        sigils: "@#.",
        has_dashes: true,
        ..C_LIKE
    },
    Language {
        names: &["json", "jsonc", "json5", "jsonl", "lock", "webmanifest"],
        style: Style::Data,
        quotes: &[DOUBLE],
        keywords: &["true", "false", "null"],
        ..C_LIKE
    },
    Language {
        names: &["yaml", "yml"],
        style: Style::Data,
        line_comments: &["#"],
        keywords: &["true", "false", "null", "yes", "no", "on", "off"],
        has_dashes: true,
        has_spaced_comments: true,
        ..PLAIN
    },
    Language {
        names: &["toml", "ini", "cfg", "conf", "properties", "editorconfig", "gitconfig"],
        style: Style::Data,
        line_comments: &["#", ";"],
        quotes: &[long("\"\"\"", "\"\"\"", true), DOUBLE, SINGLE],
        keywords: &["true", "false"],
        has_dashes: true,
        has_spaced_comments: true,
        ..PLAIN
    },
    Language {
        names: &["lua"],
        line_comments: &["--"],
        block_comments: &[("--[[", "]]")],
        keywords: &["and", "break", "do", "else", "elseif", "end", "false", "for", "function",
            "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true",
            "until", "while"],
        ..PLAIN
    },
    Language {
        names: &["hs", "elm", "ml", "mli", "fs"],
        line_comments: &["--", "//"],
        block_comments: &[("{-", "-}"), ("(*", "*)")],
        quotes: &[DOUBLE],
        keywords: &["and", "as", "begin", "case", "class", "data", "deriving", "do", "else", "end",
            "fun", "function", "if", "import", "in", "infix", "instance", "let", "match", "module",
            "newtype", "of", "open", "rec", "sig", "struct", "then", "type", "val", "where",
            "with"],
        ..PLAIN
    },
    Language {
        names: &["tf", "hcl", "nix", "r", "pl", "pm"],
        line_comments: &["#", "//"],
        keywords: &["assert", "data", "else", "for", "function", "if", "in", "inherit", "let",
            "locals", "module", "my", "output", "our", "provider", "rec", "resource", "return",
            "sub", "then", "true", "false", "null", "use", "variable", "while", "with"],
        sigils: "$@",
        ..PLAIN
    },
];
