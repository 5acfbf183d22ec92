use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use super::npx::{Line, Spec, Wanted};
use super::settings::{hex, split};
use super::{Entry, Refusal, find, package_of};
use crate::command::Command;

const DAY: Duration = Duration::from_secs(24 * 3600);
const NAME: &str = "@scope/server";

/// An installation of npm, a cache with one package and the registry's answer, and a project.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.program("usr/bin/node", "\x7fELF");
        let npm = "usr/lib/node_modules/npm";
        tree.file(
            format!("{npm}/package.json"),
            r#"{"name":"npm","version":"11.4.2"}"#,
        );
        for name in ["npx", "npm"] {
            tree.program(format!("{npm}/bin/{name}-cli.js"), "#!/usr/bin/env node\n");
            let target = format!("../lib/node_modules/npm/bin/{name}-cli.js");
            symlink(target, tree.path(format!("usr/bin/{name}"))).unwrap();
        }
        fs::create_dir(tree.path("work")).unwrap();
        tree
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, path: impl AsRef<Path>, text: &str) {
        self.file(&path, text);
        fs::set_permissions(self.path(path), Permissions::from_mode(0o755)).unwrap();
    }

    fn cached(&self, spec: &str) -> String {
        let key = hex(&Sha512::digest(spec));
        format!("home/.npm/_npx/{}", &key[..16])
    }

    /// Installs version 1.2.3 for this specification, as npm does.
    fn install(&self, spec: &str) -> String {
        let copy = self.cached(spec);
        let home = format!("{copy}/node_modules/{NAME}");
        let bins = r#"{"server":"dist/index.js","other":"dist/other.js"}"#;
        let package = format!(r#"{{"name":"{NAME}","version":"1.2.3","bin":{bins}}}"#);
        self.file(format!("{home}/package.json"), &package);
        self.program(format!("{home}/dist/index.js"), "#!/usr/bin/env node\n");
        fs::create_dir_all(self.path(format!("{copy}/node_modules/.bin"))).unwrap();
        let link = self.path(format!("{copy}/node_modules/.bin/server"));
        symlink(format!("../{NAME}/dist/index.js"), link).unwrap();
        self.record(&copy, "1.2.3");
        copy
    }

    fn record(&self, copy: &str, version: &str) {
        let record =
            format!(r#"{{"packages":{{"node_modules/{NAME}":{{"version":"{version}"}}}}}}"#);
        self.file(format!("{copy}/node_modules/.package-lock.json"), &record);
    }

    /// Writes the registry's answer to npm, of this age.
    fn answer(&self, version: &str, more: &str, age: Duration) {
        let tags = format!(r#"{{"latest":"{version}"}}"#);
        let text = format!(r#"{{"dist-tags":{tags},"versions":{{"1.2.3":{{{more}}}}}}}"#);
        let digest = Sha512::digest(&text);
        let cached =
            |path: &str, digest: &[u8]| split(&Path::new("home/.npm/_cacache").join(path), digest);
        self.file(cached("content-v2/sha512", &digest), &text);
        let key = "make-fetch-happen:request-cache:https://registry.npmjs.org/@scope%2fserver";
        let time = (SystemTime::now() - age)
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis();
        let digest = format!("sha512-{}", STANDARD.encode(digest));
        let line =
            format!(r#"{{"key":"{key}","integrity":"{digest}","metadata":{{"time":{time}}}}}"#);
        self.file(
            cached("index-v5", &Sha256::digest(key)),
            &format!("\n0\t{line}"),
        );
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let arg0 = words.next().unwrap();
        let bin = self.path("usr/bin");
        let env = [("PATH", bin.clone()), ("HOME", self.path("home"))];
        Command {
            program: bin.join(arg0),
            arg0: arg0.into(),
            args: words.map(Into::into).collect(),
            env: BTreeMap::from(env.map(|(name, value)| (name.into(), value.into()))),
            identity: None,
            cwd: Some(self.path("work")),
        }
    }

    fn find(&self, line: &str) -> Result<Entry, Refusal> {
        let now = SystemTime::now();
        find(&self.command(line), &(now - DAY..now))
    }

    fn refusal(&self, line: &str) -> Refusal {
        self.find(line).unwrap_err()
    }
}

#[test]
fn an_exact_version_in_the_cache_is_its_entry() {
    let tree = Tree::new();
    let copy = tree.install("@scope/server@1.2.3");
    let entry = tree.find("npx -y @scope/server@1.2.3 --flag -- x").unwrap();
    assert_eq!(
        entry.program,
        tree.path(&copy).join("node_modules/.bin/server")
    );
    assert_eq!(entry.arg0, "server");
    assert_eq!(entry.args, ["--flag", "--", "x"]);
    assert_eq!(
        package_of(&entry.program).as_deref(),
        Some("@scope/server@1.2.3")
    );
    let of = |name: &str| entry.env.get(OsStr::new(name)).unwrap().to_str().unwrap();
    let root = tree.0.path().canonicalize().unwrap();
    assert!(of("PATH").starts_with(&format!(
        "{}/node_modules/.bin:",
        tree.path(&copy).display()
    )));
    assert!(of("PATH").ends_with(&format!(":{}", tree.path("usr/bin").display())));
    assert_eq!(of("npm_config_yes"), "true");
    assert_eq!(of("npm_lifecycle_event"), "npx");
    assert_eq!(Path::new(of("NODE")), root.join("usr/bin/node"));
    assert_eq!(Path::new(of("npm_config_prefix")), root.join("usr"));
    assert_eq!(Path::new(of("INIT_CWD")), root.join("work"));
}

#[test]
fn a_named_program_is_one_of_the_package_of_the_option() {
    let tree = Tree::new();
    tree.install("@scope/server@1.2.3");
    for line in [
        "npx -p @scope/server@1.2.3 server x",
        "npx --package=@scope/server@1.2.3 -- server x",
        "npm exec --package @scope/server@1.2.3 -- server x",
        "npm exec server --package @scope/server@1.2.3 x",
    ] {
        assert_eq!(tree.find(line).unwrap().args, ["x"], "{line}");
    }
    assert_eq!(
        tree.refusal("npx -p @scope/server@1.2.3 tool"),
        Refusal::Copy
    );
}

#[test]
fn a_tag_needs_a_fresh_answer_of_the_registry() {
    let tree = Tree::new();
    for spec in ["@scope/server", "@scope/server@latest"] {
        let line = format!("npx -y {spec}");
        assert_eq!(
            tree.find(&line).unwrap_err(),
            Refusal::Missing(spec.to_owned())
        );
        tree.install(spec);
        let _ = fs::remove_dir_all(tree.path("home/.npm/_cacache"));
        assert_eq!(tree.refusal(&line), Refusal::Answer);
        tree.answer("1.2.3", "", DAY / 2);
        assert_eq!(tree.find(&line).unwrap().arg0, "server");
        tree.answer("1.2.3", "", DAY * 2);
        assert_eq!(tree.refusal(&line), Refusal::Answer);
        tree.answer("1.2.4", "", DAY / 2);
        assert_eq!(tree.refusal(&line), Refusal::Answer);
    }
    // npm takes an older version then, but not if the tag is named.
    tree.answer("1.2.3", r#""deprecated":"x""#, DAY / 2);
    assert_eq!(tree.refusal("npx @scope/server"), Refusal::Answer);
    assert!(tree.find("npx @scope/server@latest").is_ok());
}

#[test]
fn half_an_install_or_a_foreign_one_is_left_to_the_runner() {
    let spec = "@scope/server@1.2.3";
    let old = File::options();
    type Change<'a> = &'a dyn Fn(&Tree, &str);
    let cases: [(Refusal, Change<'_>); 9] = [
        (Refusal::Copy, &|tree, copy| {
            fs::create_dir(tree.path(copy).join("concurrency.lock")).unwrap();
        }),
        (Refusal::Copy, &|tree, copy| {
            fs::remove_file(tree.path(copy).join("node_modules/.package-lock.json")).unwrap();
        }),
        (Refusal::Copy, &|tree, copy| {
            let record = tree.path(copy).join("node_modules/.package-lock.json");
            let record = old.clone().write(true).open(record).unwrap();
            record.set_modified(SystemTime::now() - DAY).unwrap();
        }),
        (Refusal::Copy, &|tree, copy| tree.record(copy, "1.2.4")),
        (Refusal::Copy, &|tree, copy| {
            let home = tree.path(copy).join("node_modules").join(NAME);
            fs::set_permissions(home, Permissions::from_mode(0o777)).unwrap();
        }),
        (Refusal::Entry, &|tree, copy| {
            let link = tree.path(copy).join("node_modules/.bin/server");
            fs::remove_file(&link).unwrap();
            symlink(tree.path("usr/bin/node"), link).unwrap();
            tree.record(copy, "1.2.3");
        }),
        (Refusal::Entry, &|tree, copy| {
            fs::remove_dir_all(tree.path(copy).join("node_modules").join(NAME).join("dist"))
                .unwrap();
            tree.record(copy, "1.2.3");
        }),
        (Refusal::Entry, &|tree, copy| {
            tree.program(
                format!("{copy}/node_modules/{NAME}/dist/index.js"),
                "node server.js",
            );
        }),
        (Refusal::Copy, &|tree, copy| {
            let home = tree.path(copy).join("node_modules").join(NAME);
            fs::rename(&home, tree.path("elsewhere")).unwrap();
            symlink(tree.path("elsewhere"), home).unwrap();
            tree.record(copy, "1.2.3");
        }),
    ];
    for (why, change) in cases {
        let tree = Tree::new();
        let copy = tree.install(spec);
        change(&tree, &copy);
        assert_eq!(tree.refusal(&format!("npx {spec}")), why);
    }
}

#[test]
fn what_npm_would_prefer_is_left_to_it() {
    let line = "npx @scope/server@1.2.3";
    type Change<'a> = &'a dyn Fn(&Tree);
    let cases: [(Refusal, Change<'_>); 11] = [
        (Refusal::Preferred, &|tree| {
            tree.file(format!("usr/lib/node_modules/{NAME}/package.json"), "{}");
        }),
        (Refusal::Preferred, &|tree| {
            tree.file("work/node_modules/.bin/@scope/server@1.2.3", "");
        }),
        (Refusal::Preferred, &|tree| {
            tree.file("work/node_modules/other/package.json", "{}")
        }),
        (Refusal::Preferred, &|tree| {
            tree.file(
                format!("work/node_modules/a/node_modules/{NAME}/package.json"),
                "{}",
            );
            let inner = format!(r#"{{"packages":{{"node_modules/a/node_modules/{NAME}":{{}}}}}}"#);
            tree.file("work/node_modules/.package-lock.json", &inner);
        }),
        (Refusal::Preferred, &|tree| {
            tree.file("package.json", r#"{"workspaces":["work"]}"#)
        }),
        (Refusal::Preferred, &|tree| {
            tree.file("work/package.json", &format!(r#"{{"name":"{NAME}"}}"#));
        }),
        (Refusal::Preferred, &|tree| {
            tree.file("work/package.json", r#"{"bin":"x"}"#)
        }),
        (Refusal::Settings, &|tree| {
            tree.file("work/.npmrc", "before=2020-01-01")
        }),
        (Refusal::Settings, &|tree| {
            tree.file("home/.npmrc", "cache=${HOME}/x")
        }),
        (Refusal::Runner, &|tree| {
            tree.file(
                "usr/lib/node_modules/npm/package.json",
                r#"{"name":"npm","version":"12.0.0"}"#,
            );
        }),
        (Refusal::Runner, &|tree| {
            tree.program("usr/bin/node", "#!/bin/sh\n")
        }),
    ];
    for (why, change) in cases {
        let tree = Tree::new();
        tree.install("@scope/server@1.2.3");
        assert!(tree.find(line).is_ok());
        change(&tree);
        assert_eq!(tree.refusal(line), why);
    }
}

#[test]
fn settings_that_are_known_are_passed_on() {
    let tree = Tree::new();
    tree.install("@scope/server@1.2.3");
    tree.file(
        "home/.npmrc",
        "//host/:_authToken=${TOKEN}\n; x\nfund = false\nregistry=https://registry.npmjs.org/\n",
    );
    tree.file(
        "work/package.json",
        r#"{"name":"it","config":{"a":[true,1]}}"#,
    );
    let env = tree.find("npx --quiet @scope/server@1.2.3").unwrap().env;
    let of = |name: &str| env.get(OsStr::new(name)).and_then(|it| it.to_str());
    assert_eq!(of("npm_config_fund"), Some(""));
    assert_eq!(of("npm_config_registry"), None);
    assert_eq!(of("npm_config_loglevel"), Some("warn"));
    assert_eq!(of("npm_package_name"), Some("it"));
    assert_eq!(of("npm_package_config_a_1"), Some("1"));
}

#[test]
fn a_command_line_that_is_not_known_is_left_to_the_runner() {
    let tree = Tree::new();
    for line in [
        "npx",
        "npx -c x",
        "npx --call=x",
        "npx -y",
        "npx --registry=x a",
        "npx a@^1",
        "npx a@1",
        "npx a@x",
        "npx ./a",
        "npx github:a/b",
        "npx A",
        "npx -p a -p b c",
        "npx a@1.2.3+4",
        "npx a@v1.2.3",
        "npm exec -p a b",
        "npm run a",
        "npm",
        "node a",
        "npx --no a",
    ] {
        let why = tree.refusal(line);
        assert!(
            matches!(why, Refusal::Words | Refusal::Runner),
            "{line}: {why:?}"
        );
    }
}

#[test]
fn words_after_the_package_are_its_own_for_npx_and_options_for_npm() {
    let of = |words: &str, is_npx| {
        let words: Vec<_> = words.split(' ').map(Into::into).collect();
        let line = Line::parse(&words, is_npx).ok()?;
        let words = line.words.iter().map(|it| it.to_str().unwrap());
        Some(words.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(of("-y a -y -- b", true).as_deref(), Some("a -y -- b"));
    assert_eq!(of("-y a -y -- b", false).as_deref(), Some("a b"));
    assert_eq!(of("-- a -- b", true).as_deref(), Some("a -- b"));
    assert_eq!(of("a --debug", false), None);
}

#[test]
fn a_specification_is_a_version_a_tag_or_a_name() {
    let parse = |text| Spec::parse(text).map(|it| (it.name, it.wanted));
    assert_eq!(
        parse("@a/b@1.0.0-rc.1"),
        Some(("@a/b", Wanted::Version("1.0.0-rc.1")))
    );
    assert_eq!(parse("a@next"), Some(("a", Wanted::Tag("next"))));
    assert_eq!(parse("@a/b"), Some(("@a/b", Wanted::Any)));
    for text in [
        "", "@", "@a", "a@", "a@01.2.3", "a@1.2", "a b", ".a", "a/b", "a@npm:b",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}
