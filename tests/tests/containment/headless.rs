//! A process whose main thread has ended, while others go on: its state is that
//! of a zombie, and it is none.

use crate::stage::{Stage, perform, plays};

#[test]
fn it_is_named_and_asked_to_end_like_any_other() {
    perform("headless::asked");
}

#[test]
#[ignore = "a role"]
fn asked() {
    if !plays() {
        return;
    }
    let stage = Stage::new();
    let server = stage.launch(&["headless"]);
    for role in ["headless", "server"] {
        stage.wait_for(role);
    }
    let terminator = server.terminator();
    let named = stage.wait("the names", terminator.survivors()).unwrap();
    assert_eq!(named.len(), 2, "{named:?}");
    stage
        .wait("the request", terminator.request_end())
        .expect("asked");
    // Nobody is forced: what is not asked does not end.
    let gone = stage.wait("the end", terminator.gone()).expect("proof");
    assert!(gone.swept_count <= 1, "{gone:?}");
    stage.nobody_is_left();
}
