//! The floor: what two pipes and two processes cost without any protocol.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::stats::median;

/// The median round trip of 200 bytes through `cat`, in seconds.
pub(crate) fn round_trip(times: usize) -> f64 {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let message = [b'x'; 200];
    let mut answer = [0; 200];
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let begun = Instant::now();
        stdin.write_all(&message).unwrap();
        stdout.read_exact(&mut answer).unwrap();
        taken.push(begun.elapsed());
    }
    drop(stdin);
    child.wait().unwrap();
    median(taken)
}
