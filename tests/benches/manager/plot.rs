//! Small multiples over time, as SVG.

use std::fmt::Write;

/// One line of a plot.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    /// The means of the second quarter and of the last.
    pub(crate) fn halves(&self) -> (f64, f64) {
        let quarter = (self.points.len() / 4).max(1);
        let mean = |points: &[(f64, f64)]| {
            points.iter().map(|(_, y)| y).sum::<f64>() / points.len().max(1) as f64
        };
        let second = self
            .points
            .get(quarter..quarter * 2)
            .unwrap_or(&self.points);
        let last = &self.points[self.points.len().saturating_sub(quarter)..];
        (mean(second), mean(last))
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 130.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;

/// One panel per series, each from zero, so that a trend looks like what it is.
pub(crate) fn plot(title: &str, x_name: &str, series: &[Series]) -> String {
    let height = TOP + series.len() as f64 * (HEIGHT + 40.0) + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{title}</text>\n",
        LEFT + WIDTH + 20.0,
    );
    for (n, series) in series.iter().enumerate() {
        panel(&mut svg, series, TOP + n as f64 * (HEIGHT + 40.0));
    }
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">{x_name}</text>\n</svg>",
        height - 8.0
    );
    svg
}

fn panel(svg: &mut String, series: &Series, top: f64) {
    let max_x = series.points.last().map_or(1.0, |(x, _)| x.max(1.0));
    let max_y = series.points.iter().map(|(_, y)| *y).fold(1.0, f64::max) * 1.1;
    let bottom = top + HEIGHT;
    let points: Vec<_> = series
        .points
        .iter()
        .map(|(x, y)| {
            format!(
                "{:.1},{:.1}",
                LEFT + x / max_x * WIDTH,
                bottom - y / max_y * HEIGHT
            )
        })
        .collect();
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.1}\">{}</text>\n\
         <path d=\"M{LEFT} {top}V{bottom}H{}\" fill=\"none\" stroke=\"#888\"/>\n\
         <text x=\"4\" y=\"{:.1}\">{max_y:.0}</text><text x=\"4\" y=\"{bottom}\">0</text>\n\
         <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{max_x:.0}</text>\n\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#1f6fb2\" stroke-width=\"1.5\"/>\n",
        top - 6.0,
        series.name,
        LEFT + WIDTH,
        top + 10.0,
        LEFT + WIDTH,
        bottom + 14.0,
        points.join(" "),
    );
}
