//! Uploading this machine's checkpoints.
//!
//! Objects are created in the same order as in a store: packs, then their indexes, then the refs
//! that need them. After every request, the bucket is consistent, and the next upload can continue
//! from there. Nothing in the local store is changed. While a pack is being sent, another thread
//! builds the next one.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use serde::Serialize;
use takeback_base::errors::error_messages;
use takeback_ledger::Time;
use takeback_tree::{CaptureRules, Export, ExportOptions, ExportPrivacy, Oid, Store};

use super::Objects;
use super::bucket::Content;
use super::choices::{
    choose_histories, choose_replaced, count_used, find_broken_packs, list_local_refs,
};
use super::error::ObjectsError;
use super::layout::{Inventory, RemoteRef, machine_prefix};
use super::staging::StagedPack;
use super::state::{LastUpload, UploadState};
use crate::Encrypt;

/// The size in bytes at which a new pack is begun. It is limited because a reader downloads whole
/// packs. Tests use a smaller size.
const MAX_PACK: u64 = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// The size at which a new pack is begun if the store is small.
const MIN_PACK: u64 = MAX_PACK / 4;

/// The maximum number of times that an upload is repeated because checkpoints were added meanwhile.
const MAX_ROUNDS: usize = 5;

/// The maximum number of finished packs in the queue for the sender. The builder waits while the
/// queue is full.
const READY_PACKS: usize = 2;

/// The number of small objects that are created at the same time.
const THREADS: usize = 8;

/// The progress of an upload.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct UploadProgress {
    pub bytes: u64,
    pub total: u64,
}

/// The result of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UploadReport {
    /// The number of checkpoints that were uploaded, of all kinds.
    pub checkpoints: u64,
    /// The number of packs that were uploaded.
    pub packs: u64,
    /// The size of these packs and their indexes.
    pub bytes: u64,
    /// The number of checkpoints that could not be uploaded, because they are damaged here.
    pub damaged: u64,
}

/// The data that is needed to send packs.
struct SentPacks<'a> {
    inventory: &'a Inventory,
    broken: &'a BTreeSet<String>,
    progress: &'a (dyn Fn(UploadProgress) + Sync),
}

/// The data that is needed to plan packs.
struct ExportPlan<'a> {
    local: &'a [RemoteRef],
    inventory: &'a Inventory,
    staged: Vec<StagedPack>,
    broken: BTreeSet<String>,
    rules: &'a CaptureRules,
}

impl Objects {
    /// Uploads every checkpoint that the bucket lacks. `rules` determine which files are private.
    /// Fails with [`ObjectsError::Busy`] if another process does not finish its upload in time.
    pub fn upload(
        &self,
        store: &Store,
        rules: &CaptureRules,
        now: Time,
        progress: &(dyn Fn(UploadProgress) + Sync),
    ) -> Result<UploadReport, ObjectsError> {
        let _lock = self.lock()?;
        let mut result = self.upload_all(store, rules, progress);
        // Another process may have added checkpoints in the meantime, and may not have uploaded
        // them because this process held the lock.
        for _ in 0..MAX_ROUNDS {
            let Ok((report, _)) = &result else { break };
            if self.count_waiting(store)? == 0 {
                break;
            }
            let before = report.clone();
            result = self.upload_all(store, rules, progress).map(|(report, inventory)| {
                let report = UploadReport {
                    checkpoints: before.checkpoints + report.checkpoints,
                    packs: before.packs + report.packs,
                    bytes: before.bytes + report.bytes,
                    damaged: report.damaged,
                };
                (report, inventory)
            });
        }
        let mut last = self.last_upload();
        match &result {
            Ok((report, inventory)) => {
                last = LastUpload {
                    succeeded_at: Some(now),
                    checkpoints: inventory.refs.len() as u64,
                    bytes: inventory.bytes,
                    damaged: report.damaged,
                    ..LastUpload::default()
                };
            }
            Err(error) => {
                last.failed_at = Some(now);
                last.error = Some(error_messages(error).join(": "));
            }
        }
        last.write(&self.files);
        result.map(|(report, _)| report)
    }

    /// Counts the checkpoints that are newer than the last upload. Makes no request.
    pub fn count_waiting(&self, store: &Store) -> Result<u64, ObjectsError> {
        let state = UploadState::read_latest(&self.files)?;
        let is_same =
            state.machine == self.identity.machine && state.target == self.bucket.target();
        let mut count = 0;
        for workspace in store.pinned_workspaces()? {
            let newest = state.newest.get(&workspace.to_string()).filter(|_| is_same);
            let newest = newest.copied().unwrap_or(0);
            let names = store.pin_names(&workspace)?;
            count += names.iter().filter(|name| name.seq > newest).count() as u64;
        }
        Ok(count)
    }

    /// Remembers which checkpoints were uploaded.
    fn remember_newest(
        &self,
        local: &[RemoteRef],
        state: &mut UploadState,
    ) -> Result<(), ObjectsError> {
        let newest = local.iter().map(|it| (it.workspace.to_string(), it.seq)).collect();
        if state.newest == newest && state.target == self.bucket.target() {
            return Ok(());
        }
        state.newest = newest;
        self.bucket.target().clone_into(&mut state.target);
        state.write(&self.files)
    }

    fn upload_all(
        &self,
        store: &Store,
        rules: &CaptureRules,
        progress: &(dyn Fn(UploadProgress) + Sync),
    ) -> Result<(UploadReport, Inventory), ObjectsError> {
        let bucket = self.check_fleet(true)?;
        let inventory = self.read_inventory()?;
        let mut state = self.read_state(&bucket)?;
        self.check_claim(&inventory, &state)?;
        let local = list_local_refs(store)?;
        let missing: Vec<RemoteRef> =
            local.iter().filter(|it| !inventory.refs.contains_key(it)).cloned().collect();
        let facts = self.find_missing_facts(store, &local)?;
        let broken = find_broken_packs(&inventory, &state);
        let replaced = match self.find_foreign_workspaces(store, &inventory, &local)?.is_empty() {
            true => choose_replaced(store, &inventory, &broken, &state)?,
            // The checkpoints of an earlier store may need any of the packs.
            false => BTreeSet::new(),
        };
        let staged = self.read_staged()?;
        let is_done = missing.is_empty() && facts.is_empty() && staged.is_empty();
        if is_done && broken.is_empty() && replaced.is_empty() {
            self.remember_newest(&local, &mut state)?;
            return Ok((UploadReport::default(), inventory));
        }
        self.claim(&inventory, &mut state)?;
        let mut report = UploadReport::default();
        let sent = SentPacks { inventory: &inventory, broken: &broken, progress };
        let total = staged.iter().map(StagedPack::bytes).sum();
        let packs = staged.iter().map(|pack| (pack.clone(), total));
        self.send_packs(packs, &sent, &mut state, &mut report)?;

        let broken = broken.clone();
        let plan = ExportPlan { local: &local, inventory: &inventory, staged, broken, rules };
        let mut export = self.plan_packs(store, &plan, &replaced)?;
        let mut replaced = replaced;
        if !replaced.is_empty() && !export.is_whole() {
            // The bucket may have objects that the store has lost, so no packs are replaced.
            replaced.clear();
            export = self.plan_packs(store, &plan, &replaced)?;
        }
        let new = self.build_and_send(&mut export, &sent, &mut state, &mut report)?;
        if !replaced.is_empty() && replaced.len() + plan.broken.len() >= count_used(&inventory) {
            state.full_bytes = new.iter().map(|pack| pack.size).sum();
        }
        let damaged: HashSet<Oid> = export.damaged.iter().copied().collect();
        report.damaged = damaged.len() as u64;
        let refs: Vec<&RemoteRef> =
            missing.iter().filter(|it| !damaged.contains(&it.commit)).collect();
        self.send_facts(&facts)?;
        self.send_refs(&refs)?;
        report.checkpoints = refs.len() as u64;

        if !replaced.is_empty() {
            // A checkpoint is marked before the packs that it needs, so that these packs are not
            // deleted before the checkpoint.
            self.mark_deleted_refs(&inventory, &local)?;
        }
        let is_sent = |digest: &&String| new.iter().any(|pack| pack.name.pack == **digest);
        let unused: Vec<&String> =
            plan.broken.iter().chain(&replaced).filter(|digest| !is_sent(digest)).collect();
        self.mark_packs(&inventory, unused.into_iter())?;
        state.packs.retain(|digest, _| !plan.broken.contains(digest) || is_sent(&digest));
        state.broken.clear();
        state.write(&self.files)?;
        self.remember_newest(&local, &mut state)?;
        let inventory = self.read_inventory()?;
        self.sweep_index_cache(&inventory);
        Ok((report, inventory))
    }

    /// Plans packs with the objects that the bucket lacks.
    fn plan_packs(
        &self,
        store: &Store,
        plan: &ExportPlan<'_>,
        replaced: &BTreeSet<String>,
    ) -> Result<Export, ObjectsError> {
        let has = self.list_objects(plan, replaced)?;
        let rewrites = !plan.broken.is_empty() || !replaced.is_empty();
        let histories = choose_histories(plan.local, plan.inventory, rewrites);
        Ok(store.export(&ExportOptions {
            histories: &histories,
            privacy: match self.encrypt {
                Encrypt::All => ExportPrivacy::All,
                Encrypt::Private => ExportPrivacy::Private(plan.rules),
                Encrypt::Off => ExportPrivacy::Off,
            },
            has: &|oid| has.contains(oid),
            // Even a small store is divided into a few packs, so that the first one can be sent
            // while the others are being built.
            max_pack: (store.pack_bytes()? / 4).clamp(MIN_PACK, MAX_PACK),
        })?)
    }

    /// Builds packs in another thread, and uploads each as soon as it is ready.
    fn build_and_send(
        &self,
        export: &mut Export,
        sent: &SentPacks<'_>,
        state: &mut UploadState,
        report: &mut UploadReport,
    ) -> Result<Vec<StagedPack>, ObjectsError> {
        let building = self.prepare_building()?;
        let (ready, packs) = mpsc::sync_channel(READY_PACKS);
        std::thread::scope(|scope| {
            let builder = scope.spawn(move || {
                let mut built = 0;
                while let Some(pack) = export.write_next(&building)? {
                    let pack = self.stage(&pack, &building)?;
                    built += pack.bytes();
                    if ready.send((pack, built + export.waiting_bytes())).is_err() {
                        // The sender has stopped, because an upload failed.
                        break;
                    }
                }
                Ok(())
            });
            let new = self.send_packs(packs.into_iter(), sent, state, report)?;
            builder.join().expect("the builder does not panic").map(|()| new)
        })
    }

    /// Uploads packs, each followed by its index, and records them in `state`. Each pack comes with
    /// an estimate of the total size of all packs.
    fn send_packs(
        &self,
        packs: impl Iterator<Item = (StagedPack, u64)>,
        sent: &SentPacks<'_>,
        state: &mut UploadState,
        report: &mut UploadReport,
    ) -> Result<Vec<StagedPack>, ObjectsError> {
        let (mut bytes, mut done) = (0, Vec::new());
        let mut last = self.last_upload();
        for (pack, total) in packs {
            (sent.progress)(UploadProgress { bytes, total });
            last.progress = Some((bytes, total));
            last.write(&self.files);
            self.send_pack(&pack, sent, report)?;
            state.packs.insert(pack.name.pack.clone(), pack.size);
            state.write(&self.files)?;
            self.unstage(&pack);
            bytes += pack.bytes();
            done.push(pack);
        }
        (sent.progress)(UploadProgress { bytes, total: bytes });
        Ok(done)
    }

    fn send_pack(
        &self,
        pack: &StagedPack,
        sent: &SentPacks<'_>,
        report: &mut UploadReport,
    ) -> Result<(), ObjectsError> {
        let digest = &pack.name.pack;
        let known = sent.inventory.find_pack(digest);
        if sent.inventory.gone_packs.contains_key(digest) {
            self.unmark_pack(digest)?;
        }
        let is_broken = sent.broken.contains(digest);
        if known.is_some() && !is_broken {
            return Ok(());
        }
        let prefix = format!("{}packs/", machine_prefix(&self.identity.machine));
        let files = [
            (pack.name.pack_file(), pack.size, digest),
            (pack.name.index_file(), pack.index_size, &pack.name.index),
        ];
        if is_broken {
            // The existing files with these names are damaged. The index is removed first: without
            // it, the pack is ignored.
            for (file, ..) in files.iter().rev() {
                self.bucket.remove(&format!("{prefix}{file}"))?;
            }
        }
        for (file, length, digest) in files {
            let path = self.staged_file(&file);
            let content = Content::File { path: &path, length, digest };
            self.bucket.create(&format!("{prefix}{file}"), &content)?;
        }
        report.packs += 1;
        report.bytes += pack.bytes();
        Ok(())
    }

    /// Lists the objects in the packs of the bucket. Leaves out packs that are broken, and packs
    /// that are to be replaced or deleted.
    fn list_objects(
        &self,
        plan: &ExportPlan<'_>,
        replaced: &BTreeSet<String>,
    ) -> Result<HashSet<Oid>, ObjectsError> {
        let listed = plan.inventory.packs.iter().filter(|pack| pack.gone.is_none());
        let names = listed.map(|pack| &pack.name).chain(plan.staged.iter().map(|pack| &pack.name));
        let mut objects = HashSet::new();
        for name in names {
            if !plan.broken.contains(&name.pack) && !replaced.contains(&name.pack) {
                objects.extend(self.read_index(&self.identity.machine, name)?);
            }
        }
        Ok(objects)
    }

    /// Creates the refs, several at a time.
    fn send_refs(&self, refs: &[&RemoteRef]) -> Result<(), ObjectsError> {
        let prefix = format!("{}refs/", machine_prefix(&self.identity.machine));
        let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure = Mutex::new(None);
        let work = || {
            while let Some(found) = refs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let key = format!("{prefix}{}", found.name());
                let content = found.content();
                let created = self.bucket.create(&key, &Content::Bytes(content.as_bytes()));
                if let Err(error) = created {
                    has_failed.store(true, Ordering::Relaxed);
                    *failure.lock().expect("no thread panics") = Some(error);
                }
                if has_failed.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(refs.len()) {
                scope.spawn(work);
            }
        });
        match failure.into_inner().expect("no thread panics") {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
