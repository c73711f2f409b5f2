//! Plans that are kept as JSON while the user decides and other processes continue to work.

use serde_json::{Value, json};
use takeback_tree::{
    Capture, ForbiddenRoots, Lock, ObjectError, Pin, PinError, Plan, RestoreError, RestoreOutcome,
    StoreError,
};

use crate::support::{Scratch, read_directory};

fn through_json(plan: &Plan) -> Plan {
    let text = serde_json::to_string(plan).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Makes a plan under a separate lock and keeps it as JSON.
fn kept_plan(scratch: &Scratch, target: &Capture, paths: &[&str]) -> Plan {
    let plan = scratch.plan(target, paths).unwrap();
    let kept = through_json(&plan);
    assert_eq!(kept, plan);
    kept
}

/// Takes a new lock, runs `prepare`, and applies the plan.
fn apply_later(
    scratch: &Scratch,
    plan: &Plan,
    prepare: impl FnOnce(&mut Lock<'_>) -> Pin,
) -> Result<RestoreOutcome, RestoreError> {
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let safety = prepare(&mut lock);
    let outcome = lock.apply(plan, &safety);
    lock.finish(scratch.now()).unwrap();
    outcome
}

fn pin_planned(scratch: &Scratch, lock: &mut Lock<'_>, plan: &Plan) -> Pin {
    lock.pin(plan.from, scratch.now(), "before a restore\n").unwrap()
}

/// Creates a workspace and a capture that differ in every way that a plan can handle.
fn wrecked_project() -> (Scratch, Capture) {
    let scratch = Scratch::new();
    scratch.write(".gitignore", "*.log\n.env\nbuild/\n");
    scratch.write("changed", "before");
    scratch.write(b"caf\xe9/\xff", "not UTF-8");
    scratch.write("gone", "x");
    scratch.write("mode", "x");
    scratch.write("swapped/inner", "a directory");
    scratch.write(".env", "KEY=1");
    scratch.link("changed", "link");
    let target = scratch.capture();
    scratch.write("changed", "after");
    scratch.write(b"caf\xe9/\xff", "changed");
    scratch.remove("gone");
    scratch.chmod("mode", 0o600);
    scratch.remove("swapped");
    scratch.write("swapped", "a file");
    scratch.write(".env", "KEY=2");
    scratch.write("new/deep/file", "new");
    scratch.write("build/output", "ignored");
    scratch.write("new.log", "ignored");
    scratch.remove("link");
    (scratch, target)
}

#[test]
fn a_plan_has_the_usual_json_forms() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    assert!(!plan.guarded.is_empty() && !plan.kept.is_empty() && !plan.deletes.is_empty());
    let json: Value = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["from"], json!(plan.from.to_string()));
    assert_eq!(json["to"], json!(target.tree.to_string()));
    let writes = json["writes"].as_array().unwrap();
    assert!(writes.contains(&json!("changed")), "{writes:?}");
    assert!(writes.contains(&json!({ "bytes": "Y2Fm6S//" })), "{writes:?}");
    assert_eq!(json["guarded"], json!([".env", "new.log"]));
    assert!(json["kept"].as_array().unwrap().contains(&json!({
        "path": "build", "reason": "not_saved",
    })));
}

#[test]
fn a_blocked_plan_stays_blocked_in_json() {
    let scratch = Scratch::new();
    scratch.write("src/lib/a.rs", "a");
    let target = scratch.capture();
    scratch.remove("src");
    scratch.write("src", "in the way");
    let plan = kept_plan(&scratch, &target, &["src/lib/a.rs"]);
    assert_eq!(
        serde_json::to_value(&plan.blocked).unwrap(),
        json!([{ "path": "src", "blocked": "parent_replaced" }])
    );
    let outcome = apply_later(&scratch, &plan, |lock| {
        let again = scratch.plan_with(lock, &target, &["src/lib/a.rs"]).unwrap();
        assert!(again.does_the_same_as(&plan));
        pin_planned(&scratch, lock, &plan)
    });
    assert!(matches!(outcome, Err(RestoreError::Blocked(_))), "{outcome:?}");
}

#[test]
fn a_kept_plan_does_what_a_fresh_one_does() {
    let (scratch, target) = wrecked_project();
    let wrecked = read_directory(&scratch.root);
    let plan = kept_plan(&scratch, &target, &[]);
    let kept = apply_later(&scratch, &plan, |lock| {
        let again = scratch.plan_with(lock, &target, &[]).unwrap();
        assert!(again.does_the_same_as(&plan));
        assert_eq!(again, plan);
        pin_planned(&scratch, lock, &plan)
    });
    let restored = read_directory(&scratch.root);
    scratch.restore(&scratch.as_capture(&plan), &[]);
    assert_eq!(read_directory(&scratch.root), wrecked);
    let (_, fresh) = scratch.try_restore(&target, &[]).unwrap();
    assert_eq!(kept.unwrap(), fresh);
    assert_eq!(read_directory(&scratch.root), restored);
    scratch.fsck();
}

#[test]
fn a_kept_plan_is_refused_once_the_workspace_has_changed() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    // The plan does not concern this file, but starts from a state without it.
    scratch.write("later", "by the user");
    let before = read_directory(&scratch.root);
    let outcome = apply_later(&scratch, &plan, |lock| {
        let again = scratch.plan_with(lock, &target, &[]).unwrap();
        assert!(!again.does_the_same_as(&plan));
        pin_planned(&scratch, lock, &plan)
    });
    assert!(matches!(outcome, Err(RestoreError::Outdated)), "{outcome:?}");
    assert_eq!(read_directory(&scratch.root), before);
    assert!(!scratch.journal());
}

#[test]
fn a_kept_plan_is_refused_without_a_capture_under_the_new_lock() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    let before = read_directory(&scratch.root);
    let outcome = apply_later(&scratch, &plan, |lock| pin_planned(&scratch, lock, &plan));
    assert!(matches!(outcome, Err(RestoreError::Outdated)), "{outcome:?}");
    assert_eq!(read_directory(&scratch.root), before);
}

#[test]
fn a_plan_is_applied_only_once() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    let outcome = apply_later(&scratch, &plan, |lock| {
        scratch.plan_with(lock, &target, &[]).unwrap();
        let safety = pin_planned(&scratch, lock, &plan);
        lock.apply(&plan, &safety).unwrap();
        safety
    });
    assert!(matches!(outcome, Err(RestoreError::Outdated)), "{outcome:?}");
}

#[test]
fn a_change_just_before_a_kept_plan_is_applied_is_noticed() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    let outcome = apply_later(&scratch, &plan, |lock| {
        scratch.plan_with(lock, &target, &[]).unwrap();
        let safety = pin_planned(&scratch, lock, &plan);
        scratch.write("changed", "a change that no capture has seen");
        safety
    });
    assert!(
        matches!(&outcome, Err(RestoreError::Changed(path)) if path.to_string() == "changed"),
        "{outcome:?}"
    );
    assert_eq!(scratch.read("changed"), "a change that no capture has seen");
}

#[test]
fn a_planned_state_that_gc_removed_cannot_be_pinned() {
    let (scratch, target) = wrecked_project();
    let plan = kept_plan(&scratch, &target, &[]);
    scratch.store.gc().unwrap();
    let workspace = scratch.store.workspace(&scratch.root, &ForbiddenRoots::default()).unwrap();
    let mut lock = workspace.lock().unwrap();
    let missing = lock.pin(plan.from, scratch.now(), "before a restore\n");
    assert!(
        matches!(&missing, Err(PinError::Store(StoreError::Object(ObjectError::Missing(tree)))) if *tree == plan.from),
        "{missing:?}"
    );
    // Planning again captures the state again.
    scratch.plan_with(&mut lock, &target, &[]).unwrap();
    let safety = pin_planned(&scratch, &mut lock, &plan);
    lock.apply(&plan, &safety).unwrap();
}
