//! Clients that take more than their quota, and an honest one beside them, under another
//! token: its calls stay fast, and the daemon small.

mod beside;
mod door;
mod frames;
mod input;
mod link;
mod output;
mod pings;
#[path = "../support/raw.rs"]
mod raw;
mod requests;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
