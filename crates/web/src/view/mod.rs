//! The data that both the pages and the API show, each in its own form.

pub(crate) mod filter;
pub(crate) mod goal;
pub(crate) mod timeline;
pub(crate) mod turn;
pub(crate) mod working;
