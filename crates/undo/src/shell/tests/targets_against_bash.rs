//! Compares the targets of random scripts with what bash does: every file that is deleted or
//! changed must have been named, or its command reported as unknown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::{ScriptContext, analyze_script};

const FILES: &[&str] = &[
    "app/a.txt",
    "app/b.txt",
    "app/c.log",
    "app/sp ace.txt",
    "app/.hidden",
    "app/d/a.txt",
    "app/d/e/f.log",
    "app/d/e/g.txt",
    "app/x1",
    "app/x2",
    "app/{q}",
    "out/a.txt",
    "out/o1",
    "out/p/z.txt",
];

/// Makes files, lists and links.
fn make_scene(root: &Path) {
    for file in FILES {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, *file).unwrap();
    }
    fs::write(root.join("app/list"), "a.txt\nd/a.txt\nsp ace.txt\n").unwrap();
    std::os::unix::fs::symlink("../out/p", root.join("app/ln")).unwrap();
    std::os::unix::fs::symlink("c.log", root.join("app/lf")).unwrap();
}

/// Reads every file and link below a directory.
fn read_all(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(path, target.into_os_string().into_encoded_bytes());
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

/// Words that name files.
const WORDS: &[&str] = &[
    "a.txt",
    "*.txt",
    "d",
    "d/*",
    "*/*.txt",
    "{a,b}.txt",
    "x{1..3}",
    "x?",
    "x[12]",
    "[a-b].*",
    "$v",
    "\"$v\"",
    "${v}x",
    "d/$v",
    "\"${v%.txt}.log\"",
    "${v##*/}",
    "../out/*",
    "../out/{o1,p}",
    "ln/z.txt",
    "ln/../a.txt",
    "ln/..",
    "lf",
    "'sp ace.txt'",
    "sp\\ ace.txt",
    "$w",
    "\"$w\"",
    "\"${a[@]}\"",
    "$(echo b.txt)",
    "$(ls d)",
    "$(cat list)",
    "$(dirname d/e/f.log)/g.txt",
    "$PWD/a.txt",
    "~/o1",
    "$HOME/p",
    "$u",
    "d/$u",
    "$1",
    "${n:-c.log}",
    "{q}",
    "d/{a.txt,e/*}",
    "`echo x1`",
    ".hidden",
    ".h*",
    "$(find d -name '*.log')",
    "x$i",
    "${a[0]}",
    "./a.txt",
    "d/",
    "**/*.txt",
    "\"$(basename d/a.txt)\"",
    "$(printf '%s ' x1 x2)",
];

/// Scripts in which `@` stands for words and `%` for other scripts.
const COMMANDS: &[&str] = &[
    "rm -rf @",
    "rm -f @ @",
    "mv -f @ @",
    "cp -rf @ @",
    "echo t > @",
    "echo t >> @",
    "rm -r @ || true",
    "touch @",
    "truncate -s 0 @",
    "sed -i s/t/u/ @",
    "tee @ < /dev/null",
    "ln -sf q @",
    "mkdir -p n/@",
    "for v in @ @; do %; done",
    "for i in 1 2; do %; done",
    "while read v; do %; done < list",
    "ls @ | while read -r v; do %; done",
    "v=@; %",
    "w='a.txt x1'; %",
    "a=(@ @); %",
    "u=@; %",
    "cd d; %",
    "cd d && %",
    "cd @; %",
    "cd ../out && %",
    "(cd d; %); %",
    "pushd d; %; popd; %",
    "cd nowhere; %",
    "cd nowhere && %; %",
    "cd nowhere || %",
    "{ %; %; }",
    "if true; then %; fi; %",
    "if false; then v=@; fi; %",
    "case a in a) %;; esac",
    "f() { %; }; f @",
    "set -- @; %",
    "find @ -name '*.txt' -delete",
    "find . -name '*.log' -exec rm {} +",
    "find d -type f | xargs rm -f",
    "ls *.txt | xargs rm -f",
    "echo @ | xargs rm -rf",
    "printf '%s\\n' @ | xargs -I{} rm -rf {}",
    "xargs -d '\\n' rm -f < list",
    "bash -c 'rm -rf \"$1\"' _ @",
    "bash -c 'cd d; rm -f a.txt'",
    "eval \"rm -f a.txt\"; %",
    "export v=@; %",
    "v+=.txt; %",
    "shopt -s dotglob; %",
    "shopt -s nullglob globstar; %",
    "%; %",
    "% && %",
    "% || %",
    "cd - ; %",
    "read v < list; %",
    "v=x; while [ ${#v} -lt 4 ]; do v=${v}1; %; done",
    "unset v; %",
    "env -C d rm -rf @",
    "cat list | xargs rm -f",
    "n=@; rm -f \"${n:-c.log}\"",
    "rm -f -- @",
    "cp -t d @",
    "mv @ d/",
    "cp {a,b}.txt",
    "for v; do %; done",
    "(cd ln/..; %)",
    "cd ln/..; %",
    "cd ln && cd ..; %",
];

fn random_scripts() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 8);
    let commands = prop::collection::vec(prop::sample::select(COMMANDS), 4);
    (commands, words).prop_map(|(commands, words)| {
        let mut script = "%".to_owned();
        for command in commands {
            // Only a place on its own, not the one in a format of printf.
            let Some(at) = find_place(&script) else { break };
            script.replace_range(at..=at, command);
        }
        while let Some(at) = find_place(&script) {
            script.replace_range(at..=at, "rm -f @");
        }
        let mut words = words.into_iter().cycle();
        let mut filled = String::new();
        for c in script.chars() {
            // `${a[@]}` is no place.
            if c == '@' && !filled.ends_with('[') {
                filled.push_str(words.next().unwrap());
            } else {
                filled.push(c);
            }
        }
        filled
    })
}

fn find_place(script: &str) -> Option<usize> {
    let bytes = script.as_bytes();
    (0..bytes.len())
        .find(|&at| bytes[at] == b'%' && !matches!(bytes.get(at + 1), Some(b's' | b'.')))
}

/// Runs a script in bash, and returns a file that it changed although the analysis did not say so.
fn find_missed(script: &str) -> Option<(PathBuf, Vec<PathBuf>)> {
    let scratch = tempfile::tempdir().unwrap();
    // Scripts delete files at random: they stay far below the directory for temporary files.
    let root = fs::canonicalize(scratch.path()).unwrap().join("1/2/3/4/5/6/7/8/9");
    make_scene(&root);
    let (app, home) = (root.join("app"), root.join("out"));
    let context = ScriptContext { directory: &app, workspace: &app, home: Some(&home) };
    let found = analyze_script(script, &context);
    let before = read_all(&root);
    Command::new("timeout")
        .args(["5", "bash", "-c", script, "bash"])
        .current_dir(&app)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let after = read_all(&root);
    let is_named = |path: &PathBuf| {
        found.paths.iter().chain(&found.sweeps).any(|named| path.starts_with(named))
    };
    let is_changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
    // A new file overwrites nothing, but a bounded script names it, too.
    let new = after.keys().filter(|path| found.bounded && !before.contains_key(*path));
    let missed = before.keys().chain(new).filter(is_changed).find(|path| !is_named(path));
    missed.filter(|_| found.unknown.is_empty()).map(|path| (path.clone(), found.paths.clone()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("TAKEBACK_SHELL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
    ))]

    #[test]
    fn bash_changes_only_what_was_named(script in random_scripts()) {
        let missed = find_missed(&script);
        prop_assert!(missed.is_none(), "{script}\nchanged and named: {missed:?}");
    }
}
