use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

/// The executor's address, and the client's limits.
///
/// `Debug` shows neither the token nor the arguments of a command.
#[derive(Clone)]
#[non_exhaustive]
pub struct ExecServerConfig {
    pub(crate) target: Target,
    /// Permission to send the token to another machine over plain `ws://`, as behind a VPN. `false`
    /// by default.
    pub plain_token: bool,
    /// The deadline of connecting and the handshake. 10 s by default.
    pub connect_timeout: Duration,
    /// The deadline of every request. 10 s by default.
    pub call_timeout: Duration,
    /// The time in which a lost connection may be resumed, bounded by the peer's own limit: 25 s by
    /// default, codex forgets after 30 s. Zero means never. A command's stdio is never resumed.
    pub resume_window: Duration,
    /// Silence after which the peer is pinged. 10 s by default.
    pub keep_alive: Duration,
    /// Silence after which the connection counts as lost. 25 s by default.
    pub dead_after: Duration,
    /// The largest frame that is accepted, in bytes. 16 MiB by default.
    pub max_frame: usize,
    /// Maximum unread bytes per output stream. 256 KiB by default. Our daemon stops sending at this
    /// limit; a plain peer cannot, so there it is multiplied by [`Self::PLAIN_SLACK`], and bytes
    /// beyond are read again later.
    pub window: usize,
    /// The lease to request from our daemon; its default if `None`.
    pub lease: Option<Duration>,
}

#[derive(Clone)]
pub(crate) enum Target {
    WebSocket {
        url: String,
        token: Option<String>,
        certificates: Certificates,
    },
    Command {
        program: std::ffi::OsString,
        args: Vec<std::ffi::OsString>,
    },
}

#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The authorities that may have signed the executor's certificate; the public ones if `None`.
    pub(crate) trusted: Option<std::path::PathBuf>,
    pub(crate) own: Option<(std::path::PathBuf, std::path::PathBuf)>,
}

impl ExecServerConfig {
    /// The factor by which a plain peer exceeds [`window`](Self::window).
    pub const PLAIN_SLACK: usize = 32;

    /// Returns a value that is equal for configurations of the same place, and differs between runs
    /// of this program. Tokens do not count.
    pub(crate) fn fingerprint(&self) -> String {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        let hash = |place: &dyn fmt::Debug| {
            let secret = SECRET.get_or_init(RandomState::new);
            // Hashed, because a URL or an argument may hold a secret.
            secret.hash_one(format!("{place:?}"))
        };
        let place = match &self.target {
            Target::WebSocket { url, .. } => hash(url),
            Target::Command { program, args } => hash(&(program, args)),
        };
        format!("{place:016x}")
    }

    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            plain_token: false,
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(10),
            resume_window: Duration::from_secs(25),
            keep_alive: Duration::from_secs(10),
            dead_after: Duration::from_secs(25),
            max_frame: 16 << 20,
            window: 256 << 10,
            lease: None,
        }
    }

    /// Sets the bearer token. Not used by a command or a socket file.
    #[must_use]
    pub fn token(mut self, secret: impl Into<String>) -> Self {
        match &mut self.target {
            Target::WebSocket { token, .. } => *token = Some(secret.into()),
            Target::Command { .. } => drop(secret.into()),
        }
        self
    }

    /// Trusts the certificates of this PEM file instead of the public ones.
    #[must_use]
    pub fn trust(mut self, pem: impl Into<std::path::PathBuf>) -> Self {
        if let Target::WebSocket { certificates, .. } = &mut self.target {
            certificates.trusted = Some(pem.into());
        }
        self
    }

    /// Presents this certificate to an executor that requires one: PEM files of the chain and its
    /// private key, read at each connect.
    #[must_use]
    pub fn identity(
        mut self,
        certificate: impl Into<std::path::PathBuf>,
        key: impl Into<std::path::PathBuf>,
    ) -> Self {
        if let Target::WebSocket { certificates, .. } = &mut self.target {
            certificates.own = Some((certificate.into(), key.into()));
        }
        self
    }

    pub(crate) fn objection(&self) -> Option<&'static str> {
        match &self.target {
            Target::WebSocket {
                url,
                token: Some(_),
                ..
            } if !self.plain_token && is_plain_and_far(url) => Some(
                "the token would cross the network unencrypted; use wss://, or set `plain_token`",
            ),
            _ => None,
        }
    }

    pub(crate) fn peer(&self) -> String {
        match &self.target {
            Target::WebSocket { url, .. } => without_secrets(url),
            Target::Command { program, .. } => program.to_string_lossy().into_owned(),
        }
    }
}

mcp_lifecycle_core::debug_fields! { ExecServerConfig, it { peer: &it.peer(), resume_window: &it.resume_window } }

fn is_plain_and_far(url: &str) -> bool {
    let Ok(uri) = url.parse::<tokio_tungstenite::tungstenite::http::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    let is_near = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("ws") && !is_near
}

fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use crate::ExecutorLauncher;

    #[test]
    fn no_secret_of_a_url_is_in_the_peer_s_name() {
        for (url, name) in [
            ("ws://h:1/path", "ws://h:1/path"),
            ("ws://u:p@h/?token=S", "ws://h/"),
            ("ws://h/?token=a@b", "ws://h/"),
            ("wss://u:p@q@h", "wss://h"),
            ("ws://h?t=u@v", "ws://h"),
            ("ws://h/a@b", "ws://h/a@b"),
            ("unix:/run/user/1000/x", "unix:/run/user/1000/x"),
        ] {
            assert_eq!(ExecutorLauncher::websocket(url).peer(), name, "{url}");
        }
    }

    #[test]
    fn a_token_is_not_sent_to_another_machine_in_the_clear() {
        for (url, refused) in [
            ("ws://h/", true),
            ("ws://10.0.0.1:7443/x?y", true),
            ("ws://localhost.example", true),
            ("ws://127.0.0.1:1", false),
            ("ws://[::1]:1/", false),
            ("ws://localhost", false),
            ("wss://h", false),
            ("unix:/x", false),
        ] {
            let mut config = ExecutorLauncher::websocket(url);
            assert_eq!(config.objection(), None, "{url} without a token");
            config = config.token("a-secret");
            assert_eq!(config.objection().is_some(), refused, "{url}");
            config.plain_token = true;
            assert_eq!(config.objection(), None, "{url} by choice");
        }
    }

    #[test]
    fn the_place_makes_the_fingerprint_and_no_secret_shows_in_it() {
        let at = |url: &str| ExecutorLauncher::websocket(url).fingerprint();
        assert_eq!(at("ws://h/?tenant=a"), at("ws://h/?tenant=a"));
        assert_ne!(at("ws://h/?tenant=a"), at("ws://h/?tenant=b"));
        assert!(!at("ws://h/?tenant=secret").contains("secret"));
        let by = |key: &str| ExecutorLauncher::command("ssh", ["-i", key, "host"]).fingerprint();
        assert_eq!(by("one"), by("one"));
        assert_ne!(by("one"), by("two"));
    }
}
