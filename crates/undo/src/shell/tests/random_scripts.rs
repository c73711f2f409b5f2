//! Random scripts that change files in many ways.

use proptest::prelude::*;

/// Words that name files.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a.txt", "*.txt", "d", "d/*", "*/*.txt", "{a,b}.txt", "x{1..3}", "x?", "x[12]", "[a-b].*", "$v",
    "\"$v\"", "${v}x", "d/$v", "\"${v%.txt}.log\"", "${v##*/}", "../out/*", "../out/{o1,p}",
    "ln/z.txt", "ln/../a.txt", "ln/..", "lf", "'sp ace.txt'", "sp\\ ace.txt", "$w", "\"$w\"",
    "\"${a[@]}\"", "$(echo b.txt)", "$(ls d)", "$(cat list)", "$(dirname d/e/f.log)/g.txt",
    "$PWD/a.txt", "~/o1", "$HOME/p", "$u", "d/$u", "$1", "${n:-c.log}", "{q}", "d/{a.txt,e/*}",
    "`echo x1`", ".hidden", ".h*", "$(find d -name '*.log')", "x$i", "${a[0]}", "./a.txt", "d/",
    "**/*.txt", "\"$(basename d/a.txt)\"", "$(printf '%s ' x1 x2)", "ln", "ln/", "ln/*", "\"$2\"",
    "\"$@\"", "$*", "${v%.*}", "${v%/*}", "${v/a/b}", "${v:-x1}", "${v:+x2}", "${v:0:1}.txt",
    "${w#* }", "${a[1]}", "x$((1 + 1))", "x$((i))", "~", "~/*", "~/{o1,p/z.txt}", "$OLDPWD/a.txt",
    "$(pwd)/b.txt", "$(basename \"$v\")", "$(dirname \"$v\")/a.txt", "$(echo $w)",
    "$(tr a-z A-Z <<< a.txt)", "$(tr A-Z a-z <<< A.TXT)", "$(head -n 1 list)",
    "$(sort list | tail -n 1)", "x$(seq 2)", "$(find . -name 'x*' -printf '%f ')",
    "$(realpath a.txt)", "d/$(ls d)", "$(ls d)/z", "d/${a[@]}", "n", "n/a.txt", "n/*", "./-x",
    "d/e/..", "../app/d", "$'a.txt'", "\"a\".txt", "\"\"", "$r", "[!x]*.txt", "d/../*.log", "A.TX?",
];

/// Scripts in which `@` is a placeholder for words, and `%` is a placeholder for other scripts.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "rm -rf @", "rm -f @ @", "mv -f @ @", "cp -rf @ @", "echo t > @", "echo t >> @",
    "rm -r @ || true", "touch @", "truncate -s 0 @", "sed -i s/t/u/ @", "tee @ < /dev/null",
    "ln -sf q @", "mkdir -p n/@", "for v in @ @; do %; done", "for i in 1 2; do %; done",
    "while read v; do %; done < list", "ls @ | while read -r v; do %; done", "v=@; %",
    "w='a.txt x1'; %", "a=(@ @); %", "u=@; %", "cd d; %", "cd d && %", "cd @; %", "cd ../out && %",
    "(cd d; %); %", "pushd d; %; popd; %", "cd nowhere; %", "cd nowhere && %; %", "cd nowhere || %",
    "{ %; %; }", "if true; then %; fi; %", "if false; then v=@; fi; %", "case a in a) %;; esac",
    "f() { %; }; f @", "set -- @; %", "find @ -name '*.txt' -delete",
    "find . -name '*.log' -exec rm {} +", "find d -type f | xargs rm -f", "ls *.txt | xargs rm -f",
    "echo @ | xargs rm -rf", "printf '%s\\n' @ | xargs -I{} rm -rf {}",
    "xargs -d '\\n' rm -f < list", "bash -c 'rm -rf \"$1\"' _ @", "bash -c 'cd d; rm -f a.txt'",
    "eval \"rm -f a.txt\"; %", "export v=@; %", "v+=.txt; %", "shopt -s dotglob; %",
    "shopt -s nullglob globstar; %", "%; %", "% && %", "% || %", "cd - ; %", "read v < list; %",
    "k=; while [ ${#k} -lt 3 ]; do k=${k}1; v=x$k; %; done", "unset v; %", "env -C d rm -rf @",
    "cat list | xargs rm -f", "n=@; rm -f \"${n:-c.log}\"", "rm -f -- @", "cp -t d @", "mv @ d/",
    "cp {a,b}.txt", "for v; do %; done", "(cd ln/..; %)", "cd ln/..; %",
    "until [ -e n ]; do %; mkdir n; done", "while read -r v i; do %; done <<< 'x 1'",
    "while IFS=: read -r v w; do %; done <<< 'b.txt:d/a.txt'",
    "find d -type f -print0 | xargs -0 rm -f", "find . -name '*.txt' | while read -r v; do %; done",
    "find @ -delete", "find . -maxdepth 1 -name 'x*' -exec mv {} d \\;",
    "find . -name a.txt -execdir rm -f b.txt \\;",
    "find d -name '*.txt' -exec sh -c 'echo t > \"$1\"' _ {} \\;",
    "find . ! -name '*.txt' -type f -delete", "find -L . -name 'z.txt' -delete",
    "find d -name '*.txt' -exec basename {} \\; | xargs rm -f",
    "o='-name *.log'; find . $o -delete", "ls d | xargs -I{} rm -rf d/{}",
    "ls d | xargs -I% mv d/% .", "ls | xargs -n 1 -I{} cp {} d", "echo @ | xargs -n 1 touch",
    "echo @ @ | xargs cp -f", "printf '%s\\0' @ @ | xargs -0 rm -rf",
    "echo x1,x2 | xargs -d, rm -f", "env -C d bash -c 'rm -f *.txt'",
    "env v=@ bash -c 'rm -f \"$v\"'", "v=@ bash -c 'rm -f \"$v\"'",
    "pushd @ > /dev/null; %; popd; %", "pushd d; pushd nowhere; %; popd; %",
    "cat > @ <<E\ntext\nE\n%", "cat <<E | xargs rm -f\n@\nE\n%", "bash <<E\nrm -f $v b.txt\nE\n%",
    "bash <<'E'\ncd d\nrm -f *\nE\n%", "echo t >| @", "ls &> @", "echo t <> @",
    "exec 3> @; echo t >&3; %", "{ %; } > @", "(%) >> @ 2>&1", "echo a | tee @ @ > /dev/null",
    "echo a | tee -a @", "echo t > >(cat > x1); %", "sed -i.bak s/t/u/ @",
    "sed -i -e s/t/u/ -e s/a/b/ @ @", "sed -n 'w x1' a.txt; %", "mv -t d @", "mv -T @ @",
    "cp -T @ @", "cp -r @ n; %", "cp -a . n; %",
    "cp --parents d/e/f.log n; mkdir -p n; cp --parents d/e/f.log n", "cp -b a.txt @", "cp @ @ d",
    "ln -sfn @ n; %", "ln -s ../out n; %", "ln -f @ @", "ln -t d -s @", "mv d n; %", "mv ln n; %",
    "rm -rf d; cd d; %", "rm ln; ln -s d ln; %", "install -m 600 @ @", "install -D a.txt n/@",
    "rsync -a --delete d/ n/; %", "rsync -a d/ ../out/", "git -C d clean -fdxq",
    "git clean -fdxq d; %", "tar cf x1 d; tar xf x1 -C ../out",
    "tar -C d -cf n.tar .; tar -C ../out -xf n.tar", "tar cf x2 --remove-files @", "gzip -f @",
    "dd if=/dev/null of=@ 2> /dev/null", "split -n 2 a.txt @", "patch -s a.txt < /dev/null; %",
    "eval \"rm -f @\"; %", "eval 'v=@'; %", "c='rm -f'; $c @", "c=(rm -f @); \"${c[@]}\"",
    "for c in 'rm -f a.txt' 'rm -f x1'; do eval \"$c\"; done", "echo 'rm -f x1' | bash; %",
    "trap 'rm -f @' EXIT; %", "(trap 'rm -f a.txt' EXIT; %)", "trap 'rm -f x1' ERR; cd d; false; %",
    "i=1; i=$((i + 1)); %", "((i = 2)); %", "for ((i = 1; i < 3; i++)); do %; done", "let i=2; %",
    "declare -a a=(@ @); %", "a=(@); a+=(@); %", "a=(b.txt); a[0]=@; %", "a[1]=x2; %",
    "mapfile -t a < list; %", "read -r -a a < list; %", "read v i <<< 'x1 sp ace.txt'; %",
    "printf -v v %s @; %", "IFS=,; v=a.txt,x1; %", "local v=@; %",
    "f() { local v=@; %; }; v=@; f @; %", "f() { v=@; return; %; }; f; %", "f() { cd d; }; f; %",
    "f() { cd nowhere || return; %; }; f; %", "f() { shift; %; }; f @ @",
    "f() { %; }; if false; then f() { :; }; fi; f @", "if false; then rm() { :; }; fi; rm -f @",
    "for v in *; do case $v in x*) %;; *.txt) continue;; esac; done",
    "case $v in *.txt) v=@;; *) u=@;; esac; %", "if [ -f a.txt ]; then cd d; else %; fi; %",
    "[[ -e a.txt ]] && cd d; %", "! cd nowhere && %", "cd d & %", "cd d && % & wait",
    "(%) & wait; %", "% | cat", "cat list | (cd d; %)", "set -e; cd nowhere; %", "set -f; %",
    "shopt -s nocaseglob; %", "HOME=d; %", "HOME=$PWD/d; cd; %",
    "CDPATH=../out; cd p > /dev/null; %", "cd -P ln; cd ..; %", "cd \"\"; %", "cd $u; %",
    "cd d/*; %", "cd d; cd ../d; cd -; %", "for v in d ../out; do cd $v; %; cd ..; done",
    "for v in d nowhere; do cd $v || continue; %; cd ..; done", "mkdir -p n; cd n; %", "touch n; %",
    "time %", "command rm -f @", "nice rm -f @", "timeout 1 rm -f @", "exec rm -rf @",
    "unset -f rm; %", "truncate -s $r @", "r='0 b.txt'; truncate -s $r @", "touch -r $w @",
    "w='-t d'; cp $w @", "e=; cp a.txt @ $e", "select v in @; do %; done < /dev/null",
    "rmdir -p n/m; %", "xargs rm -f <<< @", "xargs -I{} bash -c 'rm -f {}' < list",
    "while :; do %; break; done; %", "coproc rm -f @; wait", "awk 'BEGIN { print > \"x1\" }'; %",
    "python3 -c \"open('x1', 'w')\"; %", "cd ln && cd ..; %",
];

pub(super) fn random_scripts() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 8);
    let commands = prop::collection::vec(prop::sample::select(COMMANDS), 4);
    (commands, words).prop_map(|(commands, words)| {
        let mut script = "%".to_owned();
        for command in commands {
            // A `%` in a printf format is not a placeholder.
            let Some(at) = find_place(&script) else { break };
            script.replace_range(at..=at, command);
        }
        while let Some(at) = find_place(&script) {
            script.replace_range(at..=at, "rm -f @");
        }
        let mut words = words.into_iter().cycle();
        let mut filled = String::new();
        for c in script.chars() {
            // The `@` in `${a[@]}` is not a placeholder.
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
