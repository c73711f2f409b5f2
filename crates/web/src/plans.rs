//! Plans that the server keeps while users decide, each under its digest.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use takeback_undo::{Planned, Request};

/// The maximum number of plans that are kept. The oldest are dropped first.
const MAX_PLANS: usize = 64;

/// A plan and the request that it was made for.
#[derive(Clone)]
pub(crate) struct KeptPlan {
    pub(crate) digest: String,
    pub(crate) request: Request,
    pub(crate) planned: Planned,
}

/// The plans that were shown most recently, newest last.
#[derive(Default)]
pub(crate) struct Plans(Mutex<VecDeque<KeptPlan>>);

impl Plans {
    fn lock(&self) -> MutexGuard<'_, VecDeque<KeptPlan>> {
        // The list is consistent after every call, so a panic in another thread does no harm.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a plan and returns its digest.
    pub(crate) fn keep(&self, request: Request, planned: Planned) -> String {
        let digest = planned.digest().to_string();
        let mut plans = self.lock();
        // Empty plans for different workspaces may have the same digest. The later plan replaces
        // the earlier one.
        plans.retain(|kept| kept.digest != digest);
        if plans.len() == MAX_PLANS {
            plans.pop_front();
        }
        plans.push_back(KeptPlan { digest: digest.clone(), request, planned });
        digest
    }

    /// Finds a plan by its digest.
    pub(crate) fn find(&self, digest: &str) -> Option<KeptPlan> {
        self.lock().iter().find(|kept| kept.digest == digest).cloned()
    }

    /// Forgets a plan, because it was applied.
    pub(crate) fn forget(&self, digest: &str) {
        self.lock().retain(|kept| kept.digest != digest);
    }
}
