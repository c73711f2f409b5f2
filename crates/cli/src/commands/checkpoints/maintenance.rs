//! `takeback checkpoints verify`, `repair`, `gc`: check, repair and compact the store.

use std::process::ExitCode;

use serde::Serialize;
use takeback_tree::{
    AnyPath, BrokenPack, GcOutcome, Oid, PinReport, PinState, RelPath, Store, VerifyReport,
};
use takeback_undo::History;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Progress};

pub(super) fn verify_store(store: &Store, context: &Context) -> Result<ExitCode, Failure> {
    let bar = Progress::counting("verifying", "objects");
    let report = store.verify(&|done, total| bar.step(done, Some(total)))?;
    drop(bar);
    Ok(print_verified(&VerifyView::new(store, report), context))
}

#[derive(Serialize)]
struct VerifyView {
    whole: bool,
    objects: u64,
    /// The number of rows in the lists of all workspaces.
    rows: usize,
    checkpoints: Vec<PinView>,
    packs: Vec<PackView>,
}

#[derive(Serialize)]
struct PinView {
    /// The name of the ref in the store.
    name: String,
    workspace: Option<AnyPath>,
    seq: Option<u64>,
    id: Option<Oid>,
    state: &'static str,
    lost: Vec<RelPath>,
    lost_count: u64,
    /// True if the copy of the repository's index is lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lost_index: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct PackView {
    name: String,
    reason: String,
}

impl From<BrokenPack> for PackView {
    fn from(pack: BrokenPack) -> PackView {
        PackView { name: pack.name, reason: pack.reason }
    }
}

impl VerifyView {
    fn new(store: &Store, report: VerifyReport) -> VerifyView {
        VerifyView {
            whole: report.is_whole(),
            objects: report.objects,
            rows: count_rows(store),
            checkpoints: report.pins.into_iter().map(|pin| PinView::new(store, pin)).collect(),
            packs: report.packs.into_iter().map(PackView::from).collect(),
        }
    }
}

/// Counts the rows of all workspaces, as `takeback checkpoints status` does.
fn count_rows(store: &Store) -> usize {
    let workspaces = store.pinned_workspaces().unwrap_or_default();
    let histories = workspaces.iter().filter_map(|id| History::read(store, id).ok());
    histories.map(|history| history.rows().count()).sum()
}

impl PinView {
    fn new(store: &Store, report: PinReport) -> PinView {
        let info = report.pin.as_ref().and_then(|pin| store.workspace_info(&pin.workspace).ok()?);
        let lost_index = matches!(report.state, PinState::Partly { attachment: true, .. });
        let (state, lost, lost_count, reason) = match report.state {
            PinState::Whole => ("whole", Vec::new(), 0, None),
            PinState::Partly { lost, count, .. } => ("partly_lost", lost, count, None),
            PinState::Lost { reason } => ("lost", Vec::new(), 0, Some(reason)),
        };
        PinView {
            id: report.pin.as_ref().and_then(|pin| store.pin_id(pin).ok()?),
            workspace: info.map(|info| info.path),
            seq: report.pin.map(|pin| pin.seq),
            name: report.name,
            state,
            lost,
            lost_count,
            lost_index,
            reason,
        }
    }
}

fn print_verified(view: &VerifyView, context: &Context) -> ExitCode {
    let code = if view.whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if context.globals.json {
        output::print_json(view);
        return code;
    }
    for pack in &view.packs {
        println!("Damaged: {} ({})", pack.name, output::disarm(&pack.reason));
    }
    for pin in view.checkpoints.iter().filter(|pin| pin.state != "whole") {
        let id = pin.id.map_or(pin.name.clone(), |id| id.to_string()[..7].to_owned());
        let workspace = pin.workspace.as_ref().map(|path| format!(" of {}", path.0.display()));
        let title = format!("{id}{}", workspace.unwrap_or_default());
        match &pin.reason {
            Some(reason) => {
                println!("Lost: {} ({})", output::disarm(&title), output::disarm(reason));
            }
            None => {
                let paths =
                    (pin.lost_count > 0).then(|| output::count(pin.lost_count as usize, "path"));
                let index = pin.lost_index.then(|| "the copy of the git index".to_owned());
                let parts: Vec<String> = paths.into_iter().chain(index).collect();
                let colon = if pin.lost.is_empty() { "" } else { ":" };
                println!("Partly lost: {}, {}{colon}", output::disarm(&title), parts.join(" and "));
                pin.lost.iter().take(10).for_each(|path| println!("  {path}"));
            }
        }
    }
    let all = view.checkpoints.len();
    let damaged = view.checkpoints.iter().filter(|pin| pin.state != "whole").count();
    if view.whole {
        let objects = output::count(view.objects as usize, "object");
        let checkpoints = output::count(view.rows, "checkpoint");
        let steps = output::count(all.saturating_sub(view.rows), "step");
        println!("No problems found in {checkpoints}, {steps} and {objects}.");
    } else {
        println!("{damaged} of {all} checkpoints and steps are damaged.");
        if !view.packs.is_empty() {
            println!("Run `takeback checkpoints repair` to save what is intact.");
        }
    }
    code
}

#[derive(Serialize)]
struct RepairView {
    set_aside: Vec<PackView>,
    salvaged: u64,
    now: VerifyView,
}

pub(super) fn repair_store(store: &Store, context: &Context) -> Result<ExitCode, Failure> {
    let bar = Progress::counting("repairing", "objects");
    let report = store.repair(&|done, total| bar.step(done, Some(total)))?;
    drop(bar);
    // Accept the losses, because this command now reports them to the user. As long as a loss is
    // not accepted, no prune can free space.
    let lost = if report.lost.is_empty() { 0 } else { store.accept_losses(&report)? };
    let view = RepairView {
        set_aside: report.set_aside.into_iter().map(PackView::from).collect(),
        salvaged: report.salvaged,
        now: VerifyView::new(store, report.now),
    };
    if context.globals.json {
        output::print_json(&view);
        return Ok(if view.now.whole { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for pack in &view.set_aside {
        println!("Set aside: {} ({})", pack.name, output::disarm(&pack.reason));
    }
    if view.salvaged > 0 {
        println!("Saved {} from damaged packs.", output::count(view.salvaged as usize, "object"));
    }
    let code = print_verified(&view.now, context);
    if lost > 0 {
        println!("Lost checkpoints are no longer listed. The store's quarantine has their ids.");
    }
    Ok(code)
}

#[derive(Serialize)]
struct GcView {
    bytes_before: u64,
    bytes_after: u64,
    objects_kept: u64,
    objects_dropped: u64,
    packs_before: usize,
    packs_after: usize,
}

impl From<GcOutcome> for GcView {
    fn from(outcome: GcOutcome) -> GcView {
        GcView {
            bytes_before: outcome.bytes_before,
            bytes_after: outcome.bytes_after,
            objects_kept: outcome.objects_kept,
            objects_dropped: outcome.objects_dropped,
            packs_before: outcome.packs_before,
            packs_after: outcome.packs_after,
        }
    }
}

pub(super) fn collect_garbage(store: &Store, context: &Context) -> Result<ExitCode, Failure> {
    let progress = Progress::new("cleaning up");
    let view = GcView::from(store.gc()?);
    drop(progress);
    if context.globals.json {
        output::print_json(&view);
    } else {
        println!(
            "{} → {}, {} → {}; deleted {}.",
            output::bytes(view.bytes_before),
            output::bytes(view.bytes_after),
            view.packs_before,
            output::count(view.packs_after, "pack"),
            output::count(view.objects_dropped as usize, "object"),
        );
    }
    Ok(ExitCode::SUCCESS)
}
