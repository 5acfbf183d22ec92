//! Any bytes as the ledger of another host, as a mark, and as an environment. What is read of a
//! ledger is read again of what this host would write for it; a mark is what this host writes.

#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;
use mcp_guardian::{cgroup, identity, sys};
use mcp_lifecycle_fuzz::bounded;

#[path = "../../mcp-tree/src/orphans"]
mod orphans {
    mod format;
    mod mark;
    mod place;
    mod verdict;

    use mcp_guardian::identity::Cookie;

    pub(super) fn check(bytes: &[u8]) {
        if let Some(contents) = format::parse(bytes) {
            let place = contents.cgroups.as_ref();
            let mut written = format::title(&contents.host, contents.namespace, place).into_bytes();
            for record in &contents.servers {
                written.extend(format::line(Some(*record)));
                written.extend(format::line(None));
            }
            let read = format::parse(&written).expect("what is written is read");
            assert_eq!(
                read,
                format::Contents {
                    unreadable: 0,
                    ..contents
                }
            );
        }
        if let Ok(text) = str::from_utf8(bytes)
            && let Some(cookie) = Cookie::parse(text)
        {
            assert_eq!(cookie.to_string(), text);
        }
        if let verdict::Mark::Cookie(cookie) = mark::find_mark(bytes) {
            let variable = cookie.variable();
            let variable = variable.as_bytes();
            assert!(bytes.split(|&byte| byte == 0).any(|it| it == variable));
        }
    }
}

fuzz_target!(|bytes: &[u8]| bounded(bytes, orphans::check));
