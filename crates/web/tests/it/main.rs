//! The server over real HTTP, on a real home.

mod api;
mod client;
mod events;
mod pages;
mod scratch;
mod security;
