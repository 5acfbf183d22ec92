//! Lines over something, in panels.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{Drawn, FAINT, INK, LINES, picture, text};
use crate::data::Series;
use crate::table::short;

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 280;
const TOP: i32 = 40;
const LEFT: i32 = 74;
const LEGEND: i32 = 34;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a panel for each name that the lines have for one, two beside each other.
pub fn panels(title: &str, lines: &[&Series]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for line in lines {
        if !names.contains(&line.panel.as_str()) {
            names.push(&line.panel);
        }
    }
    let rows = names.len().div_ceil(2);
    picture((WIDTH, TOP as u32 + rows as u32 * HEIGHT), title, |root| {
        let areas = root.margin(TOP, 0, 0, 0).split_evenly((rows, 2));
        for (name, area) in names.iter().zip(&areas) {
            let lines: Vec<_> = lines
                .iter()
                .copied()
                .filter(|line| line.panel == *name)
                .collect();
            panel(area, name, &lines)?;
        }
        Ok(())
    })
}

/// Times are told apart by their ratio, all else from zero, so that a trend looks like what it is.
fn panel(area: &Area<'_>, name: &str, lines: &[&Series]) -> Drawn {
    let is_time = ["us", "ms", "s"].contains(&lines[0].unit.as_str());
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = |of: usize| {
        let values = points().map(|point| point[of]);
        values.fold((f64::MAX, f64::MIN), |(a, b), value| {
            (a.min(value), b.max(value))
        })
    };
    let ((x0, x1), (y0, y1)) = (ends(0), ends(1));
    let (x, linear) = ((x0..x1), (0.0..(y1 * 1.15).max(1.0)));
    let ratios = (y0 * 0.7..y1 * 1.6).log_scale().base(2.0);
    match (x0 > 0.0, is_time && y0 > 0.0) {
        (true, true) => axes(area, name, lines, x.log_scale(), ratios),
        (true, false) => axes(area, name, lines, x.log_scale(), linear),
        (false, true) => axes(area, name, lines, x, ratios),
        (false, false) => axes::<Range<f64>, _>(area, name, lines, x, linear),
    }
}

fn axes<X, Y>(area: &Area<'_>, name: &str, lines: &[&Series], x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    area.draw(&Text::new(
        name.to_owned(),
        (LEFT, 14),
        text(14, HPos::Left, VPos::Center),
    ))?;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_top(48)
        .margin_right(24)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .x_desc(&lines[0].x)
        .y_desc(&lines[0].unit)
        .label_style(("sans-serif", 12).into_font().color(&INK))
        .draw()?;
    let (mut known, mut right): (Vec<&str>, i32) = (Vec::new(), LEFT);
    for line in lines {
        let is_new = !known.contains(&line.line.as_str());
        if is_new {
            known.push(&line.line);
        }
        let at = known
            .iter()
            .position(|name| *name == line.line)
            .unwrap_or(0);
        let color = LINES[at % LINES.len()];
        let points = || line.points.iter().map(|[x, y]| (*x, *y));
        chart.draw_series(LineSeries::new(points(), color.stroke_width(2)))?;
        if is_new && lines.iter().any(|other| other.line != line.line) {
            // Above the lines, where it hides none of them.
            let stroke = [(right, LEGEND), (right + 14, LEGEND)];
            area.draw(&PathElement::new(stroke, color.stroke_width(3)))?;
            let style = text(12, HPos::Left, VPos::Center);
            area.draw(&Text::new(line.line.clone(), (right + 18, LEGEND), style))?;
            right += 18 + 7 * line.line.len() as i32 + 14;
        }
        if line.points.len() <= 20 {
            chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
        }
    }
    Ok(())
}
