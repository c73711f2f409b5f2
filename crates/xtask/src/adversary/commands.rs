//! The calls that agents make.

use serde_json::{Value, json};

use super::files::{ELSEWHERE, Files, PROJECT};
use crate::random::Random;

/// A call that an agent makes: the tool and its input as reported, and the work itself.
pub(crate) struct AgentCall {
    pub(crate) tool: &'static str,
    pub(crate) input: Value,
    pub(crate) work: Work,
}

/// The work of a call.
pub(crate) enum Work {
    /// A file gets this content.
    Write(String, Vec<u8>),
    /// A script is run by bash in the project.
    Script(String),
}

/// Makes up a call. Every line that it writes contains `mark`.
pub(crate) fn invent_call(files: &Files, mark: &str, random: &mut Random) -> AgentCall {
    let inside: Vec<&String> = files.keys().filter(|path| path.starts_with(PROJECT)).collect();
    if inside.is_empty() || random.below(8) == 0 {
        let path = format!("{PROJECT}/{}", new_name(random));
        return write_file(path, format!("{mark} new\n").into_bytes());
    }
    let path = inside[random.below(inside.len())].clone();
    if random.below(2) == 0 {
        let content = edit_lines(&files[&path], mark, random);
        return write_file(path, content);
    }
    let script = invent_script(&path, mark, random);
    AgentCall { tool: "Bash", input: json!({ "command": script }), work: Work::Script(script) }
}

fn write_file(path: String, content: Vec<u8>) -> AgentCall {
    let named = path.strip_prefix(PROJECT).map(|path| path.trim_start_matches('/'));
    let input = json!({ "file_path": named, "content": String::from_utf8_lossy(&content) });
    AgentCall { tool: "Write", input, work: Work::Write(path, content) }
}

fn new_name(random: &mut Random) -> String {
    let directory = ["", "src/", "src/deep/", "docs/", "uploads/", "dist/"][random.below(6)];
    let ending = ["txt", "md", "log", "env"][random.below(4)];
    format!("{directory}new{}.{ending}", random.below(40))
}

/// Adds a line to a text, or puts one in the place of another.
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
    let path = path.strip_prefix(PROJECT).unwrap_or(path).trim_start_matches('/');
    let scripts = [
        format!("rm '{path}'"),
        format!("rm -f '{path}' && echo '{mark} again' > '{path}'"),
        format!("echo '{mark} appended' >> '{path}'"),
        format!("sed -i '1d' '{path}'"),
        format!("sed -i -e 's/line/{mark}/' src/*.txt"),
        format!("mv '{path}' 'moved {}.txt'", random.below(9)),
        format!("cp '{path}' copied{}.txt; echo '{mark} c' > '{path}'", random.below(9)),
        "rm -rf uploads".into(),
        "D=uploads; rm -rf \"$D\"".into(),
        "rm -rf src/deep docs".into(),
        "for f in src/*.txt; do rm \"$f\"; done".into(),
        "find . -name '*.md' -delete".into(),
        "find docs uploads -type f -print0 | xargs -0 rm -f".into(),
        "git clean -fdxq".into(),
        "git stash -uq".into(),
        "git checkout -fq".into(),
        "git reset -q --hard".into(),
        "ls -R > listing.txt".into(),
        format!("rm -f ../{ELSEWHERE}/note.txt"),
        format!("rm -f ../{ELSEWHERE}/*.txt"),
        format!("cd ../{ELSEWHERE} && rm -rf sub && echo '{mark} out' >> note.txt"),
        format!("for n in note other; do echo '{mark} out' > \"../{ELSEWHERE}/$n.txt\"; done"),
        format!("bash -c \"rm -f '{path}'\""),
        "rm -rf ./*".into(),
    ];
    scripts[random.below(scripts.len())].clone()
}
