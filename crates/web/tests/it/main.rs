//! The server over real HTTP, on a real home.

#![allow(clippy::unwrap_used)]

mod api;
mod chat;
mod chat_host;
mod client;
mod events;
mod exports;
mod pages;
mod scratch;
mod security;
mod tls;
