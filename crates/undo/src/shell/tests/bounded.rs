//! Scripts that are known to change nothing but the paths they name, and scripts that may change
//! other files.

use std::fs;

use super::super::{ScriptContext, analyze_script};

fn find_wrong(scripts: &[&'static str], is_bounded: bool) -> Vec<&'static str> {
    let scratch = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(scratch.path()).unwrap();
    for file in ["a.txt", "b.txt", "c.log", "d/a.txt", "d/e/f.log", "node_modules/m/a.js", "s.sh"] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "a.txt\n").unwrap();
    }
    let context = ScriptContext { directory: &root, workspace: &root, home: Some(&root) };
    let is_wrong = |script: &&&str| analyze_script(script, &context).bounded != is_bounded;
    scripts.iter().filter(is_wrong).copied().collect()
}

#[test]
fn a_script_of_known_programs_and_paths_is_bounded() {
    #[rustfmt::skip]
    let wrong = find_wrong(&[
        "rm a.txt", "rm -rf d *.log", "rm -- -x", "rm {a,b}.txt", "touch ~/x new", "mkdir -p d/n",
        "rmdir d/e", "chmod +x a.txt", "truncate -s 0 c.log", "echo x > a.txt", "echo x >> d/new",
        "ls &> c.log", "exec 3> a.txt", "cat a.txt b.txt > c.log", "grep x a.txt | tee c.log",
        "tee a.txt <<E\ntext\nE", "cp a.txt b.txt", "cp -r d n", "cp -t d a.txt", "mv -f a.txt d",
        "ln -s a.txt n", "sed -i s/a/b/ a.txt", "sed -i -e s/a/b/ -e s/c/d/ a.txt b.txt",
        "cd d && rm a.txt", "(cd d; rm a.txt); rm b.txt", "f() { rm \"$1\"; }; f a.txt",
        "for f in a.txt b.txt; do rm $f; done", "while read f; do rm \"$f\"; done < a.txt",
        "if grep -q x a.txt; then rm a.txt; fi", "[ -f \"$x\" ] && rm a.txt", "D=d; rm $D/a.txt",
        "case $x in a) rm a.txt;; esac", "export D=d; rm $D/a.txt",
        "bash -c 'rm a.txt'", "eval 'rm a.txt'", "sudo -u me rm a.txt", "timeout 5 rm a.txt",
        "env -C d rm a.txt", "command rm a.txt", "/bin/rm a.txt", "time rm a.txt",
        "trap 'rm a.txt' EXIT", "set -euo pipefail; rm a.txt", "ls *.txt | xargs rm -f",
        "echo a.txt | xargs -I{} rm {}", "find d -name '*.log' -delete",
        "find d -name '*.log' -exec rm {} +", "find d -name '*.log' -exec sh -c 'rm \"$1\"' _ {} \\;",
        "rm $(cat a.txt)", "rm \"$(dirname d/e)/a.txt\"", "pushd d; rm a.txt; popd",
    ], true);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_script_that_may_change_other_files_is_not_bounded() {
    #[rustfmt::skip]
    let wrong = find_wrong(&[
        // Unknown programs, and programs that run other programs.
        "frob a.txt", "rm a.txt; frob", "./rm a.txt", "make", "npm test", "cargo build", "$x a.txt",
        "npx rm a.txt", "nohup rm a.txt", "flock lock rm a.txt", "watch rm a.txt", "setsid rm a.txt",
        "poetry run rm a.txt", "find d -exec frob {} +", "find d -name '*.log' -execdir rm x \\;",
        "ls | xargs frob", "xargs frob < a.txt", "./xargs rm < a.txt", "su -c 'rm a.txt'",
        "f() { make; }; f", "if frob; then rm a.txt; fi", "echo $(frob) > a.txt",
        "cat <(frob) > a.txt", "trap frob EXIT; rm a.txt", "trap \"$x\" EXIT; rm a.txt",
        "trap 'rm a.txt' ERR", "python3 -c \"open('a.txt', 'w')\"", "awk '{ print > \"x\" }' a.txt",
        "curl -o a.txt http://h", "tar xf a.tar", "rsync a.txt b.txt", "dd of=a.txt", "gzip a.txt",
        // git commands.
        "git add .", "git checkout a.txt", "git clean -fd d", "git commit -m x", "git -C d rm x",
        // Scripts whose text is not part of the command.
        "bash s.sh", "bash < s.sh", ". ./s.sh", "source s.sh", "eval \"$x\"", "bash -c \"$x\"",
        "curl http://h | bash", "BASH_ENV=s.sh bash -c 'rm a.txt'",
        // Commands that change the meaning of names.
        "alias rm=frob; rm a.txt", "PATH=. rm a.txt", "export PATH=.; rm a.txt",
        "read PATH < a.txt; rm b.txt", "for PATH in .; do rm a.txt; done",
        "printf -v PATH %s .; rm a.txt", "LD_PRELOAD=x rm a.txt", "env PATH=. rm a.txt",
        "hash -p ./s.sh rm; rm a.txt", "enable -f ./x rm; rm a.txt", "unset PATH; rm a.txt",
        "set -o allexport; rm a.txt", "set -f; touch *", "IFS=; touch $x", "shopt -s expand_aliases; rm a.txt", "declare -n x=PATH; rm a",
        // Unknown values, and expressions that may run something.
        "rm $x", "rm \"$x\"", "rm d/$x", "touch \"$x\"", "echo x > $x", "cd $x; rm a.txt",
        "touch $(mktemp)", "mkdir \"$1\"", "rm $(frob)", "cp a.txt $x", "rm ~user/x",
        "((i++)); rm a.txt", "[[ $x -eq 1 ]] && rm a.txt", "x[$i]=1; rm a.txt", "echo $((x)) > a.txt",
        // Options that make programs write more files.
        "cp -b a.txt b.txt", "cp --backup a.txt b.txt", "cp --parents d/e/f.log n", "mv -S ~ a.txt d",
        "ln -sb a.txt b.txt", "sed -i.bak s/a/b/ a.txt", "sed -i 's/a/b/w x' a.txt",
        "sed -i -f s.sh a.txt", "rmdir -p d/e", "o=-b; cp $o$x a.txt b.txt",
        // Commands that outlive the script.
        "rm a.txt &", "(sleep 9; rm a.txt) & rm b.txt", "coproc rm a.txt",
        // Sweeps, and searches that skip directories.
        "rm -rf .", "find . -delete", "find . -name '*.js' -delete",
        // Scripts that cannot be parsed.
        "rm a.txt; shopt -s extglob; rm !(x)", "rm a.txt; echo 'x",
    ], false);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_script_beyond_the_limits_is_not_bounded() {
    let nested = format!("{}rm a.txt{}", "(".repeat(60), ")".repeat(60));
    let evaluated = format!("{}rm a.txt", "eval ".repeat(20));
    let recursive = "f() { f; rm a.txt; }; f".to_owned();
    let long = "rm a.txt\n".repeat(40_000);
    let grown = format!("x=a; {}rm $x", "x=$x$x; ".repeat(40));
    let functions = (0..300).map(|n| format!("f{n}() {{ :; }}; ")).collect::<String>() + "rm a.txt";
    for script in [nested, evaluated, recursive, long, grown, functions] {
        let found = super::analyze(&script);
        assert!(!found.bounded, "{}", script.get(..60).unwrap_or(&script));
    }
}
