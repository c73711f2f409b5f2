//! `cargo xtask plugins`: builds packages for agents that have plugins, from the agent table.

use std::fs;

use takeback_agents::{AGENTS, build_package};

use crate::Failure;
use crate::run::repository;

pub(crate) fn write_plugins() -> Result<(), Failure> {
    let all = repository().join("target/plugins");
    for agent in AGENTS {
        let Some(files) = build_package(agent) else { continue };
        let directory = all.join(agent.name);
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
        }
        for file in files {
            let path = directory.join(&file.path);
            let parent = path.parent().expect("the file is in the package");
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, file.content));
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        println!("target/plugins/{}: {}", agent.name, agent.title);
    }
    Ok(())
}
