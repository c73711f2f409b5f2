//! Accessibility: axe-core examines every page, in light and in dark colors.

use std::fs;

use serde_json::Value;

use super::driver::Browser;
use super::served::Served;
use crate::Failure;
use crate::agents::{AgentCache, FetchError};

/// The version of axe-core that examines the pages.
const AXE: &str = "4.14.0";

/// Examines pages. Fails if a finding has a serious or critical impact.
pub(super) fn examine(
    browser: &Browser,
    served: &Served,
    pages: &[(&str, String)],
) -> Result<(), Failure> {
    let Some(axe) = fetch_axe()? else {
        println!("skipped: axe-core cannot be fetched");
        return Ok(());
    };
    let mut findings = Vec::new();
    for scheme in ["light", "dark"] {
        browser.set_look(1440, 900, scheme)?;
        for (name, path) in pages {
            browser.open(&format!("{}{path}", served.origin()))?;
            browser.wait_for("document.querySelector('h1')")?;
            // During an animation, colors differ from the final colors of the page.
            browser.run("document.getAnimations().forEach((own) => own.finish())")?;
            for finding in run_axe(browser, &axe)? {
                findings.push(format!("{name} ({scheme}): {finding}"));
            }
        }
    }
    browser.set_look(1440, 900, "light")?;
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n          ")) }
}

/// Installs axe-core, and returns its script. Returns `None` if that is impossible.
pub(super) fn fetch_axe() -> Result<Option<String>, Failure> {
    let cache = AgentCache::new()?;
    let installed = match cache.install_package("axe-core", "axe-core", AXE) {
        Ok(installed) => installed,
        Err(FetchError::Unavailable(_)) => return Ok(None),
        Err(FetchError::Failed(failure)) => return Err(failure),
    };
    let path = installed.join("node_modules/axe-core/axe.min.js");
    fs::read_to_string(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs axe-core in the page. Returns the serious and critical findings.
fn run_axe(browser: &Browser, axe: &str) -> Result<Vec<String>, Failure> {
    let script = format!(
        "{axe};
         return axe.run(document, {{ resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }}).then((results) => results.violations
           .filter((found) => ['serious', 'critical'].includes(found.impact))
           .map((found) => `${{found.id}}: ${{found.nodes.slice(0, 3).map((node) => node.target.join(' ')
             + ' ' + (node.any[0]?.message ?? '')).join(' | ')}}`))"
    );
    let found = browser.run_slowly(&script)?;
    let found = found.as_array().cloned().unwrap_or_default();
    Ok(found.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}
