//! The output of `list`, `show`, `diff` and `status`.

use serde_json::json;

use crate::agent::{Agent, configure, eventually, rows, with_two_turns};
use crate::session::Session;

#[test]
fn the_list_can_be_called_by_several_names() {
    let mut session = with_two_turns();
    session.takeback(&[]);
    session.assert(
        "
$ takeback
Checkpoints for ~/project
  ●  1  <id>  <age>  mine  “rename the setting”  1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     2  <id>  <age>  mine  “add the cart”        2 files +4 −0  3 steps  ⚠ database  before Write src/app.py

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
",
    );
    let list = session.json(&["list"]);
    for other in [&["rollback"][..], &["rollback", "list"], &["ls"], &[]] {
        assert_eq!(session.json(other), list, "{other:?}");
    }
    session.takeback(&["list", "--steps"]);
    session.takeback(&["--steps"]);
    session.takeback(&["rollback", "--steps"]);
    session.assert(
        "
$ takeback list --steps
Checkpoints for ~/project
  ●    1  <id>  <age>  mine  “rename the setting”                            1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     1.1  <id>  <age>          before Bash: sed -i s/old/new/ config.py
       2  <id>  <age>  mine  “add the cart”                                  2 files +4 −0  3 steps  ⚠ database  before Write src/app.py
     2.1  <id>  <age>          before Write src/app.py
     2.2  <id>  <age>          before Write src/cart.py
     2.3  <id>  <age>          before Bash: psql shop -c 'drop table carts'

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback --steps
Checkpoints for ~/project
  ●    1  <id>  <age>  mine  “rename the setting”                            1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     1.1  <id>  <age>          before Bash: sed -i s/old/new/ config.py
       2  <id>  <age>  mine  “add the cart”                                  2 files +4 −0  3 steps  ⚠ database  before Write src/app.py
     2.1  <id>  <age>          before Write src/app.py
     2.2  <id>  <age>          before Write src/cart.py
     2.3  <id>  <age>          before Bash: psql shop -c 'drop table carts'

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
$ takeback rollback --steps
Checkpoints for ~/project
  ●    1  <id>  <age>  mine  “rename the setting”                            1 file +1 −1            before Bash: sed -i s/old/new/ config.py
     1.1  <id>  <age>          before Bash: sed -i s/old/new/ config.py
       2  <id>  <age>  mine  “add the cart”                                  2 files +4 −0  3 steps  ⚠ database  before Write src/app.py
     2.1  <id>  <age>          before Write src/app.py
     2.2  <id>  <age>          before Write src/cart.py
     2.3  <id>  <age>          before Bash: psql shop -c 'drop table carts'

● now
Not covered: dist (`takeback show 1` says why)
takeback rollback 1  return files and conversation to the state before a row
takeback diff 1      show what changed since then
takeback undo        take back only the last turn, and keep your edits
",
    );
}

#[test]
fn a_turn_is_shown_in_full() {
    let mut session = with_two_turns();
    session.takeback(&["show", "2"]);
    session.takeback(&["show", "2.2"]);
    session.takeback(&["show", "1"]);
    session.takeback(&["show", "3"]);
    session.assert(
        "
$ takeback show 2
Checkpoint 2  <id>  <time>
  reason   before Write src/app.py
  session  mine:s1, turn 1
  tool     Write
  covers   1 file
Prompt:
  add
    the cart
Steps:
  2.1  <time>  before Write src/app.py
  2.2  <time>  before Write src/cart.py
  2.3  <time>  before Bash: psql shop -c 'drop table carts'
Changed by the turn (2 files, +4/−0):
  src/app.py  (added, +3/−0)
  src/cart.py  (added, +1/−0)
Effects that no rollback reverses:
  database: psql shop -c 'drop table carts'
Not covered:
  dist  (excluded)
$ takeback show 2.2
Checkpoint 2.2  <id>  <time>
  reason   before Write src/cart.py
  session  mine:s1, turn 1
  tool     Write
  covers   2 files
Prompt:
  add
    the cart
Not covered:
  dist  (excluded)
$ takeback show 1
Checkpoint 1  <id>  <time>
  reason   before Bash: sed -i s/old/new/ config.py
  session  mine:s1, turn 2
  tool     Bash
  covers   3 files
Prompt:
  rename the setting
Steps:
  1.1  <time>  before Bash: sed -i s/old/new/ config.py
Changed by the turn (1 file, +1/−1):
  config.py  (modified, +1/−1)
Not covered:
  dist  (excluded)
$ takeback show 3
! error: no checkpoint 3: this workspace has 2
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
",
    );
    let view = session.json(&["show", "2"]);
    assert_eq!(view["number"], "2");
    assert_eq!(view["prompt"], "add\n  the cart");
    let changed = |at: usize| &view["changes"][at];
    assert_eq!((&changed(0)["path"], &changed(0)["kind"]), (&json!("src/app.py"), &json!("added")));
    assert_eq!(changed(1)["lines"], json!({ "insertions": 1, "deletions": 0 }));
    assert_eq!(view["effects"][0]["kind"], "database");
    assert_eq!(view["uncovered"][0]["path"], "dist");
    assert_eq!(view["steps"].as_array().unwrap().len(), 3);
}

#[test]
fn a_manual_checkpoint_is_shown_in_full() {
    let mut session = Session::new();
    session.write("a", "1\n");
    let arguments = ["checkpoint", "--name", "good", "--pin", "--reason", "all tests pass"];
    session.takeback(&arguments);
    session.write("a", "2\n");
    session.takeback(&["checkpoint"]);
    session.takeback(&["show", "good"]);
    session.takeback(&["rollback", "good"]);
    session.assert(
        "
$ takeback checkpoint --name good --pin --reason all tests pass
Checkpoint <id> of 1 file.
$ takeback checkpoint
Checkpoint <id> of 1 file.
$ takeback show good
Checkpoint 2  <id>  <time>
  reason  all tests pass
  name    good
  pinned  yes: it is never pruned
  covers  1 file
Changed until the next checkpoint (1 file, +1/−1):
  a  (modified, +1/−1)
$ takeback rollback good
Restored:
  a
Restored 1 file. `takeback rollback undo` takes this back.
",
    );
}

#[test]
fn two_checkpoints_can_be_compared() {
    let mut session = Session::new();
    session.write("a", "1\n");
    session.write("b", "1\n");
    session.takeback(&["checkpoint", "--name", "first"]);
    session.write("a", "2\n");
    session.takeback(&["checkpoint"]);
    session.write("b", "3\n");
    session.takeback(&["diff", "first", "1"]);
    session.takeback(&["diff", "1"]);
    session.takeback(&["diff", "first", "1", "b"]);
    session.takeback(&["diff", "2", "b"]);
    session.takeback(&["diff", "1", "first", "--", "a"]);
    session.takeback(&["diff", "1", "first", "--", "missing"]);
    session.takeback(&["diff", "1", "missing"]);
    session.takeback(&["diff", "1", "7"]);
    session.takeback(&["diff"]);
    session.assert(
        "
$ takeback checkpoint --name first
Checkpoint <id> of 2 files.
$ takeback checkpoint
Checkpoint <id> of 2 files.
$ takeback diff first 1
1 file, +1/−1 between <id> and <id>
Changed:
  a  (modified, +1/−1)

diff --git a/a b/a
index d00491f..0cfbf08 100644
--- a/a
+++ b/a
@@ -1 +1 @@
-1
+2
$ takeback diff 1
1 file, +1/−1 since <id>
Changed:
  b  (modified, +1/−1)

diff --git a/b b/b
index d00491f..00750ed 100644
--- a/b
+++ b/b
@@ -1 +1 @@
-1
+3
$ takeback diff first 1 b
Nothing changed between <id> and <id>.
$ takeback diff 2 b
1 file, +1/−1 since <id>
Changed:
  b  (modified, +1/−1)

diff --git a/b b/b
index d00491f..00750ed 100644
--- a/b
+++ b/b
@@ -1 +1 @@
-1
+3
$ takeback diff 1 first -- a
1 file, +1/−1 between <id> and <id>
Changed:
  a  (modified, +1/−1)

diff --git a/a b/a
index 0cfbf08..d00491f 100644
--- a/a
+++ b/a
@@ -1 +1 @@
-2
+1
$ takeback diff 1 first -- missing
! error: missing is in neither of the two checkpoints
[exit Some(1)]
$ takeback diff 1 missing
! error: missing is neither in the checkpoint nor in the workspace
[exit Some(1)]
$ takeback diff 1 7
! error: no checkpoint 7: this workspace has 2
! hint: `takeback list` lists the checkpoints of this workspace
[exit Some(1)]
$ takeback diff
! error: the following required arguments were not provided: <CHECKPOINT>
! hint: `takeback list` lists the checkpoints
! Usage: takeback diff <CHECKPOINT> [CHECKPOINT|PATH]... [-- <PATH>...]
[exit Some(2)]
",
    );
    let view = session.json(&["diff", "2", "1"]);
    let rows = session.json(&["list"]);
    assert_eq!(view["checkpoint"], rows["checkpoints"][1]["id"]);
    assert_eq!(view["to"], rows["checkpoints"][0]["id"]);
}

/// In `takeback diff`, the word after the first checkpoint can be a second checkpoint or a path.
#[test]
fn a_word_that_could_be_a_checkpoint_or_a_path_is_refused() {
    let mut session = Session::new();
    session.write("1", "1\n");
    session.write("facade/x", "1\n");
    session.takeback(&["checkpoint"]);
    session.write("1", "2\n");
    session.write("facade/x", "2\n");
    session.takeback(&["diff", "1", "1"]);
    session.takeback(&["diff", "1", "--", "1"]);
    session.takeback(&["diff", "1", "facade"]);
    session.assert(
        "
$ takeback checkpoint
Checkpoint <id> of 2 files.
$ takeback diff 1 1
! error: 1 is both a checkpoint and a path
! hint: write the path as ./1, or the checkpoint by its id
[exit Some(1)]
$ takeback diff 1 -- 1
1 file, +1/−1 since <id>
Changed:
  1  (modified, +1/−1)

diff --git a/1 b/1
index d00491f..0cfbf08 100644
--- a/1
+++ b/1
@@ -1 +1 @@
-1
+2
$ takeback diff 1 facade
1 file, +1/−1 since <id>
Changed:
  facade/x  (modified, +1/−1)

diff --git a/facade/x b/facade/x
index d00491f..0cfbf08 100644
--- a/facade/x
+++ b/facade/x
@@ -1 +1 @@
-1
+2
",
    );
}

#[test]
fn the_status_fits_on_one_page() {
    let mut session = with_two_turns();
    // The size of the store depends on the length of the paths that it contains.
    session.replace(|line| match line.split_once(" of at most 2.1 GB") {
        Some((_, rest)) => format!("Store        <size> of at most 2.1 GB{rest}"),
        None => line.to_owned(),
    });
    session.takeback(&["status"]);
    session.takeback(&["-C", "..", "status"]);
    configure(&session, "[checkpoints]\nenabled = false\n");
    session.takeback(&["status"]);
    session.assert(
        "
$ takeback status
Workspace    ~/project
Checkpoints  2
Newest       <time>  before Bash: sed -i s/old/new/ config.py  “rename the setting”
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
$ takeback -C .. status
Workspace    none: this directory cannot be one
Checkpoints  0
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
$ takeback status
Workspace    ~/project
             checkpoints are switched off
Checkpoints  2
Newest       <time>  before Bash: sed -i s/old/new/ config.py  “rename the setting”
Store        <size> of at most 2.1 GB; 1 workspace
Agents       none found on this machine
",
    );
    let view = session.json(&["status"]);
    assert_eq!((&view["checkpoints"], &view["enabled"]), (&json!(2), &json!(false)));
    assert_eq!(view["newest"]["prompt"], "rename the setting");
}

#[test]
fn directories_are_not_counted_as_files() {
    let session = Session::new();
    session.write("a", "0\n");
    let mut agent = Agent::new(&session, "s1");
    agent.hears("make some");
    agent.runs("mkdir empty new; echo 1 > a; echo 1 > new/b");
    agent.is_done();
    eventually("it is counted", || rows(&session)[0]["files_changed"] == 2);
}
