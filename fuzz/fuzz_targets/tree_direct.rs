//! Any files in the caches of npx and uvx, by any layout, any record of a start and any words of a
//! runner. The package that is found is one that is there; a command is repeated as the record says,
//! with the server's own arguments, or left as it is. No file keeps a reader waiting.

#![no_main]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mcp_tree::command::{Command, Start};
use mcp_tree::direct::{package_of, replace};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The places where runners keep packages, and those whose files are read.
const PLACES: [&str; 20] = [
    "_npx/1/node_modules/.bin/server",
    "_npx/1/node_modules/.package-lock.json",
    "_npx/1/node_modules/a/package.json",
    "_npx/1/node_modules/a/index.js",
    "_npx/1/node_modules/a/dist/package.json",
    "_npx/1/node_modules/a/dist/index.js",
    "_npx/1/node_modules/@scope/b/package.json",
    "_npx/1/package.json",
    "_npx/1/package-lock.json",
    "uv/env/bin/server",
    "uv/env/pyvenv.cfg",
    "uv/env/uv-receipt.toml",
    "uv/env/lib/python3/site-packages/server-1.2.dist-info/entry_points.txt",
    "uv/env/lib/python3/site-packages/a_b-0.dist-info/entry_points.txt",
    "uv/env/lib/python3/site-packages/none.dist-info/entry_points.txt",
    "uv/env/lib/python3/site-packages/server-1.2.dist-info/METADATA",
    ".npmrc",
    "package.json",
    "uv.toml",
    "pyproject.toml",
];

const RUNNERS: [&str; 5] = ["npx", "uvx", "npm exec", "uv tool run", "node"];

const PROGRAMS: [&str; 2] = [PLACES[0], PLACES[9]];

/// Puts a file there, a directory, a link or a pipe. What cannot be put there is left out.
fn put(root: &Path, entry: &[u8]) {
    let &[place, kind, ref content @ ..] = entry else {
        return;
    };
    let path = root.join(PLACES[place as usize % PLACES.len()]);
    let _ = path.parent().map(fs::create_dir_all);
    let _ = match kind {
        b'd' => fs::create_dir_all(&path),
        b'l' => {
            let other = content.first().copied().unwrap_or_default();
            symlink(root.join(PLACES[other as usize % PLACES.len()]), &path)
        }
        b'p' if !path.ends_with(".npmrc") => {
            let mode = nix::sys::stat::Mode::S_IRWXU;
            nix::unistd::mkfifo(&path, mode).map_err(Into::into)
        }
        _ => File::create_new(&path).and_then(|mut file| file.write_all(content)),
    };
}

/// The package is named by a manifest above the program, or by a directory of its environment.
fn is_there(root: &Path, program: &Path, package: &str) -> bool {
    if program.ends_with(PROGRAMS[1]) {
        let installed = fs::read_dir(root.join("uv/env/lib/python3/site-packages"));
        return installed.expect("it was read").flatten().any(|entry| {
            let entry = entry.file_name().into_string().expect("it is ours");
            let named = entry
                .strip_suffix(".dist-info")
                .and_then(|it| it.rsplit_once('-'));
            named.is_some_and(|(name, version)| {
                package == format!("{}@{version}", name.replace('_', "-"))
            })
        });
    }
    let target = program.canonicalize().expect("it is there");
    target.ancestors().any(|it| {
        let path = it.join("package.json");
        let is_file = path.metadata().is_ok_and(|it| it.is_file());
        let text = is_file.then(|| fs::read(&path).unwrap_or_default());
        let manifest = text.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let named = manifest.and_then(|it| {
            Some(format!(
                "{}@{}",
                it["name"].as_str()?,
                it["version"].as_str()?
            ))
        });
        named.is_some_and(|named| named == package)
    })
}

fn command(root: &Path, runner: u8, words: &str) -> Command {
    let runner = RUNNERS[runner as usize % RUNNERS.len()];
    let mut words = runner.split(' ').chain(words.split_whitespace());
    let arg0 = words.next().expect("a runner");
    Command {
        program: root.join("bin").join(arg0),
        arg0: arg0.into(),
        args: words.map(OsString::from).collect(),
        env: BTreeMap::from([("HOME".into(), root.into())]),
        identity: None,
        cwd: Some(root.to_owned()),
    }
}

fn text(value: &Value) -> OsString {
    value.as_str().expect("it is text").into()
}

fn start(root: &Path, runner: u8, words: &str, record: &[u8]) {
    let made = || command(root, runner, words);
    let recorder = root.join("recorder");
    let mut recorded = made();
    let before = made();
    let begun = replace(&mut recorded, DAY, Some(&recorder));
    let pending = recorded.env.get(&OsString::from("MCP_LIFECYCLE_RECORD"));
    let Start::Recorded { is_first: true } = begun else {
        assert_eq!((begun, &recorded.args), (Start::Unchanged, &before.args));
        assert!(pending.is_none());
        return;
    };
    // The recorder has each word that its runner and its server would have.
    assert!(recorded.args.ends_with(&before.args));
    let file = PathBuf::from(pending.expect("it is recorded")).with_extension("");
    fs::write(file, record).expect("a record");
    let mut again = made();
    match replace(&mut again, DAY, None) {
        Start::Unchanged => {
            let of = |it: &Command| (it.program.clone(), it.arg0.clone(), it.args.clone());
            assert_eq!((of(&again), &again.env), (of(&before), &before.env));
        }
        Start::Direct => {
            let record: Value = serde_json::from_slice(record).expect("it was read");
            let words = record["words"].as_array().expect("a list");
            let own = record["arguments"].as_u64().expect("a number") as usize;
            let own = &before.args[before.args.len() - own..];
            let args: Vec<_> = words[1..]
                .iter()
                .map(text)
                .chain(own.iter().cloned())
                .collect();
            assert_eq!((&again.arg0, &again.args), (&text(&words[0]), &args));
            assert_eq!(again.program.as_os_str(), text(&record["program"]));
            for (path, identity) in record["files"].as_object().expect("an object") {
                assert_eq!(
                    *identity == "",
                    Path::new(path).metadata().is_err(),
                    "{path}"
                );
            }
            for (name, value) in record["set"].as_object().expect("an object") {
                assert_eq!(again.env.get(&OsString::from(name)), Some(&text(value)));
            }
        }
        Start::Recorded { .. } => unreachable!("there is no recorder"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path().canonicalize().expect("it is there");
    let mut entries = bytes.split(|&byte| byte == 0xff);
    let (first, record) = (entries.next().unwrap_or_default(), entries.next());
    entries.for_each(|entry| put(&root, entry));
    for program in PROGRAMS.map(|it| root.join(it)) {
        if let Some(package) = package_of(&program) {
            assert!(is_there(&root, &program, &package), "{package}");
        }
    }
    if let Some((&runner, words)) = first.split_first() {
        let _ = fs::create_dir(root.join("bin"));
        for name in ["npx", "uvx", "npm", "uv", "node"] {
            let _ = fs::write(root.join("bin").join(name), "");
        }
        let words = String::from_utf8_lossy(words);
        start(&root, runner, &words, record.unwrap_or_default());
    }
});
