//! The calls that agents make.

use serde_json::{Value, json};

use super::files::{ELSEWHERE, Files, PROJECT, below_project, is_history};
use crate::random::Random;

/// A call that an agent makes: the tool and its input, as they are reported, and the work itself.
pub(crate) struct AgentCall {
    pub(crate) tool: &'static str,
    pub(crate) input: Value,
    pub(crate) work: Work,
}

/// The work that a call does.
pub(crate) enum Work {
    /// A file, and the content that is written to it.
    Write(String, Vec<u8>),
    /// A script that bash runs in the project.
    Script(String),
}

/// Generates a call. Every line that the call writes contains `mark`.
pub(crate) fn invent_call(files: &Files, mark: &str, random: &mut Random) -> AgentCall {
    let paths = editable_paths(files);
    if paths.is_empty() || random.below(8) == 0 {
        let path = format!("{PROJECT}/{}", new_name(random));
        return write_file(path, format!("{mark} new\n").into_bytes());
    }
    let path = paths[random.below(paths.len())].clone();
    if random.below(2) == 0 {
        let content = edit_lines(&files[&path].content, mark, random);
        return write_file(path, content);
    }
    let script = invent_script(below_project(&path), mark, random);
    AgentCall { tool: "Bash", input: json!({ "command": script }), work: Work::Script(script) }
}

/// Lists the files of the project that can be edited line by line.
pub(crate) fn editable_paths(files: &Files) -> Vec<String> {
    let is_text = |path: &&String| !path.contains(".db") && !path.ends_with(".big");
    let inside = files.keys().filter(|path| path.starts_with(PROJECT) && !is_history(path));
    inside.filter(is_text).filter(|path| !files[*path].is_link).cloned().collect()
}

fn write_file(path: String, content: Vec<u8>) -> AgentCall {
    let named = below_project(&path);
    let input = json!({ "file_path": named, "content": String::from_utf8_lossy(&content) });
    AgentCall { tool: "Write", input, work: Work::Write(path, content) }
}

fn new_name(random: &mut Random) -> String {
    let directories = ["", "src/", "src/deep/", "docs/", "uploads/", "dist/", "vendor/lib/"];
    let directory = directories[random.below(directories.len())];
    let ending = ["txt", "md", "log", "env"][random.below(4)];
    format!("{directory}new{}.{ending}", random.below(40))
}

/// Adds a line to a file's content, or replaces one.
pub(crate) fn edit_lines(content: &[u8], mark: &str, random: &mut Random) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let mut lines: Vec<&str> = text.lines().collect();
    let line = format!("{mark} {}", random.below(1_000_000));
    let at = random.below(lines.len() + 1);
    match random.below(4) {
        0 if at < lines.len() => lines[at] = &line,
        1 => lines.push(&line),
        _ => lines.insert(at, &line),
    }
    (lines.join("\n") + "\n").into_bytes()
}

fn invent_script(path: &str, mark: &str, random: &mut Random) -> String {
    let kinds = [change_file, change_directory, use_git, reach_outside, change_special];
    kinds[random.below(kinds.len())](path, mark, random)
}

fn choose(scripts: &[String], random: &mut Random) -> String {
    scripts[random.below(scripts.len())].clone()
}

fn change_file(path: &str, mark: &str, random: &mut Random) -> String {
    let number = random.below(9);
    let scripts = [
        format!("rm '{path}'"),
        format!("rm -f '{path}' && echo '{mark} again' > '{path}'"),
        format!("echo '{mark} appended' >> '{path}'"),
        format!("sed -i '1d' '{path}'"),
        format!("sed -i -e 's/line/{mark}/' src/*.txt"),
        format!("mv '{path}' 'moved {number}.txt'"),
        format!("cp '{path}' copied{number}.txt; echo '{mark} c' > '{path}'"),
        format!("bash -c \"rm -f '{path}'\""),
        format!("truncate -s 0 '{path}'"),
        format!("chmod +x '{path}'"),
        format!("printf '%s\\n' '{mark} tee' | tee '{path}' >/dev/null"),
        format!("test -f '{path}' && {{ rm '{path}'; }} || true"),
    ];
    choose(&scripts, random)
}

fn change_directory(_: &str, mark: &str, random: &mut Random) -> String {
    let scripts = [
        "rm -rf uploads".into(),
        "D=uploads; rm -rf \"$D\"".into(),
        "rm -rf src/deep docs".into(),
        "for f in src/*.txt; do rm \"$f\"; done".into(),
        "find . -name '*.md' -delete".into(),
        "find docs uploads -type f -print0 | xargs -0 rm -f".into(),
        "ls -R > listing.txt".into(),
        "rm -rf ./*".into(),
        "mv src/deep deeper && rm -rf deeper".into(),
        "mv docs docs.old; mkdir -p docs; cp -r docs.old/. docs/".into(),
        format!("rm -rf docs && echo '{mark} was a directory' > docs"),
        format!("mkdir -p a.txt.d && rm -f a.txt && mkdir a.txt && echo '{mark}' > a.txt/in"),
    ];
    choose(&scripts, random)
}

fn use_git(path: &str, mark: &str, random: &mut Random) -> String {
    let scripts = [
        "git clean -fdxq".into(),
        "git stash -uq".into(),
        "git stash pop -q".into(),
        "git checkout -fq".into(),
        "git reset -q --hard".into(),
        "git checkout -q HEAD -- .".into(),
        format!("git rm -qf --ignore-unmatch '{path}'"),
        format!("git add -A && git commit -qm '{mark}'"),
        "git checkout -qb other; git checkout -q -".into(),
        format!("git restore --source=HEAD '{path}'"),
    ];
    choose(&scripts, random)
}

fn reach_outside(_: &str, mark: &str, random: &mut Random) -> String {
    let scripts = [
        format!("rm -f ../{ELSEWHERE}/note.txt"),
        format!("rm -f ../{ELSEWHERE}/*.txt"),
        format!("cd ../{ELSEWHERE} && rm -rf sub && echo '{mark} out' >> note.txt"),
        format!("for n in note other; do echo '{mark} out' > \"../{ELSEWHERE}/$n.txt\"; done"),
    ];
    choose(&scripts, random)
}

/// Generates a script that changes links, large files, databases or a repository inside the
/// project.
fn change_special(path: &str, mark: &str, random: &mut Random) -> String {
    let scripts = [
        "rm -rf vendor".into(),
        "rm -rf vendor/lib/.git".into(),
        format!("echo '{mark} vendor' >> vendor/lib/lib.txt"),
        "ln -sfn src/c.txt link".into(),
        "rm -f link; ln -s docs link".into(),
        format!("echo '{mark} through' >> link"),
        format!("rm -f '{path}' && ln -s src '{path}'"),
        format!("echo '{mark} large' >> large.big"),
        "rm -f large.big uploads/large.big".into(),
        "head -c 1500000 /dev/urandom > large.big".into(),
        format!(
            "sqlite3 data.db \"create table if not exists t(x); insert into t values('{mark}')\""
        ),
        format!(
            "sqlite3 data.db \"pragma journal_mode=wal; insert into t values('{mark}')\" '.shell kill -9 $PPID'"
        ),
        "rm -f data.db".into(),
    ];
    choose(&scripts, random)
}
