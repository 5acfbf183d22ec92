//! State of a container or a pod, which tasks wait for.

use tokio::sync::watch::Sender;

/// Changes it. Wakes no task if it stays the same; returns whether it does not.
pub fn learn<T: Clone + PartialEq>(known: &Sender<T>, change: impl FnOnce(&mut T)) -> bool {
    known.send_if_modified(|known| {
        let before = known.clone();
        change(known);
        *known != before
    })
}

/// Waits until `done`, and returns what is known then.
pub async fn until<T: Clone>(known: &Sender<T>, done: impl FnMut(&T) -> bool) -> T {
    match known.subscribe().wait_for(done).await {
        Ok(known) => known.clone(),
        Err(_) => unreachable!("the caller holds the sender"),
    }
}
