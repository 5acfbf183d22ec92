//! The place where all observed processes connect.

use std::collections::HashMap;
#[cfg(unix)]
use std::fs::Permissions;
use std::io;
use std::net::{self, Ipv4Addr, SocketAddr};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::stream::Listener;
use super::{AliveConn, AliveError, Holder};

/// The observer: accepts the connections of the fixture and watches them.
///
/// # Drop
///
/// Closes every connection, which ends every process of the fixture that is
/// still alive: a failing test leaves nothing behind.
#[derive(Debug)]
pub struct AliveListener {
    book: Arc<Book>,
    listener: Arc<Listener>,
    observer: Arc<Handle>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _directory: Option<TempDir>,
}

/// Every connection ever accepted.
#[derive(Debug, Default)]
struct Book {
    entries: Mutex<Entries>,
    /// Marked whenever anything about any connection has changed.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entries {
    all: Vec<AliveConn>,
    /// The number of each role that `accept` has handed out.
    taken: HashMap<String, usize>,
    /// The number of barriers that were passed.
    tickets: u64,
}

impl AliveListener {
    /// Listens on a Unix socket in a private directory with a short path.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    #[cfg(unix)]
    pub fn unix() -> io::Result<Self> {
        // Not TMPDIR, which may be too long for the address of a socket.
        let directory = tempfile::Builder::new()
            .prefix("mcp-alive-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in("/tmp")?;
        let path = directory.path().join("s");
        Self::start(Some(directory), move || {
            Ok(Listener::Unix(UnixListener::bind(&path)?, path))
        })
    }

    /// Listens on the loopback interface, for processes without our file system.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub fn tcp() -> io::Result<Self> {
        Self::tcp_on((Ipv4Addr::LOCALHOST, 0).into())
    }

    /// Listens on `address`, for processes that reach us on another interface.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub fn tcp_on(address: SocketAddr) -> io::Result<Self> {
        Self::start(None, move || {
            // Not tokio's own `bind`, which would have to be awaited.
            let listener = net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Listener::Tcp(TcpListener::from_std(listener)?, address))
        })
    }

    fn start(
        directory: Option<TempDir>,
        bind: impl FnOnce() -> io::Result<Listener>,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let observer = Arc::new(runtime.handle().clone());
        let listener = {
            let _observer = observer.enter();
            Arc::new(bind()?)
        };
        let book = Arc::new(Book::default());
        let (stop, stopped) = oneshot::channel();
        observer.spawn(accept_all(
            listener.clone(),
            book.clone(),
            Arc::downgrade(&observer),
        ));
        let (started, has_started) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("alive-observer".to_owned())
            .spawn(move || {
                let _ = started.send(());
                let _ = runtime.block_on(stopped);
            })?;
        // A thread takes its name when it runs: a census goes by names.
        let _ = has_started.recv();
        Ok(Self {
            book,
            listener,
            observer,
            stop: Some(stop),
            thread: Some(thread),
            _directory: directory,
        })
    }

    /// The argument of `--alive` on the fixture's command line.
    pub fn address(&self) -> String {
        self.listener.address()
    }

    /// Waits for `future` on this thread: for tests without a runtime.
    ///
    /// # Panics
    ///
    /// Inside of an asynchronous context.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.observer.block_on(future)
    }

    /// Waits for a process that calls itself `role`; each call returns another one.
    ///
    /// # Errors
    ///
    /// [`AliveError::TimedOut`], which lists who is there instead.
    pub async fn accept(&self, role: &str, limit: Duration) -> Result<AliveConn, AliveError> {
        let find = || self.book.lock().take(role);
        match self.wait_for(limit, find).await {
            Some(conn) => Ok(conn),
            None => Err(AliveError::TimedOut {
                what: format!("the hello of a {role:?}"),
                limit,
                connected: self.alive(),
            }),
        }
    }

    /// The processes that are connected now.
    pub fn alive(&self) -> Vec<Holder> {
        let entries = self.book.lock();
        let alive = entries.all.iter().filter(|conn| !conn.is_dead());
        alive.map(AliveConn::holder).collect()
    }

    /// Every connection so far, in order of arrival, also those that have ended.
    pub fn connections(&self) -> Vec<AliveConn> {
        self.book.lock().all.clone()
    }

    /// Waits for the proof that everybody who ever connected is dead, also
    /// those whose connection nobody has accepted yet.
    ///
    /// # Errors
    ///
    /// [`AliveError::Survivors`] names who is not.
    pub async fn expect_all_dead(&self, limit: Duration) -> Result<(), AliveError> {
        let deadline = Instant::now() + limit;
        loop {
            self.barrier(limit).await?;
            let known = self.book.lock().all.len();
            let left = deadline.saturating_duration_since(Instant::now());
            let all_dead = || self.alive().is_empty().then_some(());
            if self.wait_for(left, all_dead).await.is_none() {
                #[cfg(windows)]
                self.let_go_of_the_left();
                let survivors = self.alive();
                if !survivors.is_empty() {
                    return Err(AliveError::Survivors { survivors, limit });
                }
            }
            // The last of them may have started others before it died.
            self.barrier(limit).await?;
            if self.book.lock().all.len() == known {
                return Ok(());
            }
        }
    }

    /// Takes for dead whose connection wine alone holds. One that has no number was killed before it could say
    /// it: who lives has said it long before a limit is over.
    #[cfg(windows)]
    fn let_go_of_the_left(&self) {
        let living = self
            .connections()
            .into_iter()
            .filter(|conn| !conn.is_dead());
        for conn in living.filter(|conn| crate::wine::has_left(conn.pid())) {
            conn.let_go();
        }
    }

    /// The processes that are alive, judged at the moment of the call and not a little later:
    /// everything that had happened to a Unix socket by then is taken in.
    ///
    /// # Errors
    ///
    /// [`AliveError`] when the observer itself does not answer.
    pub async fn alive_at_this_moment(&self, limit: Duration) -> Result<Vec<Holder>, AliveError> {
        // The first barrier is seen in the same turn of the observer as the
        // ends before it, or a later one; the second one in a later one.
        self.barrier(limit).await?;
        self.barrier(limit).await?;
        Ok(self.alive())
    }

    /// Returns when everybody who has connected before the call is in the book.
    ///
    /// The kernel hands out connections in the order in which they were made,
    /// so one of our own that has arrived proves that all before it have.
    async fn barrier(&self, limit: Duration) -> Result<(), AliveError> {
        let ticket = self.book.next_ticket();
        let line = format!("barrier {ticket}\n");
        let listener = self.listener.clone();
        let passing = self.observer.spawn(async move {
            let stream = listener.connect().await?;
            stream.try_write(line.as_bytes())?;
            Ok::<_, io::Error>(stream)
        });
        let ours = passing.await.map_err(io::Error::other)??;
        let arrived = || self.book.lock().remove_barrier(&ticket);
        let Some(theirs) = self.wait_for(limit, arrived).await else {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        };
        drop(ours);
        theirs.wait_dead(limit).await
    }

    /// Waits until `find` finds something, at most `limit` long.
    async fn wait_for<T>(&self, limit: Duration, find: impl Fn() -> Option<T>) -> Option<T> {
        let mut changed = self.book.changed.subscribe();
        let waiting = {
            // The observer's clock: the caller may have no runtime of its own.
            let _observer = self.observer.enter();
            tokio::time::timeout(limit, async {
                loop {
                    if let Some(found) = find() {
                        return Some(found);
                    }
                    changed.changed().await.ok()?;
                }
            })
        };
        waiting.await.ok().flatten()
    }
}

impl Drop for AliveListener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread only waits for `stop`; it cannot be late.
            let _ = thread.join();
        }
        // A caller that keeps an `AliveConn` does not keep the socket open.
        for conn in self.book.lock().all.drain(..) {
            conn.close();
        }
    }
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_ticket(&self) -> String {
        let mut entries = self.lock();
        entries.tickets += 1;
        entries.tickets.to_string()
    }
}

impl Entries {
    /// The next connection of `role` that was not handed out yet.
    fn take(&mut self, role: &str) -> Option<AliveConn> {
        let taken = self.taken.entry(role.to_owned()).or_default();
        let mut of_role = self.all.iter().filter(|conn| conn.holder().role == role);
        let conn = of_role.nth(*taken)?.clone();
        *taken += 1;
        Some(conn)
    }

    fn remove_barrier(&mut self, ticket: &str) -> Option<AliveConn> {
        let is_it = |conn: &AliveConn| conn.barrier().as_deref() == Some(ticket);
        let at = self.all.iter().position(is_it)?;
        Some(self.all.remove(at))
    }
}

/// Runs until the runtime ends.
async fn accept_all(listener: Arc<Listener>, book: Arc<Book>, observer: Weak<Handle>) {
    loop {
        let Ok(stream) = listener.accept().await else {
            // Out of descriptors, most likely: one that ends makes room.
            tokio::task::yield_now().await;
            continue;
        };
        let conn = AliveConn::new(stream, observer.clone());
        book.lock().all.push(conn.clone());
        let book = book.clone();
        tokio::spawn(conn.read_to_end(move || book.changed.send_modify(|()| {})));
    }
}
