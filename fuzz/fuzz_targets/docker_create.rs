//! Any bytes as a request to the engine that a wrapped server makes: a create gets our labels, which
//! count, or is refused. The first byte says for which end, the first line is the request's target.

#![no_main]
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

/// Stands for the parts of these modules that `rewrite` needs, and reaches no engine.
mod labels {
    use std::collections::HashMap;

    #[derive(Debug)]
    pub(crate) struct Mark;

    impl Mark {
        pub(crate) fn with_fate(&self, ends: bool) -> HashMap<String, String> {
            let fate = if ends { "end" } else { "keep" };
            let all = [
                ("dev.mcp-lifecycle.I.launch", "L"),
                ("dev.mcp-lifecycle.I.on-end", fate),
            ];
            all.map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into()
        }
    }
}

mod wrapper {
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub(crate) enum ReapPolicy {
        Tied,
        All,
        Report,
    }

    impl ReapPolicy {
        pub(crate) fn ends(self, tied: bool) -> bool {
            self == Self::All || self == Self::Tied && tied
        }
    }
}

#[path = "../../mcp-launcher-docker/src/wrapper/proxy"]
mod proxy {
    mod fields;
    mod rewrite;
    mod route;

    use hyper::{Method, Uri};
    use rewrite::Additions;
    use route::{Kind, Route};
    use serde_json::Value;

    use crate::labels::Mark;
    use crate::wrapper::ReapPolicy;

    const OURS: &str = "dev.mcp-lifecycle.I.";

    pub(super) fn check(first: u8, bytes: &[u8]) {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let (target, body) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
        if let Ok(target) = Uri::try_from(target) {
            let posted = route::route(&Method::POST, &target);
            // A possible create is never taken for another request, however its path is written.
            let plain = percent_encoding::percent_decode_str(target.path()).decode_utf8_lossy();
            if plain.trim_end_matches('/').ends_with("/containers/create") {
                assert!(matches!(posted, Route::Create(_)), "{target}: {posted:?}");
            }
            if let Route::Create(_) | Route::Unlabelled(_) = posted {
                assert_eq!(route::route(&Method::PUT, &target), posted);
            }
        }
        let policy = match first % 3 {
            0 => ReapPolicy::Tied,
            1 => ReapPolicy::All,
            _ => ReapPolicy::Report,
        };
        let kind = if first < 128 {
            Kind::Container
        } else {
            Kind::Libpod
        };
        let additions = Additions {
            mark: Mark,
            policy,
            sockets: Some(("/var/run/docker.sock".into(), "/p.sock".into())),
        };
        let Ok((new, ends)) = rewrite::rewrite(body, kind, &additions) else {
            return;
        };
        assert!(new.len() <= 2 * body.len() * 3 + 512);
        // Again it says the same, for it is labelled already.
        let (again, still) = rewrite::rewrite(&new, kind, &additions).expect("it is an object");
        assert_eq!(still, ends);
        let text = std::str::from_utf8(&new).expect("it is text");
        let labels = if kind == Kind::Libpod {
            "labels"
        } else {
            "Labels"
        };
        for text in [text, str::from_utf8(&again).expect("it is text")] {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            // A parser that is stricter than the engine's says nothing.
            let Some(Ok(value)) = values.next() else {
                return;
            };
            // The last of two counts, by exact name or another case.
            let found: Vec<_> = value.as_object().expect("it is an object").iter().collect();
            let found = found
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(labels));
            let found: Vec<_> = found.filter(|(_, value)| value.is_object()).collect();
            assert_eq!(found.len(), 1, "{text}");
            let all = found[0].1.as_object().expect("it is an object");
            let own = all.iter().filter(|(key, _)| key.starts_with(OURS));
            assert_eq!(own.count(), 2 + extra(all), "{text}");
            assert_eq!(all["dev.mcp-lifecycle.I.launch"], "L");
            assert_eq!(
                all["dev.mcp-lifecycle.I.on-end"],
                if ends { "end" } else { "keep" }
            );
        }
    }

    /// Labels with our instance that this host does not set, and so does not read.
    fn extra(all: &serde_json::Map<String, Value>) -> usize {
        let own = ["launch", "on-end"];
        let names = all.keys().filter_map(|key| key.strip_prefix(OURS));
        names.filter(|name| !own.contains(name)).count()
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, rest)) = bytes.split_first() {
        proxy::check(first, rest);
    }
});
