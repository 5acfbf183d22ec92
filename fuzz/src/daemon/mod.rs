//! The parts of the daemon that fuzz targets reach: its parsers, and in the modules
//! below what it keeps of a process, and its connections and sessions.

#[path = "../launcher/choices.rs"]
mod choices;
mod client;
mod connections;
mod process;
#[expect(dead_code, reason = "the part that the client recovers by is not used")]
#[path = "../../../mcp-launcher-executor/src/client/session/sequence.rs"]
mod sequence;
mod server;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mcp_lifecycle_core::backend::tls;

use self::choices::Choices;
pub use self::connections::connections;
pub use self::process::{output, stdin};
use super::token::Token;
use crate::protocol::Message;
use crate::protocol::process::{EnvPolicy, Inherit};

/// An HTTP request at the door, of one who knows the token or not.
pub fn request(bytes: &[u8]) {
    let token = Token::new("0123456789abcdef").ok();
    let stream = tokio::io::join(bytes, tokio::io::sink());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime without I/O");
    let judge = |request: &_| super::http::upgrade(request, token.as_slice());
    let _ = runtime.block_on(super::http::exchange(
        stream,
        Duration::from_secs(60),
        judge,
    ));
}

/// Parameters of a start and of a look at a file, and a token.
pub fn params(bytes: &[u8]) {
    if let Ok(Message::Request { params, .. }) = Message::parse(bytes) {
        let _ = super::restrictions::check(params);
        let _ = super::metadata::path(params);
    }
    let _ = std::str::from_utf8(bytes).map(Token::new);
}

/// Certificates and a key, as they are used for either side of TLS.
pub fn pem(bytes: &[u8]) {
    let file = Path::new("file");
    let _ = tls::roots(file, bytes);
    if let (Ok(chain), Ok(key)) = (tls::chain(file, bytes), tls::key(file, bytes)) {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map(|config| config.with_no_client_auth().with_single_cert(chain, key));
        assert!(config.is_ok(), "the versions are there");
    }
}

/// Patterns and names of a client\'s choice.
pub fn environment(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let inherit = [Inherit::All, Inherit::Core, Inherit::None];
    let mut policy = EnvPolicy {
        inherit: inherit[usize::from(choices.byte() % 3)],
        ignore_default_excludes: choices.one_in(2),
        ..EnvPolicy::default()
    };
    while choices.more() {
        let piece = text(choices.bytes());
        match choices.byte() % 3 {
            0 => policy.exclude.push(piece),
            1 => policy.include_only.push(piece),
            _ => drop(policy.set.insert(piece, String::new())),
        }
    }
    let host = [
        ("PATH", "/bin"),
        ("MCP_EXECUTOR_TOKEN", "s"),
        ("API_KEY", "k"),
    ];
    let host = host.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env = super::environment::resolve(Some(&policy), &BTreeMap::new(), host);
    assert!(!env.contains_key("MCP_EXECUTOR_TOKEN") || env["MCP_EXECUTOR_TOKEN"].is_empty());
}
