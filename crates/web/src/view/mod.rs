//! The data behind the pages and the API. Both show it, each in its own form.

pub(crate) mod diff;
pub(crate) mod filter;
pub(crate) mod goal;
mod highlight;
mod languages;
pub(crate) mod timeline;
pub(crate) mod turn;
pub(crate) mod working;
