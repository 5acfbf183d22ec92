//! The end of the output, in virtual time.

use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

type Kubelet = WebSocketStream<DuplexStream>;

/// The streams of a server that has exited already, and the other end of its session.
async fn of_one_that_exited() -> (Input, [BoxRead; 2], Kubelet) {
    let (ours, theirs) = duplex(64 * 1024);
    let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
    let attached = Attached {
        socket,
        half_close: true,
        gated: [false; 2],
    };
    let exited = std::future::ready(());
    let (stdin, outputs, task) = attached.split(CancellationToken::new(), KEEP_ALIVE, exited);
    tokio::spawn(task);
    let kubelet = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
    (stdin, outputs, kubelet)
}

/// A line of standard output every so often, so many times.
async fn say(mut kubelet: Kubelet, every: Duration, times: usize) {
    for _ in 0..times {
        sleep(every).await;
        if kubelet
            .send(Message::binary(b"\x01line\n".to_vec()))
            .await
            .is_err()
        {
            return;
        }
    }
    let _ = kubelet.close(None).await;
    while let Some(Ok(_)) = kubelet.next().await {}
}

async fn all(output: &mut BoxRead) -> String {
    let mut text = String::new();
    let read = timeout(Duration::from_secs(600), output.read_to_string(&mut text)).await;
    read.expect("an end of the output").unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn output_under_way_arrives_whole_after_the_exit() {
    let (_stdin, [mut stdout, mut stderr], kubelet) = of_one_that_exited().await;
    tokio::spawn(say(kubelet, Duration::from_secs(4), 10));
    assert_eq!(all(&mut stdout).await, "line\n".repeat(10));
    assert_eq!(all(&mut stderr).await, "");
}

#[tokio::test(start_paused = true)]
async fn output_without_end_is_cut_and_that_is_told() {
    let (_stdin, [mut stdout, mut stderr], kubelet) = of_one_that_exited().await;
    tokio::spawn(say(kubelet, Duration::from_secs(2), usize::MAX));
    let begun = Instant::now();
    let text = all(&mut stdout).await;
    let took = begun.elapsed();
    assert!((55..70).contains(&took.as_secs()), "{took:?}");
    assert!(text.lines().count() > 25, "{text}");
    let told = all(&mut stderr).await;
    assert!(told.contains("60 s after the server's exit"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn output_that_nobody_takes_is_cut_and_that_is_told() {
    let (_stdin, [mut stdout, mut stderr], kubelet) = of_one_that_exited().await;
    tokio::spawn(say(kubelet, Duration::from_millis(1), 2 * QUEUE));
    let told = all(&mut stderr).await;
    assert!(told.contains("not read within 5 s"), "{told}");
    // Those that were waiting for their reader already.
    assert_eq!(all(&mut stdout).await, "line\n".repeat(QUEUE));
}

/// A session that does not end with its server has nothing more to say.
#[tokio::test(start_paused = true)]
async fn a_session_that_stays_silent_ends_without_a_word() {
    let (_stdin, [_stdout, mut stderr], kubelet) = of_one_that_exited().await;
    let begun = Instant::now();
    assert_eq!(all(&mut stderr).await, "");
    assert_eq!(begun.elapsed(), LATE_EXIT);
    drop(kubelet);
}
