//! One connection to the proxy.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::UnixStream;
use tracing::debug;

use super::Shared;
use super::body::rewrite;
use super::head::{Head, Route};
use super::wire::{read_answer, read_body, read_head};

/// Serves one client: one request, whatever it turns into.
pub(super) async fn serve(shared: Arc<Shared>, mut client: UnixStream) {
    if let Err(error) = relay(&shared, &mut client).await {
        debug!(%error, "a connection to the engine ended");
    }
}

async fn relay(shared: &Arc<Shared>, client: &mut UnixStream) -> io::Result<()> {
    let mut buffer = Vec::new();
    let Some(bytes) = read_head(client, &mut buffer).await? else {
        return Ok(());
    };
    let Some(mut head) = Head::parse(&bytes) else {
        return answer(client, "400 Bad Request", "not a request").await;
    };
    head.close_after();
    match head.route() {
        Route::Other => pass_through(shared, client, &head, &buffer).await,
        Route::Create | Route::CreateLasting | Route::CreateLibpod => {
            create(shared, client, head, buffer).await
        }
    }
}

/// Attach, exec, build, logs, events, the upgrades of BuildKit: bytes.
async fn pass_through(
    shared: &Shared,
    client: &mut UnixStream,
    head: &Head,
    rest: &[u8],
) -> io::Result<()> {
    let mut upstream = match UnixStream::connect(&shared.upstream).await {
        Ok(upstream) => upstream,
        Err(error) => return unreachable(client, &shared.upstream, &error).await,
    };
    upstream.write_all(&head.to_bytes()).await?;
    upstream.write_all(rest).await?;
    // The end of one direction is passed on and leaves the other open.
    copy_bidirectional(client, &mut upstream).await.map(drop)
}

async fn create(
    shared: &Arc<Shared>,
    client: &mut UnixStream,
    mut head: Head,
    mut buffer: Vec<u8>,
) -> io::Result<()> {
    let Some(pass) = shared.fence.enter() else {
        return refuse(client).await;
    };
    let body = async {
        if head.lists("expect", "100-continue") {
            client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        read_body(client, &mut buffer, head.length()).await
    };
    let body = tokio::select! {
        biased;
        // Who waits for the fence must not have to wait for this client.
        () = shared.fence.closed() => None,
        body = body => Some(body?),
    };
    let Some(body) = body else {
        drop(pass);
        return refuse(client).await;
    };
    // Nobody is going to look for what is not ended.
    let pass = (head.route() != Route::CreateLasting).then_some(pass);
    let body = rewrite(&body, head.route(), &shared.marks).unwrap_or(body);
    head.set_length(body.len());
    // To its end, even when the client has gone: the daemon creates it anyway,
    // and the fence has to know when that is over.
    let upstream = shared.upstream.clone();
    let exchange = tokio::spawn(async move {
        let _pass = pass;
        let mut upstream = UnixStream::connect(upstream).await?;
        upstream.write_all(&head.to_bytes()).await?;
        upstream.write_all(&body).await?;
        read_answer(&mut upstream).await
    });
    match exchange.await {
        Ok(Ok(answer)) => {
            client.write_all(&answer).await?;
            client.shutdown().await
        }
        Ok(Err(error)) => unreachable(client, &shared.upstream, &error).await,
        Err(error) => Err(io::Error::other(error)),
    }
}

async fn refuse(client: &mut UnixStream) -> io::Result<()> {
    answer(client, "409 Conflict", "the MCP server is being ended").await
}

async fn unreachable(client: &mut UnixStream, path: &Path, error: &io::Error) -> io::Result<()> {
    let message = format!(
        "cannot connect to the engine at {}: {error}",
        path.display()
    );
    answer(client, "502 Bad Gateway", &message).await
}

/// An answer of our own, in the form of the daemon's.
async fn answer(client: &mut UnixStream, status: &str, message: &str) -> io::Result<()> {
    let body = serde_json::json!({"message": message}).to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}
