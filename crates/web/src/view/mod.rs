//! The data that the pages and the API show in different forms.

pub(crate) mod filter;
pub(crate) mod goal;
pub(crate) mod timeline;
pub(crate) mod turn;
pub(crate) mod working;
