//! Many processes at the same time, and processes that end or fail at the worst moment.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use takeback_base::errors::error_chain;
use takeback_tree::fault::{Fault, arm, disarm};
use takeback_tree::{CaptureOptions, CaptureRules, ForbiddenRoots, Pin, Store};

use crate::support::{Scratch, child_variable, rerun_test, succeed};

/// Returns a command that runs one of these tests in a separate process, with the scratch
/// directory.
fn child_command(test: &str, directory: &Path) -> Command {
    let mut command = rerun_test(&format!("processes::{test}"), "env", &[]);
    command.env("DIRECTORY", directory);
    command
}

/// Captures the workspace with this name and pins the state, as another process would.
fn capture(directory: &Path, workspace: &str, message: &str) -> Pin {
    let store = Store::open(directory.join("store")).unwrap();
    capture_into(&store, &directory.join(workspace), message)
}

fn capture_into(store: &Store, root: &Path, message: &str) -> Pin {
    let workspace = store.workspace(root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let (rules, now) = (CaptureRules::default(), SystemTime::now());
    let options = CaptureOptions { rules: &rules, named: &[], swept: &[], now };
    let capture = lock.capture(&options).unwrap();
    let pin = lock.pin(capture.tree, now, message).unwrap();
    lock.finish(now).unwrap();
    pin
}

/// Generates content that does not compress.
fn make_noise(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed << 1 | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

const PROCESSES: usize = 4;
const CAPTURES: usize = 10;

/// Each process changes and captures a shared workspace and one of its own. No pin is lost, no two
/// pins have the same number, and each pin holds everything that its process had written before the
/// capture.
#[test]
fn no_pin_is_lost_when_many_processes_work_at_once() {
    if let (Some(directory), Some(own)) = (child_variable("DIRECTORY"), child_variable("OWN")) {
        let directory = Path::new(&directory);
        for round in 0..CAPTURES {
            for workspace in ["work", &own] {
                let file = format!("{own}-{round}");
                let path = directory.join(workspace).join(&own);
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join(&file), &file).unwrap();
                capture(directory, workspace, &format!("{own}/{file}"));
            }
        }
        return;
    }
    let scratch = Scratch::new();
    let children: Vec<Child> = (0..PROCESSES)
        .map(|number| {
            let mut command = child_command(
                "no_pin_is_lost_when_many_processes_work_at_once",
                scratch.directory.path(),
            );
            command.env("OWN", format!("own{number}"));
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let workspaces = scratch.store.pinned_workspaces().unwrap();
    assert_eq!(workspaces.len(), 1 + PROCESSES);
    assert_eq!(scratch.pins().len(), PROCESSES * CAPTURES);
    for workspace in workspaces {
        let names = scratch.store.pin_names(&workspace).unwrap();
        let seqs: Vec<u64> = names.iter().map(|name| name.seq).collect();
        assert_eq!(seqs, (1..=names.len() as u64).collect::<Vec<_>>());
        let mut seen = BTreeSet::new();
        for name in &names {
            let pin = scratch.store.pin(name).unwrap().unwrap();
            assert!(scratch.files(pin.tree).contains(&pin.message), "{}", pin.message);
            assert!(seen.insert(pin.message));
        }
    }
    scratch.fsck();
}

#[test]
fn many_threads_share_one_store() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for thread in 0..PROCESSES {
            let scratch = &scratch;
            scope.spawn(move || {
                for round in 0..CAPTURES {
                    let file = format!("t{thread}/f{round}");
                    scratch.write(&file, &file);
                    capture_into(&scratch.store, &scratch.root, &file);
                }
            });
        }
    });
    let pins = scratch.pins();
    assert_eq!(pins.len(), PROCESSES * CAPTURES);
    for (pin, seq) in pins.iter().zip(1..) {
        assert_eq!(pin.name.seq, seq);
        assert!(scratch.files(pin.tree).contains(&pin.message));
    }
    scratch.fsck();
}

/// Checks that nothing is lost, that no files are left over, and that captures work.
fn assert_sound(scratch: &Scratch, earlier: &[Pin]) {
    scratch.fsck();
    let pins = scratch.pins();
    assert_eq!(&pins[..earlier.len()], earlier);
    Store::open(scratch.store.directory()).unwrap();
    let left: Vec<_> = fs::read_dir(scratch.store.directory().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(scratch.capture(), scratch.fresh());
    let now = scratch.pins();
    assert_eq!(&now[..pins.len()], &pins);
    assert!(pins.last().is_none_or(|last| last.name.seq < now[pins.len()].name.seq));
    scratch.fsck();
}

/// Lists workspaces to start from: one that is new to the store, one that is already known, and one
/// with so much new content that its pack does not fit in memory.
fn beginnings() -> [fn() -> Scratch; 3] {
    fn new() -> Scratch {
        let scratch = Scratch::in_memory();
        scratch.write("a", "1");
        scratch.write("d/b", "2");
        scratch
    }
    fn known() -> Scratch {
        let scratch = new();
        scratch.capture();
        scratch.write("d/b", "3");
        scratch.write("d/c", "4");
        scratch
    }
    fn large() -> Scratch {
        let scratch = known();
        scratch.write("large", make_noise(5 << 20, 1));
        scratch
    }
    [new, known, large]
}

#[test]
fn captures_killed_at_every_point_lose_nothing() {
    if let (Some(directory), Some(point)) = (child_variable("DIRECTORY"), child_variable("POINT")) {
        arm(point.parse().unwrap(), Fault::Kill, false);
        capture(Path::new(&directory), "work", "from a child");
        return;
    }
    for begin in beginnings() {
        let mut points = 0;
        loop {
            let scratch = begin();
            let earlier = scratch.pins();
            let mut command = child_command(
                "captures_killed_at_every_point_lose_nothing",
                scratch.directory.path(),
            );
            let command = command.env("POINT", points.to_string()).stdout(Stdio::null());
            let status = command.status().unwrap();
            assert_sound(&scratch, &earlier);
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(9));
            points += 1;
        }
        assert!(points >= 7, "only {points} points were passed");
    }
}

/// An action that the caller may take after an error.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Afterwards {
    /// Drop the lock.
    Drop,
    /// Finish the capture with `finish`.
    Finish,
    /// Capture again, without further errors.
    Retry,
    /// Pin the same tree again.
    PinAgain,
    /// Pin a tree that was captured earlier under the same lock.
    PinEarlier,
}

/// An error occurs at each fault point in turn. The test needs a separate process, because fault
/// points are counted for the whole process.
#[test]
fn captures_that_fail_at_every_point_lose_nothing() {
    if child_variable("DIRECTORY").is_none() {
        succeed(child_command("captures_that_fail_at_every_point_lose_nothing", Path::new("/")));
        return;
    }
    use Afterwards::{Drop, Finish, PinAgain, PinEarlier, Retry};
    let (no_space, broken) = ((28, "No space left on device"), (5, "Input/output error"));
    let [new, known, large] = beginnings();
    let cases = [
        (no_space, false, Finish),
        (no_space, false, Retry),
        (no_space, false, PinEarlier),
        (no_space, false, PinAgain),
        (no_space, true, Finish),
        (broken, false, Drop),
    ];
    for begin in [new, known] {
        for (error, lasting, afterwards) in cases {
            let mut point = 0;
            while error_at(&begin(), (point, error, lasting), afterwards) {
                point += 1;
            }
            assert!(point >= 7, "only {point} points were passed");
        }
    }
    // A large pack is first written to a file in parts, which adds fault points at the beginning.
    for (error, lasting, afterwards) in &cases[..3] {
        for point in 0..3 {
            assert!(error_at(&large(), (point, *error, *lasting), *afterwards));
        }
    }
}

/// Makes a fault point fail. Returns true if the point was reached.
fn error_at(
    scratch: &Scratch,
    (point, (number, name), lasting): (usize, (i32, &str), bool),
    afterwards: Afterwards,
) -> bool {
    let pins = scratch.pins();
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let now = scratch.now();
    let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
    let earlier = (afterwards == Afterwards::PinEarlier).then(|| {
        let capture = lock.capture(&options).unwrap();
        let size = if scratch.exists("large") { 5 << 20 } else { 100 };
        scratch.write("d/later", make_noise(size, 3));
        capture.tree
    });
    arm(point, Fault::Errno(number), lasting);
    let captured = lock.capture(&options);
    let tree = captured.as_ref().ok().map(|capture| capture.tree);
    let mut error = captured.err().map(|error| error_chain(&error));
    if let Some(tree) = tree {
        error = lock.pin(tree, now, "x").err().map(|error| error_chain(&error));
    }
    let Some(error) = error else {
        let _ = lock.finish(now);
        let reached = disarm() > point;
        assert_sound(scratch, &pins);
        return reached;
    };
    let place = scratch.store.directory().display().to_string();
    assert!(error.contains(name) && error.contains(&place), "{error}");
    if !lasting {
        disarm();
    }
    // Each action may succeed or fail, as long as the store is intact afterwards.
    match afterwards {
        Afterwards::Drop => drop(lock),
        Afterwards::Finish => drop(lock.finish(now)),
        Afterwards::PinAgain | Afterwards::PinEarlier => {
            if let Some(tree) = earlier.or(tree) {
                drop(lock.pin(tree, now, "again"));
            }
            drop(lock.finish(now));
        }
        Afterwards::Retry => {
            let capture = lock.capture(&options).unwrap();
            assert_eq!(capture, scratch.fresh());
            lock.pin(capture.tree, now, "again").unwrap();
            lock.finish(now).unwrap();
        }
    }
    disarm();
    assert_sound(scratch, &pins);
    true
}

#[test]
fn captures_killed_at_random_moments_lose_nothing() {
    if let Some(directory) = child_variable("DIRECTORY") {
        let directory = Path::new(&directory);
        for round in 0..1000 {
            fs::write(directory.join("work/f"), format!("{} {round}", std::process::id())).unwrap();
            capture(directory, "work", "from a child");
            let _ = std::io::stderr().write_all(b".");
        }
        return;
    }
    let scratch = Scratch::new();
    for number in 0..50 {
        scratch.write(format!("d{}/f{number}", number % 7), make_noise(2000, number));
    }
    scratch.capture();
    let mut random = make_noise(1 << 10, 42).into_iter().map(u32::from);
    let mut random = |below: u32| (random.next().unwrap() << 8 | random.next().unwrap()) % below;
    for _ in 0..30 {
        let earlier = scratch.pins();
        let mut command = child_command(
            "captures_killed_at_random_moments_lose_nothing",
            scratch.directory.path(),
        );
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = child.stderr.take().unwrap();
        let mut captures = vec![0; 1 + random(3) as usize];
        said.read_exact(&mut captures).unwrap();
        let moment = Instant::now() + Duration::from_micros(u64::from(random(8000)));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(scratch.pins().len() > earlier.len());
        assert_sound(&scratch, &earlier);
    }
}

/// A lock file alone locks nothing. Only the kernel's locks do, and they end with the process that
/// holds them.
#[test]
fn a_leftover_lock_file_is_not_a_lock() {
    let scratch = Scratch::new();
    scratch.write("a", "1");
    scratch.capture();
    let store = scratch.store.directory();
    let id = scratch.store.workspace_id(&scratch.root).to_string();
    let own = store.join("workspaces").join(&id);
    for directory in [store, &own, &store.join("refs/takeback").join(&id)] {
        for name in ["lock", "HEAD.lock", "1.lock", "state.lock"] {
            fs::write(directory.join(name), "12345 some host\n").unwrap();
        }
    }
    scratch.write("a", "2");
    assert_eq!(scratch.capture(), scratch.fresh());
    assert_eq!(scratch.pins().len(), 2);
}

/// Starts a child that holds a lock until it is killed, and waits until the child has the lock.
fn start_holder(test: &str, scratch: &Scratch, what: &str) -> (Child, ChildStdout) {
    let mut command = child_command(test, scratch.directory.path());
    let mut child = command.env("HOLD", what).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("held") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the child ended");
    }
    (child, said.into_inner())
}

/// Reports that the lock is held, and waits to be killed. Ends after a while, so that a test that
/// waits for the lock fails rather than hangs.
fn hold_until_killed() {
    let _ = std::io::stdout().write_all(b"\nheld\n");
    let _ = std::io::stdout().flush();
    std::thread::sleep(Duration::from_secs(30));
}

#[test]
fn readers_never_wait() {
    let hold_store = |directory: &Path, operation| {
        let lock = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join("store/lock"))
            .unwrap();
        rustix::fs::flock(&lock, operation).unwrap();
        hold_until_killed();
    };
    if let (Some(directory), Some(what)) = (child_variable("DIRECTORY"), child_variable("HOLD")) {
        let directory = Path::new(&directory);
        match what.as_str() {
            "workspace" => {
                let store = Store::open(directory.join("store")).unwrap();
                let root = directory.join("work");
                let workspace = store.workspace(&root, &ForbiddenRoots::default()).unwrap();
                let _lock = workspace.lock().unwrap();
                hold_until_killed();
            }
            _ => hold_store(directory, rustix::fs::FlockOperation::LockExclusive),
        }
        return;
    }
    let scratch = Scratch::new();
    scratch.write("d/a", "1");
    let capture = scratch.capture();
    for what in ["workspace", "store"] {
        let (mut child, _said) = start_holder("readers_never_wait", &scratch, what);
        // No process may remove this leftover file while another process holds the lock.
        fs::write(scratch.store.directory().join("tmp/leftover"), "x").unwrap();
        let store = Store::open(scratch.store.directory()).unwrap();
        let id = store.workspace_id(&scratch.root);
        assert_eq!(store.pinned_workspaces().unwrap(), std::slice::from_ref(&id));
        let names = store.pin_names(&id).unwrap();
        let pin = store.pin(&names[0]).unwrap().unwrap();
        assert_eq!(pin.tree, capture.tree);
        store.read_object(&pin.tree).unwrap();
        assert!(store.workspace_info(&id).unwrap().is_some());
        assert!(store.directory().join("tmp/leftover").exists(), "removed under a lock");
        assert!(child.try_wait().unwrap().is_none(), "waited for {what}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // When the process that holds the lock is killed, it leaves nothing behind that blocks other
    // processes.
    scratch.write("d/a", "2");
    assert_eq!(scratch.capture(), scratch.fresh());
}

/// Operations on one workspace do not wait for operations on another.
#[test]
fn workspaces_do_not_wait_for_each_other() {
    if let Some(directory) = child_variable("DIRECTORY") {
        let directory = Path::new(&directory);
        let store = Store::open(directory.join("store")).unwrap();
        let root = directory.join("other");
        let workspace = store.workspace(&root, &ForbiddenRoots::default()).unwrap();
        let _lock = workspace.lock().unwrap();
        hold_until_killed();
        return;
    }
    let scratch = Scratch::new();
    scratch.write("a", "1");
    fs::create_dir(scratch.directory.path().join("other")).unwrap();
    let (mut child, _said) =
        start_holder("workspaces_do_not_wait_for_each_other", &scratch, "other");
    assert_eq!(scratch.capture(), scratch.fresh());
    assert!(child.try_wait().unwrap().is_none(), "waited for another workspace");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_store_that_runs_out_of_space_is_an_error() {
    let Some(scratch) = Scratch::with_small_store(1) else { return };
    scratch.write("a", "1");
    scratch.write("d/b", "2");
    let first = scratch.capture();
    let earlier = scratch.pins();
    // Files of both sizes need more space than the store has. The pack with the smaller file fits
    // in memory; the pack with the larger file does not.
    for size in [2 << 20, 6 << 20] {
        scratch.write("large", make_noise(size, 7));
        for finish in [false, true] {
            let workspace =
                scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
            let mut lock = workspace.lock().unwrap();
            let now = scratch.now();
            let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
            let error = match lock.capture(&options) {
                Ok(capture) => error_chain(&lock.pin(capture.tree, now, "x").unwrap_err()),
                Err(error) => error_chain(&error),
            };
            let place = scratch.store.directory().display().to_string();
            assert!(error.contains("No space left on device"), "{error}");
            assert!(error.contains(&place), "{error}");
            if finish {
                let _ = lock.finish(now);
            } else {
                drop(lock);
            }
            scratch.fsck();
            assert_eq!(scratch.pins(), earlier);
        }
    }
    // A file now takes up all of the remaining space.
    scratch.remove("large");
    let balloon = scratch.store.directory().join("balloon");
    let mut file = fs::File::create(&balloon).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    scratch.write("d/b", make_noise(100_000, 9));
    assert!(scratch.try_capture_and_pin().is_err());
    scratch.fsck();
    assert_eq!(scratch.pins(), earlier);
    fs::remove_file(balloon).unwrap();
    drop(file);
    assert_sound(&scratch, &earlier);
    scratch.write("d/b", "2");
    assert_eq!(scratch.capture(), first);
}

/// A write fails in the middle for lack of space. Later, while the same lock is held, there is
/// space again.
#[test]
fn space_that_becomes_available_again_is_used() {
    let Some(scratch) = Scratch::with_small_store(9) else { return };
    scratch.write("a", "1");
    scratch.capture();
    let earlier = scratch.pins();
    scratch.write("large", make_noise(5 << 20, 7));
    for afterwards in ["finish", "pin", "capture"] {
        let balloon = scratch.store.directory().join("balloon");
        fs::write(&balloon, vec![0; 7 << 20]).unwrap();
        let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
        let mut lock = workspace.lock().unwrap();
        let now = scratch.now();
        let options = CaptureOptions { rules: &scratch.rules, named: &[], swept: &[], now };
        let error = error_chain(&lock.capture(&options).unwrap_err());
        assert!(error.contains("No space left on device"), "{error}");
        fs::remove_file(balloon).unwrap();
        match afterwards {
            "finish" => {}
            "pin" => drop(lock.pin(earlier[0].tree, now, "x").unwrap()),
            _ => assert_eq!(lock.capture(&options).unwrap(), scratch.fresh()),
        }
        lock.finish(now).unwrap();
        scratch.fsck();
    }
    assert_sound(&scratch, &earlier);
}

/// Each of two processes keeps the state of its last capture in memory while the other process
/// changes the cache on disk.
#[test]
fn processes_that_take_turns_leave_an_intact_cache() {
    let scratch = Scratch::new();
    let directory = scratch.directory.path().join("store");
    let stores = [(); 2].map(|()| Store::open(&directory).unwrap());
    for name in ["a/x", "b/y", "changed", "z"] {
        scratch.write(name, "the same");
    }
    let capture = |store: &Store| capture_into(store, &scratch.root, "a test\n").tree;
    capture(&stores[0]);
    for round in 0..8 {
        scratch.write(format!("a/new{round}"), "new");
        capture(&stores[1]);
        // The other process has never seen the new file.
        fs::remove_file(scratch.path(format!("a/new{round}"))).unwrap();
        scratch.write("changed", format!("{round}"));
        let tree = capture(&stores[0]);
        assert_eq!(tree, scratch.fresh().tree, "round {round}");
        let third = Store::open(&directory).unwrap();
        assert_eq!(capture(&third), tree, "round {round}");
    }
    scratch.fsck();
}
