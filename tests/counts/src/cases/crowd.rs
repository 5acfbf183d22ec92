//! Processes that have nothing to do with a server: what an end costs must not grow with them.

use std::process::{Child, Command, Stdio};

use super::{SERVER, program};

/// Strangers, until it is dropped.
pub(super) struct Crowd(Vec<Child>);

pub(super) fn gather(number: usize) -> Crowd {
    let one = |_| {
        Command::new(program(SERVER))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    Crowd((0..number).map(one).collect())
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for stranger in &mut self.0 {
            let _ = stranger.kill();
            let _ = stranger.wait();
        }
    }
}
