//! The directory of a workspace, exchanged by another user in the middle of a rollback.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Mutex;

use takeback_tree::fault;
use takeback_undo::{Destination, Request, RollbackError, rollback};

use crate::support::Scratch;

/// The directory of the running test. A function that runs at a moment takes no arguments.
static BASE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Keeps tests apart that share the moment and the directory.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn base() -> PathBuf {
    BASE.lock().unwrap().clone().unwrap()
}

/// Puts a link to the secrets in the place of the project.
fn exchange_project() {
    fs::rename(base().join("project"), base().join("aside")).unwrap();
    symlink("secrets", base().join("project")).unwrap();
}

/// Puts another directory of the same name in the place of the project.
fn exchange_for_directory() {
    fs::rename(base().join("project"), base().join("aside")).unwrap();
    fs::rename(base().join("secrets"), base().join("project")).unwrap();
}

/// Makes a project whose checkpoint has a file that the secrets have, too, and lacks the others.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    *BASE.lock().unwrap() = Some(scratch.base().to_owned());
    scratch.write("authorized_keys", "of the attacker");
    scratch.play_turn("first", "authorized_keys", "changed");
    fs::create_dir(scratch.base().join("secrets")).unwrap();
    fs::write(scratch.base().join("secrets/authorized_keys"), "changed").unwrap();
    scratch
}

fn assert_untouched(scratch: &Scratch, secrets: &str) {
    let path = scratch.base().join(secrets);
    assert_eq!(fs::read_to_string(path.join("authorized_keys")).unwrap(), "changed");
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
    let aside = scratch.base().join("aside/authorized_keys");
    assert_eq!(fs::read_to_string(aside).unwrap(), "changed");
}

#[test]
fn a_link_that_replaces_the_workspace_after_the_plan_is_not_followed() {
    let _guard = ONE_AT_A_TIME.lock();
    let scratch = scratch();
    let planned = scratch.plan(Destination::Checkpoint("1".into()));
    exchange_project();
    scratch.apply(planned).unwrap_err();
    assert_untouched(&scratch, "secrets");
}

#[test]
fn a_link_that_replaces_the_workspace_while_it_is_opened_is_not_followed() {
    let _guard = ONE_AT_A_TIME.lock();
    let scratch = scratch();
    let planned = scratch.plan(Destination::Checkpoint("1".into()));
    fault::interrupt_at("the root is resolved", exchange_project);
    let error = scratch.apply(planned).unwrap_err();
    let text = takeback_base::errors::error_chain(&error);
    assert!(text.contains("has taken the place of a directory in its path"), "{text}");
    assert_untouched(&scratch, "secrets");
}

#[test]
fn a_plan_is_not_made_for_a_link_that_replaces_the_workspace() {
    let _guard = ONE_AT_A_TIME.lock();
    let scratch = scratch();
    fault::interrupt_at("the root is resolved", exchange_project);
    let request = Request::new(scratch.project(), Destination::Checkpoint("1".into()));
    rollback::plan(&scratch.opened, &request).unwrap_err();
    assert_untouched(&scratch, "secrets");
}

#[test]
fn another_directory_in_the_place_of_the_workspace_is_left_alone() {
    let _guard = ONE_AT_A_TIME.lock();
    let scratch = scratch();
    let planned = scratch.plan(Destination::Checkpoint("1".into()));
    exchange_for_directory();
    let error = scratch.apply(planned).unwrap_err();
    assert!(matches!(error, RollbackError::Changed(_)), "{error:?}");
    assert_untouched(&scratch, "project");
}
