//! A workspace directory that another user replaces in the middle of a rollback.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Mutex;

use takeback_tree::fault;
use takeback_undo::{Destination, Request, RollbackError, rollback};

use crate::support::Scratch;

/// The directory of the running test. It is static because `fault::interrupt_at` takes a function
/// without arguments.
static BASE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The lock that makes these tests run one at a time, because they share the interruption and the
/// directory.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn base() -> PathBuf {
    BASE.lock().unwrap().clone().unwrap()
}

/// Replaces the project with a link to the secrets.
fn exchange_project() {
    fs::rename(base().join("project"), base().join("aside")).unwrap();
    symlink("secrets", base().join("project")).unwrap();
}

/// Replaces the project with another directory.
fn exchange_for_directory() {
    fs::rename(base().join("project"), base().join("aside")).unwrap();
    fs::rename(base().join("secrets"), base().join("project")).unwrap();
}

/// Creates a project whose checkpoint contains a file with the same name as one of the secrets.
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
fn a_link_that_replaces_the_workspace_while_it_is_being_opened_is_not_followed() {
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
fn another_directory_in_place_of_the_workspace_is_not_touched() {
    let _guard = ONE_AT_A_TIME.lock();
    let scratch = scratch();
    let planned = scratch.plan(Destination::Checkpoint("1".into()));
    exchange_for_directory();
    let error = scratch.apply(planned).unwrap_err();
    assert!(matches!(error, RollbackError::Changed(_)), "{error:?}");
    assert_untouched(&scratch, "project");
}
