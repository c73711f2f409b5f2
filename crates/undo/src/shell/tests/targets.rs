//! The files that scripts change or delete.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::{ScriptAnalysis, ScriptContext, analyze_script};
use super::analyze;

/// A script, its paths, its sweeps and its unknown commands.
type Row =
    (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// A home directory, a workspace with some files, and a directory beside the two.
struct Scene {
    scratch: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { scratch: tempfile::tempdir().unwrap() };
        for file in [
            "app/.git/HEAD",
            "app/.env",
            "app/a.txt",
            "app/b.txt",
            "app/c.log",
            "app/src/main.rs",
            "app/src/deep/x.log",
            "app/src/deep/y.log",
            "app/with space.txt",
            "app/uploads/one.png",
            "app/uploads/two.png",
            "app/build-1/out",
            "app/build-2/out",
            "app/sub/keep.txt",
            "home/.bashrc",
            "home/notes/n.md",
            "other/f1",
            "other/f2",
            "other/deep/f3",
        ] {
            let path = scene.root().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text\n").unwrap();
        }
        fs::write(scene.root().join("app/list"), "a.txt\nb.txt\n").unwrap();
        symlink("../../other/deep", scene.root().join("app/src/link")).unwrap();
        symlink("../other/f1", scene.root().join("app/to-f1")).unwrap();
        scene
    }

    fn root(&self) -> std::path::PathBuf {
        fs::canonicalize(self.scratch.path()).unwrap()
    }

    fn analyze(&self, script: &str) -> ScriptAnalysis {
        let root = self.root();
        let script = script.replace("@/", &format!("{}/", root.display()));
        analyze_script(
            &script,
            &ScriptContext {
                directory: &root.join("app"),
                workspace: &root.join("app"),
                home: Some(&root.join("home")),
            },
        )
    }

    /// Formats paths relative to the workspace, or relative to the scene with a leading `@/`.
    fn shorten(&self, paths: &[std::path::PathBuf]) -> Vec<String> {
        let root = self.root();
        let mut names: Vec<String> = paths
            .iter()
            .map(|path| match path.strip_prefix(root.join("app")) {
                Ok(inner) if inner == Path::new("") => ".".to_owned(),
                Ok(inner) => inner.display().to_string(),
                Err(_) => match path.strip_prefix(&root) {
                    Ok(inner) => format!("@/{}", inner.display()),
                    Err(_) => path.display().to_string(),
                },
            })
            .collect();
        names.sort();
        names
    }

    /// Checks all rows, and lists every failure.
    fn check(&self, rows: &[Row]) {
        let mut wrong = Vec::new();
        for (script, paths, sweeps, unknown) in rows {
            let found = self.analyze(script);
            let found = (self.shorten(&found.paths), self.shorten(&found.sweeps), found.unknown);
            let sort = |names: &[&str]| {
                let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                names.sort();
                names
            };
            let unknown: Vec<String> = unknown.iter().map(|text| (*text).to_owned()).collect();
            if found != (sort(paths), sort(sweeps), unknown) {
                wrong.push(format!("{script}\n    {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    }
}

#[test]
fn a_script_that_the_script_itself_writes_is_not_overlooked() {
    let scene = Scene::new();
    fs::write(scene.root().join("app/old.sh"), "rm a.txt\n").unwrap();
    let run = |script: &str, paths: &[&str], unknown: &[&str]| {
        let found = scene.analyze(script);
        let mut expected: Vec<&str> = paths.to_vec();
        expected.sort_unstable();
        assert_eq!(scene.shorten(&found.paths), expected, "{script}");
        assert_eq!(found.unknown, unknown, "{script}");
    };
    run("echo 'rm ../x' > s.sh; bash s.sh", &["s.sh", "@/x"], &[]);
    run("echo 'rm ../x' > s.sh; . ./s.sh", &["s.sh", "@/x"], &[]);
    run("cat > s.sh <<'EOF'\nrm ../x\nEOF\nbash s.sh", &["s.sh", "@/x"], &[]);
    run("printf '#!/bin/sh\nrm ../x\n' > s; chmod +x s; ./s", &["s", "@/x"], &[]);
    // If the condition is false, the old script runs.
    run("[ -e y ] && echo 'rm ../x' > old.sh; bash old.sh", &["old.sh", "a.txt", "@/x"], &[]);
    run("echo 'rm ../x' > s.sh; echo 'rm ../y' >> s.sh; bash s.sh", &["s.sh", "@/x", "@/y"], &[]);
    run("curl -s x > s.sh; bash s.sh", &["s.sh"], &["bash s.sh"]);
    run("echo 'rm ../x' > s.sh; sed -i s/x/y/ s.sh; bash s.sh", &["s.sh", "@/x"], &["bash s.sh"]);
    run("cp /tmp/t old.sh; bash old.sh", &["old.sh", "a.txt"], &["bash old.sh"]);
    run("cp /tmp/t old.sh; source old.sh", &["old.sh", "a.txt"], &["source old.sh"]);
    run("bash old.sh", &["a.txt"], &[]);
}

#[test]
fn a_makefile_that_the_script_itself_writes_is_not_overlooked() {
    let scene = Scene::new();
    let app = scene.root().join("app");
    fs::write(app.join("Makefile"), "include rules.mk\nall:\n\techo x\n").unwrap();
    fs::write(app.join("rules.mk"), "clean:\n\trm ../other/f1\n").unwrap();
    let run = |script: &str, paths: &[&str], unknown: &[&str]| {
        let found = scene.analyze(script);
        assert_eq!(scene.shorten(&found.paths), paths, "{script}");
        assert_eq!(found.unknown, unknown, "{script}");
    };
    run("make clean", &["@/other/f1"], &[]);
    run("printf 'clean:\n\trm ../other/f2\n' > m; make -f m clean", &["@/other/f2", "m"], &[]);
    run("curl -s x > m; make -f m clean", &["m"], &["make -f m clean"]);
    run("make -f - clean < x", &[], &["make -f - clean < x"]);
    run("sed -i s/f1/f2/ rules.mk; make clean", &["@/other/f1", "rules.mk"], &["make clean"]);
    // Scripts often edit makefiles, but rarely in order to delete files.
    run("sed -i s/x/y/ Makefile; make all", &["Makefile"], &[]);
}

#[test]
fn git_aliases_are_followed() {
    let scene = Scene::new();
    let aliases = "[alias]\n\tnuke = clean -fdx\n\tdrop = \"!rm -rf ../other\"\n\
                   \tgone = !rm\n\tclean = \"!rm a.txt\"\n\tround = round\n";
    fs::write(scene.root().join("app/.git/config"), aliases).unwrap();
    fs::write(scene.root().join("home/.gitconfig"), "[alias]\nwipe = checkout -f\n").unwrap();
    scene.check(&[
        ("git nuke", &[], &["."], &[]),
        ("git nuke uploads", &[], &["uploads"], &[]),
        ("git wipe", &[], &["."], &[]),
        ("cd sub && git drop", &["@/other"], &[], &[]),
        ("git gone a.txt", &["a.txt"], &[], &[]),
        ("git -c alias.x='clean -fdx' x", &[], &["."], &[]),
        ("git config alias.zap 'clean -fdx' && git zap sub", &[], &["sub"], &[]),
        ("git config --global alias.Zap '!rm' && git zap a.txt", &["a.txt"], &[], &[]),
        // The alias may be in a file that is not read.
        ("git $VERB", &[], &["."], &[]),
        ("printf x >> .git/config; git unknown", &[".git/config"], &["."], &[]),
        // An alias cannot replace one of git's own commands.
        ("git clean -n", &[], &[], &[]),
        ("git round", &[], &[], &[]),
    ]);
}

#[test]
fn git_changes_the_work_tree_that_the_environment_names() {
    let scene = Scene::new();
    scene.check(&[
        (
            "GIT_DIR=@/other/.git GIT_WORK_TREE=@/other git clean -f",
            &["@/other"],
            &["@/other"],
            &[],
        ),
        ("export GIT_WORK_TREE=../other; git clean -fdx", &["@/other"], &["@/other"], &[]),
        ("GIT_WORK_TREE=../other git --work-tree=sub clean -fdx", &[], &["sub"], &[]),
    ]);
}

#[test]
fn the_data_of_a_removed_work_tree_is_reported() {
    let scene = Scene::new();
    let data = scene.root().join("app/.git/worktrees/tree");
    fs::create_dir_all(&data).unwrap();
    fs::create_dir(scene.root().join("tree")).unwrap();
    fs::write(scene.root().join("tree/.git"), format!("gitdir: {}\n", data.display())).unwrap();
    scene.check(&[
        ("git worktree remove ../tree", &[".git/worktrees/tree", "@/tree"], &[], &[]),
        ("git worktree remove --force ../tree", &[".git/worktrees/tree", "@/tree"], &[], &[]),
    ]);
}

#[test]
fn scripts_printed_by_other_commands_are_read_to_the_end() {
    let scene = Scene::new();
    fs::write(scene.root().join("app/one.sh"), "rm a.txt\n").unwrap();
    fs::write(scene.root().join("app/two.sh"), "rm b.txt\n").unwrap();
    scene.check(&[
        ("cat one.sh two.sh | bash", &["a.txt", "b.txt"], &[], &[]),
        ("bash < <(echo 'rm a.txt'; echo 'rm b.txt')", &["a.txt", "b.txt"], &[], &[]),
    ]);
}

#[test]
fn named_operands_are_found() {
    Scene::new().check(&[
        ("rm -rf uploads model.bin dev.sqlite", &["uploads", "model.bin", "dev.sqlite"], &[], &[]),
        ("rm -- -x", &["-x"], &[], &[]),
        ("rm 'with space.txt'", &["with space.txt"], &[], &[]),
        ("mv a.txt b.txt", &["a.txt", "b.txt"], &[], &[]),
        ("mv a.txt b.txt sub", &["a.txt", "b.txt", "sub/a.txt", "sub/b.txt"], &[], &[]),
        ("mv -t sub a.txt", &["a.txt", "sub/a.txt"], &[], &[]),
        ("cp a.txt sub", &["sub/a.txt"], &[], &[]),
        ("cp -r src/ @/other", &["@/other"], &[], &[]),
        ("cp a.txt new", &["new"], &[], &[]),
        ("ln -sf ../x sub/keep.txt", &["sub/keep.txt"], &[], &[]),
        ("chmod 755 a.txt", &["a.txt"], &[], &[]),
        ("truncate -s 0 c.log", &["c.log"], &[], &[]),
        ("dd if=/dev/zero of=c.log", &["c.log"], &[], &[]),
        ("sed -i s/a/b/ a.txt b.txt", &["a.txt", "b.txt"], &[], &[]),
        ("sed -i -e s/a/b/ a.txt", &["a.txt"], &[], &[]),
        ("sed -i s/unlink/rmtree/ a.txt", &["a.txt"], &[], &[]),
        ("sed -n 'w c.log' a.txt; touch x", &["c.log", "a.txt", "x"], &[], &[]),
        ("sed -i '' s/a/b/ a.txt", &["a.txt"], &[], &[]),
        ("gzip c.log", &["c.log", "c.log.gz"], &[], &[]),
        ("rsync -a --delete src/ @/other/", &["@/other"], &[], &[]),
        ("rsync -a a.txt host:/x", &[], &[], &[]),
        ("echo x > a.txt", &["a.txt"], &[], &[]),
        ("ls | tee c.log", &["c.log"], &[], &[]),
        ("frobnicate uploads --to=c.log nothing", &["uploads", "c.log"], &[], &[]),
        ("frobnicate .", &[], &[], &[]),
        ("cat a.txt; touch n", &["n"], &[], &[]),
        ("curl -o c.log http://h/x", &["c.log"], &[], &[]),
        ("wget http://h/a.txt?x=1", &["a.txt"], &[], &[]),
        ("tar czf c.log src", &["c.log"], &[], &[]),
        ("git rm -r uploads", &["uploads"], &[], &[]),
        ("rm -rf .git", &[".git"], &[], &[]),
        ("rm -rf $PWD", &["."], &["."], &[]),
        ("rm -rf @/app/../app/a.txt", &["a.txt"], &[], &[]),
    ]);
}

#[test]
fn words_are_expanded() {
    Scene::new().check(&[
        ("rm *.txt", &["a.txt", "b.txt", "with space.txt"], &[], &[]),
        ("rm \"*.txt\"", &["*.txt"], &[], &[]),
        ("rm none*.txt", &["none*.txt"], &[], &[]),
        ("rm [ab].txt ?.log", &["a.txt", "b.txt", "c.log"], &[], &[]),
        ("rm [!a].txt", &["b.txt"], &[], &[]),
        ("rm src/**/*.log", &["src/deep/x.log", "src/deep/y.log"], &[], &[]),
        ("rm {a,b}.txt", &["a.txt", "b.txt"], &[], &[]),
        ("rm a{,.bak} f{1..3} {x}", &["a", "a.bak", "f1", "f2", "f3", "{x}"], &[], &[]),
        ("rm -r build-{1,$n}", &["build-1", "build-2"], &[], &[]),
        (
            "rm ~/.bashrc $HOME/x {~/y,z}",
            &["@/home/.bashrc", "@/home/x", "@/home/y", "z"],
            &[],
            &[],
        ),
        ("D=uploads; rm -r $D \"$D/x\" ${D}y", &["uploads", "uploads/x", "uploadsy"], &[], &[]),
        ("D=~/notes; rm -r $D", &["@/home/notes"], &[], &[]),
        ("export D=sub && rm $D/k*", &["sub/keep.txt"], &[], &[]),
        ("F='a.txt b.txt'; rm $F", &["a.txt", "b.txt"], &[], &[]),
        ("F=(a.txt 'with space.txt'); rm \"${F[@]}\"", &["a.txt", "with space.txt"], &[], &[]),
        ("F='with space.txt'; G=$F; rm \"$G\"", &["with space.txt"], &[], &[]),
        ("P=*.log; rm \"$P\"", &["*.log"], &[], &[]),
        ("P='*.log'; rm $P", &["c.log"], &[], &[]),
        ("D=sub; D+=/keep; rm $D.txt", &["sub/keep.txt"], &[], &[]),
        ("rm -rf build-$VERSION", &["build-1", "build-2"], &[], &[]),
        ("rm -rf uploads/$X", &["uploads"], &[], &[]),
        ("rm -rf @/other/$X/y", &["@/other"], &[], &[]),
        ("rm \"${X:-a.txt}\"", &["a.txt"], &[], &["rm \"${X:-a.txt}\""]),
        ("X=b.txt; rm \"${X:-a.txt}\"", &["b.txt"], &[], &[]),
        ("f=a.txt; mv $f ${f%.txt}.md", &["a.txt", "a.md"], &[], &[]),
        (
            "f=src/main.rs; rm ${f##*/} $(basename $f .rs) $(dirname $f)/z",
            &["main.rs", "main", "src/z"],
            &[],
            &[],
        ),
        ("rm $(echo a.txt)", &["a.txt"], &[], &[]),
        ("rm \"$(pwd)/a.txt\"", &["a.txt"], &[], &[]),
        ("rm -rf \"$(git rev-parse --show-toplevel)/uploads\"", &["uploads"], &[], &[]),
        ("d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; touch $d/x", &[], &[], &[]),
        ("trap 'rm -rf \"$d\"' EXIT; d=uploads", &["uploads"], &[], &[]),
        ("rm $(cat list)", &["a.txt", "b.txt"], &[], &[]),
    ]);
}

#[test]
fn wildcards_match_hidden_files_but_not_hidden_directories() {
    let scene = Scene::new();
    let paths = |script: &str| scene.shorten(&scene.analyze(script).paths);
    assert!(paths("rm -rf *").contains(&".env".to_owned()));
    assert!(!paths("rm -rf *").contains(&".git".to_owned()));
    assert!(paths("rm -rf *").contains(&"uploads".to_owned()));
    assert!(paths("shopt -s dotglob; rm -rf *").contains(&".git".to_owned()));
    assert!(paths("rm -rf .*").contains(&".git".to_owned()));
}

#[test]
fn changes_of_the_current_directory_are_followed() {
    Scene::new().check(&[
        ("cd sub && rm keep.txt", &["sub/keep.txt"], &[], &[]),
        ("cd @/other; rm f*", &["@/other/f1", "@/other/f2"], &[], &[]),
        ("(cd @/other); rm a.txt", &["a.txt"], &[], &[]),
        ("(cd @/other && rm f1); rm a.txt", &["@/other/f1", "a.txt"], &[], &[]),
        ("cd @/other && cd - && rm a.txt", &["a.txt"], &[], &[]),
        ("pushd @/other; rm f1; popd; rm a.txt", &["@/other/f1", "a.txt"], &[], &[]),
        ("cd sub && (cd none; cd -; rm f)", &["f", "sub/f"], &[], &[]),
        // `cd` fails if the directory before `..` does not exist.
        ("cd sub; (cd none/..; cd -; rm f)", &["f", "sub/f"], &[], &[]),
        ("cd none || cd sub; rm f", &["none/f", "sub/f"], &[], &[]),
        ("cd sub || cd src && rm f", &["sub/f", "sub/src/f"], &[], &[]),
        ("cd none && exit; rm f", &["none/f", "f"], &[], &[]),
        ("! cd none && rm f", &["none/f", "f"], &[], &[]),
        ("g() { cd none || return; rm f; }; g; rm h", &["none/f", "none/h", "h"], &[], &[]),
        ("for x in 1; do cd none || continue; done; rm f", &[], &[], &["rm f"]),
        ("rm -r sub; cd sub; rm f", &["sub", "sub/f", "f"], &[], &[]),
        ("cd sub && rm f & rm g", &["sub/f", "g"], &[], &[]),
        ("pushd sub; pushd none; popd; rm f", &["f", "sub/f", "sub/none/f"], &[], &[]),
        ("cd none || pushd sub; pushd none; popd; rm f", &[], &[], &["rm f"]),
        ("x && cd sub; rm k*", &["k*", "sub/k*", "sub/keep.txt", "keep.txt"], &[], &[]),
        ("cd \"\"; rm f", &["f", "@/home/f"], &[], &[]),
        ("cd -P src/link; cd ..; rm f1", &["@/other/f1"], &[], &[]),
        ("if x; then cd sub; cd ..; fi; cd - || exit; rm f", &[], &[], &["rm f"]),
        ("cd && rm .bashrc", &["@/home/.bashrc"], &[], &[]),
        ("cd none; rm a.txt", &["none/a.txt", "a.txt"], &[], &[]),
        ("cd none && rm a.txt", &["none/a.txt"], &[], &[]),
        ("cd none || exit 1; rm a.txt", &["none/a.txt"], &[], &[]),
        ("cd none || rm a.txt", &["a.txt"], &[], &[]),
        ("if true; then cd @/other; fi; rm f1", &["@/other/f1", "f1"], &[], &[]),
        ("cd $X; rm f1", &[], &[], &["rm f1"]),
        ("cd @/other; npm install", &["@/other"], &[], &[]),
        ("env -C @/other rm f1", &["@/other/f1"], &[], &[]),
        ("env -C @/other X=1 rm f1; rm a.txt", &["@/other/f1", "a.txt"], &[], &[]),
        ("unzip x.zip -d @/other", &["@/other"], &[], &[]),
        ("unzip -o x.zip -d @/other", &["@/other"], &[], &[]),
        ("unzip -qod ~/out x.zip", &["@/home/out"], &[], &[]),
        ("cpio -idm -D @/other < x", &["@/other"], &[], &[]),
        ("cpio -i --directory=sub < x", &["sub"], &[], &[]),
        ("ls | cpio -pdm @/other", &["@/other"], &[], &[]),
        ("ls | cpio -o -O c.log", &["c.log"], &[], &[]),
        ("7z x -aoa x.7z -osub", &["sub"], &[], &[]),
        ("unrar x -o+ x.rar @/other/", &["@/other"], &[], &[]),
        ("tar xzf x.tgz -C sub", &["sub"], &[], &[]),
        ("tar xf x.tar", &[], &["."], &[]),
        ("patch -d @/other -p1 < x", &["@/other"], &[], &[]),
        ("git -C @/other rm f1", &["@/other/f1"], &[], &[]),
        ("make -C sub clean", &["sub"], &["sub"], &[]),
        ("for d in src sub; do cd $d; rm x; cd ..; done", &["src/x", "sub/x"], &[], &[]),
    ]);
}

#[test]
fn words_that_expand_to_several_words_or_to_no_word_are_followed() {
    Scene::new().check(&[
        (
            "v=$(printf 'sub\nb.txt'); rm $v/keep.txt",
            &["sub", "sub/keep.txt", "b.txt/keep.txt"],
            &[],
            &[],
        ),
        (
            "w='b.txt sub'; mv a.txt $w",
            &["a.txt", "b.txt", "sub", "sub/a.txt", "sub/b.txt", "sub/sub"],
            &[],
            &[],
        ),
        ("e=; cp a.txt b.txt $e", &["b.txt"], &[], &[]),
        ("cp a.txt b.txt none*", &["b.txt", "none*"], &[], &[]),
        ("o='-t sub'; cp $o a.txt", &["-t", "a.txt", "sub/-t", "sub/a.txt", "sub/sub"], &[], &[]),
        ("w='a.txt b.txt'; g() { rm $2; }; g $w", &["a.txt", "b.txt"], &[], &[]),
        ("x=a.txt,b.txt; IFS=,; rm $x", &["a.txt", "b.txt", "a.txt,b.txt"], &[], &[]),
        ("IFS=: read x y <<< a.txt:b.txt; rm $y", &["a.txt", "b.txt", "a.txt:b.txt"], &[], &[]),
        (
            "read x y <<< 'x with space.txt'; rm \"$y\"",
            &["x", "with", "space.txt", "with space.txt", "x with space.txt"],
            &[],
            &[],
        ),
        ("v=a.txt; printf -v v %s b.txt; rm $v", &["b.txt"], &[], &[]),
        ("for c in 'rm a.txt' 'rm b.txt'; do eval \"$c\"; done", &["a.txt", "b.txt"], &[], &[]),
        ("v=x; bash -c 'cp a.txt b.txt $v'", &["b.txt", "x"], &[], &[]),
        ("HOME=@/other; rm ~/f1", &["@/other/f1"], &[], &[]),
        ("rm ~+/a.txt", &[], &[], &["rm ~+/a.txt"]),
        ("shopt -s nocaseglob; rm A.*", &["a.txt"], &[], &[]),
        ("echo 'rm a.txt' | bash", &["a.txt"], &[], &[]),
        ("v=a.txt; bash <<E\nrm $v\nE", &["a.txt"], &[], &[]),
        ("echo a.txt,b.txt | xargs -d , rm", &["a.txt", "b.txt", "a.txt,b.txt"], &[], &[]),
        (
            "echo \"'with space.txt'\" | xargs rm",
            &["'with", "'with space.txt'", "space.txt'", "space.txt", "with", "with space.txt"],
            &[],
            &[],
        ),
        ("chmod -x a.txt", &["a.txt"], &[], &[]),
        ("x=a,b; IFS=,; rm sub/$x", &["a", "b", "sub/a", "sub/b", "sub/a,b"], &[], &[]),
        ("find $(find sub -name k*) -name a.txt -delete", &["a.txt"], &[], &[]),
        (
            "a=(x y); rm sub/${a[@]}.z",
            &["sub/x", "sub/x.z", "sub/y", "sub/y.z", "x", "x.z", "y", "y.z"],
            &[],
            &[],
        ),
        ("env v=~/x bash -c 'rm $v'", &["~/x", "@/home/x"], &[], &[]),
        ("dd if=x of=~/x", &["~/x", "@/home/x"], &[], &[]),
        ("w='a.txt b.txt'; IFS=; rm $w", &["a.txt", "b.txt", "a.txt b.txt"], &[], &[]),
        ("e=; ln -f sub/keep.txt $e", &["keep.txt", "sub/keep.txt"], &[], &[]),
        ("v=a.txt; select v in b.txt; do :; done; rm $v", &["a.txt", "b.txt"], &[], &[]),
        ("env v={a,b}.txt bash -c 'rm $v'", &["a.txt", "b.txt"], &[], &[]),
        ("env v=$x bash -c 'rm a.txt'", &["a.txt"], &[], &[]),
        ("a=(a.txt); a[0]=b.txt; rm ${a[0]}", &["a.txt", "b.txt"], &[], &[]),
        ("declare -a a=([ab].txt); rm ${a[0]}", &["a.txt", "b.txt"], &[], &[]),
        ("env -C sub rm $(realpath a.txt)", &["a.txt"], &[], &[]),
        ("bash <<E\nrm $v a.txt\nE", &[], &[], &["rm"]),
        ("find $(ls none) -name a.txt -delete", &["a.txt"], &[], &[]),
    ]);
}

#[test]
fn later_commands_see_the_changes_of_earlier_ones() {
    Scene::new().check(&[
        ("touch z1; for f in z*; do cp $f @/other/$f; done", &["z1", "@/other/z1"], &[], &[]),
        ("cp -r sub new; rm new/*", &["new"], &[], &[]),
        ("cp -r sub new; for f in new/*; do rm sub/${f##*/}; done", &["new", "sub"], &[], &[]),
        ("mv a.txt z.txt; rm $(ls z*)", &["a.txt", "z.txt"], &[], &[]),
        ("ln -s @/other here; rm here/f1", &["here", "here/f1", "@/other/f1"], &[], &[]),
        ("ln -s @/other here; rm here/*", &["here", "@/other"], &[], &[]),
        ("ln -s @/other here; cd here && rm f1", &["here", "here/f1", "@/other/f1"], &[], &[]),
        (
            "rm src/link; ln -s ../sub src/link; rm src/link/keep.txt",
            &["src/link", "@/other/deep/sub", "@/other/deep/keep.txt", "sub/keep.txt"],
            &[],
            &[],
        ),
        (
            "rm src/link; ln -s deep src/link; rm src/link/../z",
            &["src/link", "@/other/deep/deep", "@/other/z", "src/z"],
            &[],
            &[],
        ),
        (
            "ln -s @/other y; ln -s y z; rm z/f1",
            &["y", "z", "z/f1", "y/f1", "@/other/f1"],
            &[],
            &[],
        ),
        ("ln -s y y; echo x > y/f", &["y", "y/f"], &[], &["> y/f"]),
        ("ln -sfn ../sub src/link", &["src/link", "@/other/deep/sub"], &[], &[]),
        ("mv to-f1 z; echo x > z", &["to-f1", "z", "@/other/f1"], &[], &[]),
        ("cp -r src z; rm z/link/f3", &["z", "z/link/f3"], &[], &["rm z/link/f3"]),
        ("echo c.log > list; rm $(cat list)", &["list"], &[], &["rm $(cat list)"]),
    ]);
}

#[test]
fn loops_and_functions_are_followed() {
    Scene::new().check(&[
        ("for f in *.txt; do rm \"$f\"; done", &["a.txt", "b.txt", "with space.txt"], &[], &[]),
        ("for d in uploads sub; do rm -rf ./$d; done", &["uploads", "sub"], &[], &[]),
        (
            "for i in 1 2; do for k in x y; do rm $i$k; done; done",
            &["1x", "1y", "2x", "2y"],
            &[],
            &[],
        ),
        (
            "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
            &["a.txt", "b.txt", "with space.txt", "a.md", "b.md", "with space.md"],
            &[],
            &[],
        ),
        ("while read f; do rm $f; done < list", &["a.txt", "b.txt"], &[], &[]),
        ("cat list | while read -r f; do rm \"$f\"; done", &["a.txt", "b.txt"], &[], &[]),
        ("while IFS= read -r f; do rm \"$f\"; done < list", &["a.txt", "b.txt"], &[], &[]),
        ("f=a.txt; f=b.txt true; rm $f", &["a.txt"], &[], &[]),
        ("while read f; do rm \"$f\"; done", &[], &[], &["rm \"$f\""]),
        ("x=; while true; do x=$x/a; rm -r sub$x; done", &["sub", "sub/a", "sub/a/a"], &[], &[]),
        ("f() { rm -rf \"$1\"; }; f uploads", &["uploads"], &[], &[]),
        ("f() { for x; do rm $x; done; }; f a.txt b.txt", &["a.txt", "b.txt"], &[], &[]),
        ("f() { f; rm a.txt; }; f", &["a.txt"], &[], &[]),
        ("set -- a.txt b.txt; rm \"$@\"", &["a.txt", "b.txt"], &[], &[]),
        ("if x; then set -- a.txt; else set -- b.txt; fi; rm $1", &[], &[], &["rm $1"]),
        (
            "if x; then g() { rm a.txt; }; else g() { rm b.txt; }; fi; g",
            &["a.txt", "b.txt"],
            &[],
            &[],
        ),
        ("if x; then rm() { :; }; fi; rm a.txt", &["a.txt"], &[], &[]),
        ("v=a.txt; g() { local v=b.txt; }; g; rm $v", &["a.txt", "b.txt"], &[], &[]),
        ("v=a.txt; local v=b.txt; rm $v", &["a.txt", "b.txt"], &[], &[]),
        ("v=sub w=$v/x; rm $w", &["sub/x"], &[], &[]),
        ("(cd sub; trap 'rm f' EXIT); rm g", &["sub/f", "g"], &[], &[]),
        ("trap 'rm f' EXIT; cd sub; exit; cd ..", &["f", "sub/f"], &[], &[]),
        ("a=1 b=1 c=1; while x; do rm $a; a=$b; b=$c; c=2; done", &["1"], &[], &["rm $a"]),
        (
            "case x in a) D=uploads;; *) D=sub;; esac; rm -r $D",
            &["uploads", "sub"],
            &[],
            &["rm -r $D"],
        ),
        ("if x; then D=uploads; else D=sub; fi; rm -r $D", &["uploads", "sub"], &[], &["rm -r $D"]),
    ]);
}

#[test]
fn files_printed_by_find_or_received_through_a_pipe_are_reported() {
    Scene::new().check(&[
        ("find src -name '*.log' -delete", &["src/deep/x.log", "src/deep/y.log"], &[], &[]),
        (
            "find . -name '*.log' -exec rm {} +",
            &["c.log", "src/deep/x.log", "src/deep/y.log"],
            &[],
            &[],
        ),
        ("find . -type f -delete", &["."], &["."], &[]),
        ("find uploads -type f -delete", &["uploads"], &[], &[]),
        ("find src \\( -name a -o -name b \\) -delete", &["src"], &[], &[]),
        ("find @/other -mtime +3 -exec rm {} \\;", &["@/other"], &[], &[]),
        ("find src -name '*.log' | xargs rm", &["src/deep/x.log", "src/deep/y.log"], &[], &[]),
        ("find uploads -print0 | xargs -0 rm -f", &["uploads"], &[], &[]),
        (
            "ls *.txt | xargs rm",
            &["a.txt", "b.txt", "with", "space.txt", "with space.txt"],
            &[],
            &[],
        ),
        ("echo A.TXT | tr A-Z a-z | xargs rm", &["."], &["."], &[]),
        ("o='-name *.log'; find src $o -delete", &["src"], &[], &[]),
        ("find -L src -name f3 -delete", &["src", "src/link", "@/other/deep"], &[], &[]),
        (
            "find src -name '*.log' -execdir rm x \\;",
            &["x"],
            &[],
            &["find src -name '*.log' -execdir rm x \\;"],
        ),
        (
            "find src -name m* -exec basename {} \\; | xargs rm",
            &["main.rs", "src/main.rs"],
            &[],
            &[],
        ),
        ("rm $(find src -name m* -printf %f)", &[], &[], &["rm $(find src -name m* -printf %f)"]),
        (
            "ls uploads | xargs -I{} rm uploads/{}",
            &["uploads/one.png", "uploads/two.png", "uploads/uploads"],
            &[],
            &[],
        ),
        ("echo a.txt b.txt | xargs rm", &["a.txt", "b.txt", "a.txt b.txt"], &[], &[]),
        ("printf '%s\\n' a.txt b.txt | xargs rm", &["a.txt", "b.txt"], &[], &[]),
        ("git ls-files sub | xargs rm", &["."], &["."], &[]),
        ("grep -rl foo src | xargs sed -i s/foo/bar/", &["src"], &[], &[]),
        ("xargs rm < list", &["a.txt", "b.txt"], &[], &[]),
        ("xargs -a list rm", &["a.txt", "b.txt"], &[], &[]),
        ("frob | xargs rm", &[], &[], &["xargs rm"]),
        ("ls uploads/* | sed s/one/two/ | xargs rm", &["uploads"], &[], &[]),
        ("rm -rf \"$DIR\"", &[], &[], &["rm -rf \"$DIR\""]),
        ("rm -rf $(frob)", &[], &[], &["rm -rf $(frob)"]),
        ("mkdir -p \"$DIR\"; touch $X; frob $Y", &[], &[], &[]),
    ]);
}

#[test]
fn files_found_by_fd_are_reported() {
    Scene::new().check(&[
        ("fd -e log -x rm", &["c.log", "src/deep/x.log", "src/deep/y.log"], &[], &[]),
        ("fd '\\.log$' src -X rm -f {}", &["src/deep/x.log", "src/deep/y.log"], &[], &[]),
        ("fd -g '*.png' --exec-batch rm", &["uploads/one.png", "uploads/two.png"], &[], &[]),
        ("fd one -Hx rm {} \\; uploads", &["uploads/one.png"], &[], &[]),
        ("fd . uploads -X rm", &["uploads"], &[], &[]),
        ("fd -C uploads one -x rm", &["uploads/one.png"], &[], &[]),
        ("fd 'a|b' src -x rm", &["src"], &[], &[]),
        ("fd -x rm", &["."], &["."], &[]),
        ("fd . $DIR -x rm", &[], &[], &["fd . $DIR -x rm"]),
        ("fd one -x cat", &[], &[], &[]),
    ]);
}

#[test]
fn files_changed_by_awk_are_reported() {
    let scene = Scene::new();
    fs::write(scene.root().join("app/x.awk"), "{ print > \"b.txt\" }\n").unwrap();
    scene.check(&[
        (
            "awk -i inplace '{print 1}' a.txt uploads/*",
            &["a.txt", "uploads/one.png", "uploads/two.png"],
            &[],
            &[],
        ),
        ("gawk -i inplace -v n=1 -f x.awk n=2 a.txt", &["a.txt", "b.txt"], &[], &[]),
        ("gawk '@include \"inplace\"; {print 1}' a.txt", &["a.txt"], &[], &[]),
        ("awk 'BEGIN{system(\"rm -rf uploads\")}'", &["uploads"], &[], &[]),
        ("awk '{print | \"sort > c.log\"}' a.txt", &["c.log"], &[], &[]),
        ("awk '{system(\"rm \" $1)}' list", &[], &[], &["awk '{system(\"rm \" $1)}' list"]),
        (
            "awk '{print \"rm \" $1 | \"sh\"}' list",
            &[],
            &[],
            &["awk '{print \"rm \" $1 | \"sh\"}' list"],
        ),
        ("awk '{system($0)}' list", &[], &[], &["awk '{system($0)}' list"]),
        ("awk '{system(\"echo \" $1)}' list", &[], &[], &[]),
        ("awk -i inplace 1 $FILE", &[], &[], &["awk -i inplace 1 $FILE"]),
    ]);
}

#[test]
fn sweeps_are_recognized() {
    let scene = Scene::new();
    let rows: &[&str] = &[
        "git clean -fdx",
        "cd sub; git checkout -f",
        "git checkout main",
        "git checkout .",
        "git restore .",
        "git reset --hard",
        "git reset --hard HEAD~1",
        "git stash -u",
        "git stash --include-untracked",
        "git stash pop",
        "git switch main",
        "git pull",
        "git merge x",
        "git rebase main",
        "sudo git clean -fd",
        "bash -c 'git clean -fdx'",
        "make clean",
        "make -j4 distclean",
        "cargo clean",
        "npm run clean",
        "yarn clean:all",
        "ninja -t clean",
        "./gradlew clean build",
        "./scripts/reset-db.sh",
        "find . -delete",
        "rm -rf .",
        "patch -p1 < x.diff",
        "unzip x.zip",
        "unzip -o x.zip",
        "cpio -idm < x",
        "git submodule deinit -f --all",
        "cd sub; git submodule deinit --all --force",
    ];
    for script in rows {
        assert_eq!(scene.shorten(&scene.analyze(script).sweeps), ["."], "{script}");
    }
    for script in [
        "git clean -n",
        "git checkout -b new",
        "git switch -c new",
        "git reset HEAD a.txt",
        "git stash",
        "git commit -m 'clean up'",
        "git restore --staged .",
        "git add .",
        "npm install",
        "cargo build",
        "echo clean > x",
        "kubectl delete pod x",
        "docker system prune",
    ] {
        assert_eq!(scene.shorten(&scene.analyze(script).sweeps), Vec::<String>::new(), "{script}");
    }
    scene.check(&[
        ("git clean -fd uploads", &[], &["uploads"], &[]),
        ("git submodule deinit -f sub", &["sub"], &[], &[]),
        ("cd sub && git clean -fdx", &[], &["sub"], &[]),
        ("git checkout HEAD -- a.txt src", &["a.txt"], &["src"], &[]),
        ("git -C sub clean -fdx", &[], &["sub"], &[]),
        ("cd @/other && git clean -fdx", &["@/other"], &["@/other"], &[]),
        ("cd $X && git clean -fdx", &[], &[], &["git clean -fdx"]),
    ]);
}

#[test]
fn the_output_of_printf_is_predicted() {
    Scene::new().check(&[
        ("eval \"$(printf 'rm -rf %s' uploads)\"", &["uploads"], &[], &[]),
        ("printf 'rm %s\\n' a.txt uploads | sh", &["a.txt", "uploads"], &[], &[]),
        ("rm $(printf -- '%s.txt' a)", &["a.txt"], &[], &[]),
    ]);
}

#[test]
fn pathspecs_of_git_are_expanded() {
    Scene::new().check(&[
        ("git clean -fdx '*.bin'", &[], &["."], &[]),
        ("git clean -fdx 'sub/*.bin'", &[], &["sub"], &[]),
        ("cd sub && git clean -fdx :/", &[], &["."], &[]),
        ("git clean -fdx ':!src'", &[], &["."], &[]),
        ("git restore --source=x '.e*'", &[], &["."], &[]),
        ("git checkout x -- ':(top)uploads'", &[], &["."], &[]),
        ("git checkout x a.txt 'sub/*'", &["a.txt"], &["sub"], &[]),
        ("git restore --source=x --pathspec-from-file=list", &[], &["."], &[]),
        ("git checkout x --pathspec-from-file list", &[], &["."], &[]),
        ("git restore --staged '*'", &[], &[], &[]),
    ]);
}

#[test]
fn the_files_that_a_diff_changes_are_named() {
    let scene = Scene::new();
    let diff = "--- a/a.txt\t2026\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new\n";
    fs::write(scene.root().join("app/x.patch"), diff).unwrap();
    scene.check(&[
        ("git apply x.patch", &["a.txt"], &["."], &[]),
        ("git -C . apply -p1 x.patch", &["a.txt"], &["."], &[]),
        ("patch -p1 < x.patch", &["a.txt"], &["."], &[]),
        ("patch -i x.patch", &["a.txt"], &["."], &[]),
        ("cat x.patch | git apply -", &["a.txt"], &["."], &[]),
        ("cd sub && git apply ../x.patch", &["a.txt"], &["."], &[]),
        ("git apply <<'E'\n--- a/a.txt\nE\n", &["a.txt"], &["."], &[]),
        ("printf -- '--- a/%s\\n' a.txt | git apply", &["a.txt"], &["."], &[]),
        (
            "cat > y.patch <<'E'\n--- a/a.txt\nE\ngit apply y.patch",
            &["a.txt", "y.patch"],
            &["."],
            &[],
        ),
        ("git apply --check x.patch", &[], &[], &[]),
    ]);
}

#[test]
fn creating_a_directory_that_exists_changes_no_files_in_it() {
    Scene::new().check(&[
        ("mkdir -p ~/notes", &[], &[], &[]),
        ("mkdir -p ~/notes/$X", &[], &[], &[]),
        ("mkdir -p ~/notes/new sub", &["@/home/notes/new"], &[], &[]),
        ("mkdir -p src/link", &[], &[], &[]),
        ("touch ~/notes sub/", &[], &[], &[]),
        ("touch src/link", &[], &[], &[]),
        ("touch ~/notes/n.md ~/new", &["@/home/notes/n.md", "@/home/new"], &[], &[]),
        ("ln -s @/other here; touch here", &["here"], &[], &[]),
        ("rm -r sub; mkdir sub; touch sub/x", &["sub", "sub/x"], &[], &[]),
        ("chmod -R 755 ~/notes", &["@/home/notes"], &[], &[]),
    ]);
}

#[test]
fn bind_mounts_of_containers_are_reported() {
    Scene::new().check(&[
        ("docker run -v ~/out:/x img", &["@/home/out"], &[], &[]),
        ("docker run --rm -itv @/other:/x:z img", &["@/other"], &[], &[]),
        ("docker run -v$HOME/notes:/x img", &["@/home/notes"], &[], &[]),
        ("podman run --volume=./sub:/x img sh -c 'ls /x'", &["sub"], &[], &[]),
        ("docker container create --volume @/other:/x img", &["@/other"], &[], &[]),
        ("docker run --mount type=bind,source=@/other,target=/x img", &["@/other"], &[], &[]),
        ("docker run --mount=type=bind,target=/x,src=$PWD/sub img", &["sub"], &[], &[]),
        ("docker run -v @/other:/x:$MODE img", &["@/other"], &[], &[]),
        ("docker compose run -v @/new:/x web", &["@/new"], &[], &[]),
        // The workspace is captured anyway.
        ("docker run -v $PWD:/x img", &[], &[], &[]),
        // A container cannot change a mount that is read-only.
        ("docker run -v ~/notes:/x:ro img", &[], &[], &[]),
        ("docker run --mount type=bind,src=@/other,dst=/x,readonly img", &[], &[], &[]),
        // A named volume is not a host path.
        ("docker run -v sub:/x img", &[], &[], &[]),
        ("docker run --mount type=volume,source=sub,target=/x img", &[], &[], &[]),
        ("docker rm -v web", &[], &[], &[]),
    ]);
}

#[test]
fn scripts_within_scripts_are_read() {
    let scene = Scene::new();
    let app = scene.root().join("app");
    fs::write(app.join("wipe-it"), "#!/bin/bash\ncd uploads\nrm \"$1\" $HOME/x\n").unwrap();
    fs::write(app.join("env.sh"), "D=sub\n").unwrap();
    fs::write(app.join("package.json"), r#"{"scripts":{"tidy":"rm -rf uploads"}}"#).unwrap();
    scene.check(&[
        ("bash wipe-it one.png", &["uploads/one.png", "@/home/x"], &[], &[]),
        ("sh ./wipe-it one.png; rm a.txt", &["uploads/one.png", "@/home/x", "a.txt"], &[], &[]),
        (". ./env.sh; rm -r $D", &["sub"], &[], &[]),
        ("npm run tidy", &["uploads"], &[], &[]),
        ("bash -c 'rm \"$1\"' x a.txt", &["a.txt"], &[], &[]),
        ("bash <<E\nrm a.txt\nE", &["a.txt"], &[], &[]),
        ("eval 'D=sub; rm -r $D'", &["sub"], &[], &[]),
        ("python3 -c \"import shutil; shutil.rmtree('uploads')\"", &["uploads"], &[], &[]),
        ("python3 - <<'E'\nopen('c.log', 'w')\nE", &["c.log"], &[], &[]),
        ("node -e \"fs.rmSync('sub/keep.txt')\"", &["sub/keep.txt"], &[], &[]),
        (
            "python3 -c \"import os; os.remove(x)\"",
            &[],
            &[],
            &["python3 -c \"import os; os.remove(x)\""],
        ),
        ("sudo -u me nice rm a.txt", &["a.txt"], &[], &[]),
        (
            "find uploads -name 'o*' -exec sh -c 'rm \"$1\"' _ {} \\;",
            &["uploads/one.png"],
            &[],
            &[],
        ),
        ("ls *.log | xargs -I{} sh -c 'rm {}'", &["c.log"], &[], &[]),
        ("timeout 5 xargs rm < list", &["a.txt", "b.txt"], &[], &[]),
    ]);
    // The shell also runs a text file that names no interpreter.
    fs::write(app.join("plain.sh"), "# wipe\nrm uploads/$1\n").unwrap();
    fs::write(app.join("other.py"), "#!/usr/bin/python3\nrm = 'uploads/one.png'\n").unwrap();
    let runs = |script: &str| scene.shorten(&scene.analyze(script).paths);
    for script in ["./wipe-it one.png", "./plain.sh one.png"] {
        let found = runs(script);
        assert!(found.contains(&"uploads/one.png".to_owned()), "{script}: {found:?}");
    }
    assert!(runs("./other.py").is_empty());
}

#[test]
fn an_applied_patch_changes_only_its_files() {
    let scene = Scene::new();
    let patch =
        "*** Begin Patch\n*** Delete File: a.txt\n*** Update File: ../other/f1\n*** End Patch";
    for (script, paths) in [
        (format!("apply_patch <<'EOF'\n{patch}\nEOF"), ["@/other/f1", "a.txt"]),
        (format!("apply_patch '{patch}'"), ["@/other/f1", "a.txt"]),
        (format!("cd src && apply_patch <<EOF\n{patch}\nEOF"), ["other/f1", "src/a.txt"]),
    ] {
        let found = scene.analyze(&script);
        assert_eq!(scene.shorten(&found.paths), paths, "{script}");
        assert!(found.mutates && found.bounded, "{script}");
    }
    for script in ["apply_patch < frob", "apply_patch \"$PATCH\""] {
        assert!(!scene.analyze(script).bounded, "{script}");
    }
}

#[test]
fn deleted_and_moved_paths_are_distinguished_from_written_ones() {
    let scene = Scene::new();
    let app = scene.root().join("app");
    fs::write(app.join("wipe.sh"), "rm -rf sub\ntouch uploads/x\n").unwrap();
    fs::write(app.join("Makefile"), "D = sub\nclean:\n\trm -rf $(D)\n\tcp a.txt b.txt\n").unwrap();
    for script in [
        "sh wipe.sh",
        "./wipe.sh",
        "make clean",
        "make -C @/app clean",
        "make clean D=sub",
        "python3 -c \"import shutil; shutil.move('sub', 'gone')\"",
        "node -e \"fs.rmSync('sub')\"",
    ] {
        let found = scene.analyze(script);
        assert_eq!(scene.shorten(&found.deleted), ["sub"], "{script}");
    }
    fs::write(app.join("clean.sh"), "git clean -ffdx\n").unwrap();
    for script in ["git clean -ffdx", "git clean -f -d --force", "sh clean.sh"] {
        assert!(scene.analyze(script).sweeps_repositories, "{script}");
    }
    assert!(!scene.analyze("git clean -fdx").sweeps_repositories);
    let written = scene.analyze("python3 -c \"open('sub/keep.txt', 'w')\"; touch sub/x");
    assert!(written.deleted.is_empty() && !written.paths.is_empty());
}

#[test]
fn a_script_that_cannot_be_parsed_names_the_paths_in_it() {
    let scene = Scene::new();
    let found = scene.analyze("shopt -s extglob; rm -rf uploads !(src)");
    assert_eq!(scene.shorten(&found.paths), ["src", "uploads"]);
    assert_eq!(found.unknown.len(), 1);
}

#[test]
fn links_are_resolved_as_the_system_resolves_them() {
    Scene::new().check(&[
        // `..` after a link means the parent of the link's target.
        ("rm src/link/../f1", &["@/other/f1"], &[], &[]),
        ("rm src/link/f3", &["@/other/deep/f3"], &[], &[]),
        ("rm src/link/*", &["@/other/deep/f3"], &[], &[]),
        ("rm src/link", &["src/link"], &[], &[]),
        ("rm -r src/link/", &["src/link", "@/other/deep"], &[], &[]),
        // For `cd`, `..` only removes the preceding name from the path.
        ("cd src/link/..; rm main.rs", &["src/main.rs"], &[], &[]),
        ("echo x > to-f1", &["to-f1", "@/other/f1"], &[], &[]),
        ("rm to-f1", &["to-f1"], &[], &[]),
    ]);
}

#[test]
fn paths_outside_the_workspace_are_listed_separately() {
    let scene = Scene::new();
    let outside = |script: &str| scene.shorten(&scene.analyze(script).outside);
    assert_eq!(
        outside("rm a.txt ~/.bashrc @/other/f*"),
        ["@/home/.bashrc", "@/other/f1", "@/other/f2"]
    );
    assert_eq!(outside("git clone https://example.com/x @/new"), ["@/new"]);
    assert_eq!(outside("git commit -m /x"), Vec::<String>::new());
    assert_eq!(outside("echo x > /dev/null; touch x"), Vec::<String>::new());
    assert_eq!(outside("rm /dev/shm/x"), ["/dev/shm/x"]);
    assert_eq!(outside("cat /etc/passwd && touch x"), Vec::<String>::new());
    assert_eq!(outside("find . -name x -exec cp {} @/backup \\;"), ["@/backup"]);
}

#[test]
fn a_script_that_only_reads_changes_no_path() {
    let found = analyze("find . -name '*.rs' | xargs grep foo; cat /etc/passwd");
    assert!(found.paths.is_empty() && found.sweeps.is_empty() && found.unknown.is_empty());
}

#[test]
fn large_directories_are_reported_as_a_whole() {
    let scene = Scene::new();
    let many = scene.root().join("app/many");
    fs::create_dir(&many).unwrap();
    for number in 0..1500 {
        fs::write(many.join(format!("{number}.txt")), "").unwrap();
    }
    scene.check(&[
        ("rm many/*.txt", &["many"], &[], &[]),
        (
            "rm many/{1..5}.txt",
            &["many/1.txt", "many/2.txt", "many/3.txt", "many/4.txt", "many/5.txt"],
            &[],
            &[],
        ),
        ("find many -name '*.txt' -delete", &["many"], &[], &[]),
        ("ls many/*.txt | xargs rm", &["many"], &[], &[]),
        ("cd many && rm *", &["many"], &[], &[]),
    ]);
}
