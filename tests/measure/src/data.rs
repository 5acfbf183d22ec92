//! The file of one run. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// All that one run of a harness has measured, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The day, or the second in UTC.
    pub date: String,
    /// Its name, by which figures of several runs belong together.
    pub harness: String,
    /// The commit, with a `+` where the work tree was another; or, of old runs, a name for the state of the code.
    pub code: String,
    /// `release` or `development`.
    pub build: String,
    /// The command, as it can be repeated.
    pub command: String,
    /// The kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// The load average of one minute, at the beginning and at the end, as far as it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<f64>,
    /// What the reader has to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Single numbers.
    #[serde(default, rename = "figure", skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// Numbers over something.
    #[serde(default, rename = "series", skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
}

impl Record {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// What is not understood, and where it is.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Writes a file.
    ///
    /// # Panics
    ///
    /// Never: each record can be written.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("a record can be written")
    }
}

/// What a figure's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Is {
    /// Ours divided by the peer's.
    Ratio,
    /// Ours less the peer's.
    Beyond,
    /// Ours.
    Ours,
}

/// What a value should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
}

impl Bar {
    /// Whether a value is good enough.
    pub fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(bar) => value <= bar,
            Self::AtLeast(bar) => value >= bar,
        }
    }

    /// The number alone.
    pub fn number(self) -> f64 {
        match self {
            Self::AtMost(bar) | Self::AtLeast(bar) => bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bar) => write!(f, "≤ {bar}"),
            Self::AtLeast(bar) => write!(f, "≥ {bar}"),
        }
    }
}

/// One number, and what it is judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// What the value is.
    pub is: Is,
    /// The value.
    pub value: f64,
    /// The unit of `ours` and `theirs`, and of the value unless it is a ratio.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Our side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
    /// The other side, measured in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<f64>,
    /// Who the other side is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Less is better, and so much is good enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// More is better, and so much is good enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Figure {
    /// A number of ours alone.
    pub fn ours(name: impl Into<String>, ours: f64, unit: &str) -> Self {
        Self {
            name: name.into(),
            is: Is::Ours,
            value: rounded(ours),
            unit: unit.to_owned(),
            ours: None,
            theirs: None,
            peer: None,
            at_most: None,
            at_least: None,
        }
    }

    /// Ours divided by the peer's.
    pub fn ratio(
        name: impl Into<String>,
        ours: f64,
        (peer, theirs): (&str, f64),
        unit: &str,
    ) -> Self {
        Self {
            is: Is::Ratio,
            value: rounded(ours / theirs),
            ours: Some(rounded(ours)),
            theirs: Some(rounded(theirs)),
            peer: Some(peer.to_owned()),
            ..Self::ours(name, ours, unit)
        }
    }

    /// Ours less the peer's.
    pub fn beyond(
        name: impl Into<String>,
        ours: f64,
        (peer, theirs): (&str, f64),
        unit: &str,
    ) -> Self {
        Self {
            is: Is::Beyond,
            value: rounded(ours - theirs),
            ..Self::ratio(name, ours, (peer, theirs), unit)
        }
    }

    /// Less is better, and so much is good enough.
    #[must_use]
    pub fn at_most(mut self, bar: f64) -> Self {
        self.at_most = Some(bar);
        self
    }

    /// More is better, and so much is good enough.
    #[must_use]
    pub fn at_least(mut self, bar: f64) -> Self {
        self.at_least = Some(bar);
        self
    }

    /// What the value should be.
    pub fn bar(&self) -> Option<Bar> {
        self.at_most
            .map(Bar::AtMost)
            .or(self.at_least.map(Bar::AtLeast))
    }

    /// The unit of the value.
    pub fn value_unit(&self) -> &str {
        if self.is == Is::Ratio {
            "x"
        } else {
            &self.unit
        }
    }
}

/// One line of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The panel of the picture that it belongs to.
    pub panel: String,
    /// Its own name in there.
    pub line: String,
    /// What `x` is.
    pub x: String,
    /// The unit of `y`.
    pub unit: String,
    /// `x` and `y`.
    pub points: Vec<[f64; 2]>,
}

impl Series {
    /// The `x` of a distribution.
    pub const ONE_IN: &str = "one in so many takes longer";

    /// Makes a line of a panel.
    pub fn new(panel: &str, line: &str, x: &str, unit: &str) -> Self {
        Self {
            panel: panel.to_owned(),
            line: line.to_owned(),
            x: x.to_owned(),
            unit: unit.to_owned(),
            points: Vec::new(),
        }
    }

    /// A distribution: what one in two, in ten, in a hundred and so on takes longer than.
    pub fn distribution(panel: &str, line: &str, unit: &str, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut series = Self::new(panel, line, Self::ONE_IN, unit);
        for one_in in [
            1.01, 1.1, 1.25, 2.0, 4.0, 10.0, 20.0, 100.0, 200.0, 1000.0, 1e4, 1e5,
        ] {
            let beyond = sorted.len() as f64 / one_in;
            if beyond >= 1.0 {
                let at = sorted.len() - 1 - (beyond as usize).min(sorted.len() - 1);
                series.add(one_in, sorted[at]);
            }
        }
        series
    }

    /// Adds a point.
    pub fn add(&mut self, x: f64, y: f64) {
        self.points.push([rounded(x), rounded(y)]);
    }
}

/// Four digits say all that a measurement of time can.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_was_written() {
        let mut series = Series::new("memory", "ours", "servers", "KiB");
        series.add(500.0, 39.5);
        let record = Record {
            date: "2026-11-23T10:00:00Z".into(),
            harness: "client".into(),
            code: "0123456789ab+".into(),
            build: "release".into(),
            command: "cargo bench".into(),
            kernel: Some("6.18".into()),
            cpus: Some(2),
            load: vec![0.25, 1.5],
            note: None,
            figures: vec![
                Figure::ratio("call", 95.0, ("rmcp", 100.0), "us").at_most(1.0),
                Figure::beyond("start", 2.5, ("bare", 1.0), "ms").at_least(1.0),
            ],
            series: vec![series],
        };
        assert_eq!(Record::parse(&record.text()).unwrap(), record);
        assert_eq!(record.figures[0].value, 0.95);
        assert_eq!(record.figures[1].value, 1.5);
    }

    #[test]
    fn one_in_ten_takes_longer_than_the_value_at_ten() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let at = |one_in| {
            let series = Series::distribution("", "", "", &values);
            series
                .points
                .iter()
                .find(|[x, _]| *x == one_in)
                .map(|[_, y]| *y)
        };
        assert_eq!(at(2.0), Some(50.0));
        assert_eq!(at(10.0), Some(90.0));
        assert_eq!(at(100.0), Some(99.0));
        assert_eq!(at(1000.0), None, "of a hundred values nobody knows");
    }
}
