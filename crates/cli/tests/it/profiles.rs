//! Profiles: settings under `[profiles.<name>]` that take precedence when that profile is chosen.

use serde_json::{Value, json};

use crate::agent::{Agent, configure, hook_with, rows};
use crate::session::{Session, said};

const PROFILES: &str = "\
[checkpoints]
max_snapshots = 7
exclude = [\"*.iso\"]
[chat]
provider = \"local\"
[providers.local]
base_url = \"http://127.0.0.1:8080/v1\"
model = \"small\"
prices = { input = 1, output = 2 }
[profiles.work]
chat.approve = \"ask\"
[profiles.work.checkpoints]
exclude = []
[profiles.work.providers.local]
model = \"large\"
prices = { output = 3 }
[profiles.off.checkpoints]
enabled = false
";

fn with_profiles() -> Session {
    let session = Session::new();
    configure(&session, PROFILES);
    session
}

fn find_setting(config: &Value, key: &str) -> (Value, String) {
    let settings = config["settings"].as_array().unwrap();
    let setting = settings.iter().find(|setting| setting["key"] == key).unwrap();
    (setting["value"].clone(), setting["source"].as_str().unwrap().to_owned())
}

#[test]
fn a_profile_overrides_only_the_settings_that_it_names() {
    let session = with_profiles();
    let config = session.json(&["config", "--profile", "work"]);
    assert_eq!(
        (&config["profile"], &config["profiles"]),
        (&json!("work"), &json!(["off", "work"]))
    );
    for (key, value, source) in [
        ("checkpoints.max_snapshots", json!(7), "config.toml, line 2"),
        ("checkpoints.exclude", json!([]), "config.toml, line 13, profile work"),
        ("checkpoints.enabled", json!(true), "default"),
        ("chat.approve", json!("ask"), "config.toml, line 11, profile work"),
        ("chat.provider", json!("local"), "config.toml, line 5"),
        ("providers.local.model", json!("large"), "config.toml, line 15, profile work"),
        ("providers.local.prices.input", json!(1.0), "config.toml, line 9"),
        ("providers.local.prices.output", json!(3.0), "config.toml, line 16, profile work"),
    ] {
        assert_eq!(find_setting(&config, key), (value, source.to_owned()), "{key}");
    }
    let config = session.json(&["config"]);
    assert_eq!(config["profile"], Value::Null);
    assert_eq!(find_setting(&config, "checkpoints.exclude").0, json!(["*.iso"]));
    assert_eq!(find_setting(&config, "providers.local.model").0, "small");
}

#[test]
fn the_option_takes_precedence_over_the_variable() {
    let session = with_profiles();
    let profile = |arguments: &[&str], variable: &str| {
        let arguments = [&["config", "--json"], arguments].concat();
        let variables = [("TAKEBACK_PROFILE", variable)];
        let output = hook_with(&session.base(), &arguments, b"", &variables);
        let config: Value = serde_json::from_slice(&output.stdout).unwrap();
        config["profile"].clone()
    };
    assert_eq!(profile(&[], "work"), "work");
    assert_eq!(profile(&["--profile", "off"], "work"), "off");
    assert_eq!(profile(&[], ""), Value::Null);
}

#[test]
fn a_profile_can_switch_checkpoints_off() {
    let session = with_profiles();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let event = agent.event(call.event("before_tool"));
    let hook = |variables: &[(&str, &str)]| {
        let output = hook_with(&session.base(), &["hook", "generic"], &event, variables);
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
        rows(&session).len()
    };
    assert_eq!(hook(&[("TAKEBACK_PROFILE", "off")]), 0);
    assert_eq!(hook(&[("TAKEBACK_PROFILE", "work")]), 1);
    let refused = session.output(&["checkpoint", "--profile", "off"]);
    assert!(said(&refused).contains("checkpoints are switched off"), "{refused:?}");
}

#[test]
fn an_unknown_profile_is_an_error_for_a_user() {
    let mut session = with_profiles();
    session.takeback(&["config", "--profile", "wrok"]);
    session.takeback(&["checkpoint", "--profile", "home"]);
    configure(&session, "");
    session.takeback(&["--profile", "work", "config"]);
    session.assert(
        "
$ takeback config --profile wrok
! error: no profile `wrok` in ~/.takeback/config.toml
! hint: did you mean `work`?
[exit Some(1)]
$ takeback checkpoint --profile home
! error: no profile `home` in ~/.takeback/config.toml
! hint: the profiles are: off, work
[exit Some(1)]
$ takeback --profile work config
! error: no profile `work` in ~/.takeback/config.toml
! hint: a profile is a table such as [profiles.work.checkpoints]
[exit Some(1)]
",
    );
}

#[test]
fn an_unknown_profile_never_blocks_a_hook() {
    let session = with_profiles();
    session.write("a", "1");
    let mut agent = Agent::new(&session, "s1");
    let call = agent.call("Write", json!({ "path": "a" }));
    let event = agent.event(call.event("before_tool"));
    for (arguments, variables) in [
        (&["hook", "generic"][..], &[("TAKEBACK_PROFILE", "wrok")][..]),
        (&["--profile", "wrok", "hook", "generic"], &[]),
    ] {
        let output = hook_with(&session.base(), arguments, &event, variables);
        assert_eq!(output.status.code(), Some(0));
        assert!(said(&output).contains("no profile `wrok`"), "{output:?}");
    }
    assert_eq!(rows(&session).len(), 1);
    let later = session.output(&["list"]);
    assert!(said(&later).contains("no profile `wrok`"), "it is shown later: {later:?}");
}

#[test]
fn an_unknown_profile_does_not_block_the_way_back() {
    let session = with_profiles();
    session.write("a", "1");
    session.json(&["checkpoint"]);
    session.write("a", "2");
    let output = session.output(&["rollback", "1", "--profile", "wrok"]);
    assert!(said(&output).contains("no profile `wrok`"), "{output:?}");
    assert_eq!(session.read("a"), "1");
}

#[test]
fn an_error_in_a_profile_names_the_line_even_if_the_profile_is_not_used() {
    let mut session = Session::new();
    for text in [
        "[profiles.work.checkpoints]\nenabled = 1\n",
        "[profiles.work]\n[profiles.work.checkpoint]\n",
        "[profiles.work.profiles.more]\n",
        "[profiles]\nwork = 1\n",
        "profiles = 1\n",
    ] {
        configure(&session, text);
        session.takeback(&["config"]);
    }
    session.assert(
        "
$ takeback config
! error: ~/.takeback/config.toml, line 2: invalid type: integer `1`, expected a boolean
! hint: `enabled` is true or false: take checkpoints
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown field `checkpoint`, expected one of `checkpoints`, `ledger`, `protection`, `fleet`, `chat`, `prices`, `providers`
! hint: did you mean `checkpoints`?
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: unknown field `profiles`, expected one of `checkpoints`, `ledger`, `protection`, `fleet`, `chat`, `prices`, `providers`
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: invalid type: integer `1`, expected a table of settings
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 1: invalid type: integer `1`, expected a map
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
",
    );
}

#[test]
fn settings_for_providers_never_hold_a_key() {
    let mut session = Session::new();
    let key = "sk-ant-0123456789abcdef";
    for text in [
        format!("[providers.mine]\nbase_url = \"http://h/v1\"\napi_key_env = \"{key}\"\n"),
        format!("[providers.mine]\napi_key = \"{key}\"\n"),
        format!("[providers.mine]\nbase_url = \"https://me:{key}@host/v1\"\n"),
    ] {
        configure(&session, &text);
        let output = session.output(&["config"]);
        assert!(!said(&output).contains(key), "{output:?}");
        session.takeback(&["config"]);
    }
    session.assert(
        "
$ takeback config
! error: ~/.takeback/config.toml, line 3: api_key_env is the name of an environment variable, such as OPENAI_API_KEY, not the key itself
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: unknown field `api_key`, expected one of `kind`, `base_url`, `api_key_env`, `model`, `context_window`, `max_output`, `prices`
! hint: did you mean `api_key_env`?
[exit Some(1)]
$ takeback config
! error: ~/.takeback/config.toml, line 2: a base_url has no user or password; name the variable with the key in api_key_env
! hint: fix the file, or remove it to use the defaults
[exit Some(1)]
",
    );
}
