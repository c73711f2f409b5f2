//! What the pages and the API show, independent of how they show it.

pub(crate) mod diff;
pub(crate) mod filter;
mod highlight;
mod languages;
pub(crate) mod timeline;
pub(crate) mod turn;
