//! Commands in the foreground and in the background.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use takeback_runtime::tools::{ToolOutput, ToolSettings};
use takeback_undo::ToolWork;

use crate::tools_support::{Workbench, settings};

/// Waits until a condition holds. Fails if that takes too long.
#[track_caller]
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process with this id exists and has not ended.
fn is_running(id: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits until a script has written its process id into a file, and returns the id.
fn read_id(path: &Path) -> String {
    let read = || fs::read_to_string(path).unwrap_or_default();
    wait_for("the process has started", || read().ends_with('\n'));
    read().trim().to_owned()
}

/// Runs a command, and cancels it once all these files exist.
fn run_until(bench: &mut Workbench, command: &str, files: &[&str]) -> ToolOutput {
    let (cancel, paths) = (bench.cancel.clone(), files.iter().map(|file| bench.at(file)));
    let paths: Vec<PathBuf> = paths.collect();
    let canceller = thread::spawn(move || {
        paths.iter().for_each(|path| drop(read_id(path)));
        cancel.cancel();
    });
    let output = bench.call("terminal", &json!({ "command": command }));
    canceller.join().unwrap();
    bench.cancel.reset();
    assert!(output.is_error, "{}", output.text);
    output
}

#[test]
fn output_and_errors_are_returned_in_order_with_the_exit_status() {
    let mut bench = Workbench::new();
    let run = |bench: &mut Workbench, command: &str| {
        bench.call("terminal", &json!({ "command": command }))
    };
    let output = run(&mut bench, "echo one; echo two >&2; echo three");
    assert_eq!(
        (output.text.as_str(), output.is_error),
        ("one\ntwo\nthree\n[exit status 0]", false)
    );
    assert_eq!(*bench.shown.lock().unwrap(), "one\ntwo\nthree\n");
    let output = run(&mut bench, "printf x; exit 3");
    assert_eq!((output.text.as_str(), output.is_error), ("x\n[exit status 3]", true));
    let output = run(&mut bench, "true");
    assert_eq!((output.text.as_str(), output.is_error), ("[exit status 0]", false));
    let output = run(&mut bench, "kill -9 $$");
    assert_eq!((output.text.as_str(), output.is_error), ("[ended by signal SIGKILL]", true));
    let output = run(&mut bench, "no-such-program");
    assert!(output.text.ends_with("[exit status 127]"), "{}", output.text);
    let output = run(&mut bench, "printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n\\377'");
    assert_eq!(output.text, "red\n100%\n\u{fffd}\n[exit status 0]");
    assert_eq!(bench.work("terminal", &json!({ "command": "rm x" })), ToolWork::run_script("rm x"));
}

#[test]
fn a_command_runs_in_the_working_directory_with_the_given_environment() {
    let mut bench = Workbench::with_variables(&[("GREETING", "hello".into())]);
    let text = bench.ok("terminal", &json!({ "command": "pwd; echo $GREETING ${HOME-none}" }));
    assert_eq!(text, format!("{}\nhello none\n[exit status 0]", bench.root.display()));
    // A command has no input and no terminal, so it cannot wait for the user.
    let command = "cat; read x; echo $?; (: < /dev/tty) 2>/dev/null || echo no terminal";
    let text = bench.ok("terminal", &json!({ "command": command }));
    assert_eq!(text, "1\nno terminal\n[exit status 0]");
    let text = bench.ok("terminal", &json!({ "command": "[[ -n $BASH_VERSION ]] && echo bash" }));
    assert_eq!(text, "bash\n[exit status 0]");
}

#[test]
fn sh_is_used_if_there_is_no_bash() {
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", scratch.path().join("sh")).unwrap();
    let environment = vec![("PATH".into(), scratch.path().as_os_str().to_owned())];
    let mut bench = Workbench::with(&ToolSettings { environment, ..ToolSettings::default() });
    assert_eq!(bench.ok("terminal", &json!({ "command": "echo x" })), "x\n[exit status 0]");
    // Without `setsid`, the processes of a command form a group.
    run_until(&mut bench, "/bin/sleep 1000 & echo $! > id; wait", &["id"]);
    assert!(!is_running(&bench.get("id")));
}

#[test]
fn a_huge_output_keeps_its_beginning_and_its_end() {
    let mut bench = Workbench::new();
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    let text = bench.ok("terminal", &json!({ "command": command }));
    assert!(text.starts_with("first\n"), "{}", &text[..100]);
    assert!(text.ends_with("x\nlast\n[exit status 0]"));
    assert!(text.contains(" bytes left out …]"));
    assert!(text.len() < 33 * 1024, "{}", text.len());
}

#[test]
fn a_command_is_ended_when_its_time_is_up() {
    let mut bench = Workbench::new();
    let command = "echo started; sleep 1000; echo x";
    let output = bench.call("terminal", &json!({ "command": command, "timeout_seconds": 1 }));
    assert!(output.is_error);
    let (started, end) = output.text.rsplit_once('[').unwrap();
    // On a busy machine, the command may not even have started.
    assert!(matches!(started, "" | "started\n"), "{started}");
    assert_eq!(end, "timed out after 1 s; its processes were ended]");
    assert_eq!(bench.ok("process", &json!({})), "no background commands");
}

#[test]
fn a_command_is_ended_when_the_turn_is_cancelled() {
    let mut bench = Workbench::new();
    let command = "echo before; (echo $BASHPID > id; exec sleep 1000); echo after";
    let output = run_until(&mut bench, command, &["id"]);
    assert_eq!(output.text, "before\n[cancelled by the user; its processes were ended]");
    assert!(!is_running(&bench.get("id")));
    assert_eq!(bench.ok("terminal", &json!({ "command": "echo x" })), "x\n[exit status 0]");
}

#[test]
fn all_processes_of_a_command_are_ended() {
    let mut bench = Workbench::new();
    // `timeout` forms a process group of its own, and the last process ignores the first signal.
    let command = "(sleep 0; timeout 1000 bash -c 'echo $$ > group; sleep 1000') & \
        (echo $BASHPID > stopped; kill -STOP $BASHPID) & \
        bash -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 0.1; done'; echo x";
    let files = ["group", "stopped", "stubborn"];
    run_until(&mut bench, command, &files);
    for file in files {
        assert!(!is_running(&bench.get(file)), "{file}");
    }
}

#[test]
fn a_process_that_outlives_the_shell_becomes_a_background_command() {
    let mut bench = Workbench::new();
    let command = "(echo $BASHPID > id; exec sleep 1000) & \
        while [ ! -s id ]; do sleep 0.01; done; echo done";
    let text = bench.ok("terminal", &json!({ "command": command }));
    assert_eq!(
        text,
        "done\n[exit status 0; it left processes running, which are now background command 1]"
    );
    let id = bench.get("id");
    assert!(is_running(&id));
    let text = bench.ok("process", &json!({ "id": 1 }));
    assert_eq!(text, "[the shell has ended (exit status 0); its processes are still running]");
    bench.ok("process", &json!({ "id": 1, "stop": true }));
    assert!(!is_running(&id));
    assert_eq!(bench.ok("process", &json!({})), "no background commands");
}

#[test]
fn an_endless_output_of_a_leftover_process_does_not_hold_up_the_call() {
    let mut bench = Workbench::new();
    let text = bench.ok("terminal", &json!({ "command": "yes & echo $! > id" }));
    assert!(text.ends_with("now background command 1]"), "{}", &text[text.len() - 200..]);
    let id = bench.get("id");
    drop(bench);
    assert!(!is_running(&id));
}

#[test]
fn a_daemon_that_keeps_the_pipe_open_does_not_hold_up_the_call() {
    let mut bench = Workbench::new();
    let command = "setsid -f bash -c 'echo $$ > id; exec sleep 1000'; \
        while [ ! -s id ]; do sleep 0.01; done; echo done";
    let text = bench.ok("terminal", &json!({ "command": command }));
    assert_eq!(text, "done\n[exit status 0]");
    let id = bench.get("id");
    drop(bench);
    // The daemon left its session on purpose, so it outlives the agent.
    assert!(is_running(&id));
    assert!(Command::new("kill").arg(id.trim()).status().unwrap().success());
}

#[test]
fn a_background_command_can_be_shown_and_awaited_and_stopped() {
    let mut bench = Workbench::new();
    let start = |bench: &mut Workbench, command: &str| {
        bench.ok("terminal", &json!({ "command": command, "background": true }))
    };
    let started =
        start(&mut bench, "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 4");
    assert_eq!(started, "started as background command 1; see its output with the `process` tool");
    start(&mut bench, "echo $$ > id; sleep 1000");
    let mut seen = String::new();
    wait_for("the output appears", || {
        seen += &bench.ok("process", &json!({ "id": 1 }));
        seen.contains("one\n[running]")
    });
    assert_eq!(bench.ok("process", &json!({ "id": 1 })), "[running]");
    let listed = bench.ok("process", &json!({}));
    assert!(listed.contains("1: echo one; while") && listed.contains("2: echo $$"), "{listed}");
    bench.put("go", "");
    let ended = bench.ok("process", &json!({ "id": 1, "wait_seconds": 60 }));
    assert_eq!(ended, "two\n[exit status 4]");
    assert_eq!(bench.fail("process", &json!({ "id": 1 })), "no background command 1, only 2");
    let id = read_id(&bench.at("id"));
    let stopped = bench.ok("process", &json!({ "id": 2, "stop": true }));
    assert_eq!(stopped, "[ended by signal SIGTERM]");
    assert!(!is_running(&id));
    let said = bench.fail("process", &json!({ "id": 2 }));
    assert_eq!(said, "no background command 2: none is running");
}

#[test]
fn waiting_for_a_background_command_can_be_cancelled_without_ending_it() {
    let mut bench = Workbench::new();
    bench.ok("terminal", &json!({ "command": "echo $$ > id; sleep 1000", "background": true }));
    let id = read_id(&bench.at("id"));
    let cancel = bench.cancel.clone();
    cancel.cancel();
    let text = bench.ok("process", &json!({ "id": 1, "wait_seconds": 600 }));
    assert_eq!(text, "[running]");
    assert!(is_running(&id));
}

#[test]
fn background_commands_end_with_the_agent() {
    let mut bench = Workbench::new();
    for name in ["a", "b"] {
        let command = format!("echo $$ > {name}; sleep 1000");
        bench.ok("terminal", &json!({ "command": command, "background": true }));
    }
    let ids = ["a", "b"].map(|name| read_id(&bench.at(name)));
    drop(bench);
    assert!(!ids.iter().any(|id| is_running(id)));
}

/// Runs the body in a process of its own, so that the threads of other tests are not counted.
fn in_own_process(test: &str, body: impl FnOnce()) {
    if std::env::var_os("TAKEBACK_TEST_ALONE").is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tools_terminal::{test}"), "--test-threads=1"])
        .env("TAKEBACK_TEST_ALONE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn count_threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn count_children() -> usize {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let is_child = |stat: &String| {
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(1) == Some(&own)
    };
    stats.filter(is_child).count()
}

#[test]
fn no_process_and_no_file_is_left_behind() {
    in_own_process("no_process_and_no_file_is_left_behind", || {
        let mut bench = Workbench::new();
        let threads = count_threads();
        bench.ok("terminal", &json!({ "command": "true" }));
        // The watchdog is the only child that is left.
        assert_eq!(count_children(), 1);
        let count_files = || fs::read_dir("/proc/self/fd").unwrap().count();
        wait_for("all threads end", || count_threads() == threads);
        let files = count_files();
        for command in ["true", "sleep 0 & true", "exit 1", "yes | head -1", "kill -9 $$"] {
            for _ in 0..5 {
                bench.call("terminal", &json!({ "command": command }));
            }
        }
        assert_eq!(count_children(), 1);
        wait_for("all threads end", || count_threads() == threads);
        assert_eq!(count_files(), files);
        drop(bench);
        assert_eq!(count_children(), 0);
    });
}

#[test]
fn the_pipe_of_a_daemon_is_closed_at_the_end_of_its_command() {
    in_own_process("the_pipe_of_a_daemon_is_closed_at_the_end_of_its_command", || {
        let mut bench = Workbench::new();
        let threads = count_threads();
        let start = |name: &str| {
            format!(
                "setsid -f bash -c 'echo $$ > {name}; exec sleep 1000'; \
                 while [ ! -s {name} ]; do sleep 0.01; done"
            )
        };
        bench.ok("terminal", &json!({ "command": start("one") }));
        run_until(&mut bench, &format!("{}; sleep 1000", start("two")), &["two"]);
        let command = format!("{}; touch done", start("three"));
        bench.ok("terminal", &json!({ "command": command, "background": true }));
        bench.ok("process", &json!({ "id": 3, "wait_seconds": 60 }));
        wait_for("the threads that read the pipes end", || count_threads() == threads);
        for name in ["one", "two", "three"] {
            let id = bench.get(name);
            assert!(is_running(&id), "{name}");
            assert!(Command::new("kill").arg(id.trim()).status().unwrap().success());
        }
    });
}

#[test]
fn commands_of_a_killed_agent_end_with_it() {
    // The agent is another process that runs this test.
    if let Some(directory) = std::env::var_os("TAKEBACK_TEST_AGENT") {
        let mut bench = Workbench::new();
        let directory = Path::new(&directory).display();
        let command = format!("echo $$ > {directory}/background; sleep 1000");
        bench.ok("terminal", &json!({ "command": command, "background": true }));
        let command = format!("echo $$ > {directory}/foreground; sleep 1000; echo x");
        bench.ok("terminal", &json!({ "command": command }));
        unreachable!("the agent is killed");
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tools_terminal::commands_of_a_killed_agent_end_with_it"])
        .env("TAKEBACK_TEST_AGENT", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ids = ["background", "foreground"].map(|name| read_id(&scratch.path().join(name)));
    assert!(ids.iter().all(|id| is_running(id)));
    agent.kill().unwrap();
    agent.wait().unwrap();
    wait_for("the commands end", || !ids.iter().any(|id| is_running(id)));
}

#[test]
fn several_commands_run_at_the_same_time() {
    let bench = Arc::new(Workbench::new());
    // Each command waits for the other one.
    let run = |own: &'static str, other: &'static str| {
        let bench = Arc::clone(&bench);
        thread::spawn(move || {
            let command = format!("touch {own}; while [ ! -e {other} ]; do sleep 0.01; done");
            bench.try_call("terminal", &json!({ "command": command })).text
        })
    };
    let (one, two) = (run("a", "b"), run("b", "a"));
    assert_eq!(one.join().unwrap(), "[exit status 0]");
    assert_eq!(two.join().unwrap(), "[exit status 0]");
}

#[test]
fn an_error_says_why_a_command_cannot_be_started() {
    let mut bench = Workbench::new();
    let long = format!("echo {}", "x".repeat(3 << 20));
    let said = bench.fail("terminal", &json!({ "command": long }));
    assert_eq!(said, "the command is too long: write it to a file, and run the file");
    assert!(bench.fail("terminal", &json!({ "command": "a\0b" })).contains("cannot start"));
    let limited = ToolSettings { max_command_timeout: Duration::from_secs(1), ..settings() };
    let mut bench = Workbench::with(&limited);
    let input = json!({ "command": "sleep 1000", "timeout_seconds": 1_000_000 });
    assert!(bench.fail("terminal", &input).contains("timed out after 1 s"));
}
