//! A run, from its beginning to its file.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, fs};

use crate::data::{Figure, Is, Record, Series};
use crate::table::short;

/// Names the directory of the files. Without it they are not kept with the sources, but in `target/measured`.
const DIRECTORY: &str = "MCP_MEASURED";

/// A harness at work.
#[derive(Debug)]
pub struct Run {
    record: Record,
}

impl Run {
    /// Notes when, where and what is measured.
    pub fn begin(harness: &str) -> Self {
        let arguments = env::args().skip(1).filter(|argument| argument != "--bench");
        let arguments: Vec<String> = arguments.collect();
        let mut command = format!(
            "cargo bench -p {} --bench {harness}",
            env::var("CARGO_PKG_NAME").unwrap_or_default()
        );
        if !arguments.is_empty() {
            command = format!("{command} -- {}", arguments.join(" "));
        }
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            record: Record {
                date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
                harness: harness.to_owned(),
                code: code(),
                build: if cfg!(debug_assertions) {
                    "development"
                } else {
                    "release"
                }
                .to_owned(),
                command,
                kernel: release.map(|release| release.trim().to_owned()),
                cpus: std::thread::available_parallelism().ok().map(usize::from),
                load: load().into_iter().collect(),
                note: None,
                figures: Vec::new(),
                series: Vec::new(),
            },
        }
    }

    /// Adds a number, and prints it.
    pub fn figure(&mut self, figure: Figure) {
        println!("{}", line(&figure));
        self.record.figures.push(figure);
    }

    /// Adds a line of a picture.
    pub fn series(&mut self, series: Series) {
        self.record.series.push(series);
    }

    /// Writes the file.
    ///
    /// # Panics
    ///
    /// It cannot be written.
    pub fn finish(mut self) {
        self.record.load.extend(load());
        let directory = env::var_os(DIRECTORY).map_or_else(
            || {
                PathBuf::from(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../target/measured"
                ))
            },
            PathBuf::from,
        );
        fs::create_dir_all(&directory).expect("a directory for the file of the run");
        let name = format!(
            "{}-{}.toml",
            self.record.date.replace(':', ""),
            self.record.harness
        );
        let file = directory.join(name);
        fs::write(&file, self.record.text()).expect("the file of the run is written");
        println!(
            "{} at load {:?}: {}",
            self.record.code,
            self.record.load,
            file.display()
        );
    }
}

/// The time that so many percent take at most, of times in ascending order.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// One figure, as it is printed.
fn line(figure: &Figure) -> String {
    let value = format!("{} {}", short(figure.value), figure.value_unit());
    let sides = match (figure.is, figure.ours, figure.theirs, &figure.peer) {
        (Is::Ratio | Is::Beyond, Some(ours), Some(theirs), Some(peer)) => {
            let (ours, theirs) = (short(ours), short(theirs));
            format!("{ours} {}, {peer} {theirs}", figure.unit)
        }
        _ => String::new(),
    };
    let bar = figure.bar().map_or_else(String::new, |bar| {
        let word = if bar.is_reached(figure.value) {
            "reached"
        } else {
            "SHORT"
        };
        format!("{bar}: {word}")
    });
    format!("{:<68} {value:>12}   {bar:<16} {sides}", figure.name)
}

/// The commit that is checked out where cargo runs the harness, with a `+` where a file that it has differs.
fn code() -> String {
    // Not the variable of the build: several work trees may share what is built.
    let directory = std::env::var_os("CARGO_MANIFEST_DIR");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory.as_ref()?);
        let output = command
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":/",
        ":!/docs",
    ]);
    let changed = changed.is_some_and(|files| !files.trim().is_empty());
    format!("{}{}", commit.trim(), if changed { "+" } else { "" })
}

fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}
