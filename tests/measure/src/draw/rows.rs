//! One row per figure: the runs as dots, their median, and the bar.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{FAINT, GOOD, INK, SHORT, picture, text};
use crate::data::Bar;
use crate::summary::Summary;
use crate::table::short;

const HEIGHT: u32 = 24;
const TOP: i32 = 64;
const LEFT: i32 = 430;
const WIDTH: u32 = 1000;

/// Draws these figures, each as a multiple of `unit(figure)`; `axis` says what that is.
pub fn rows(
    title: &str,
    axis: &str,
    summaries: &[&Summary],
    unit: impl Fn(&Summary) -> f64,
) -> String {
    let all = summaries
        .iter()
        .flat_map(|s| s.values.iter().map(|value| value / unit(s)));
    let all = all.chain(
        summaries
            .iter()
            .filter_map(|s| Some(s.last.bar()?.number() / unit(s))),
    );
    let (least, most) = all
        .filter(|x| *x > 0.0)
        .fold((1.0_f64, 1.0_f64), |(a, b), x| (a.min(x), b.max(x)));
    let height = TOP as u32 + summaries.len() as u32 * HEIGHT + 60;
    picture((WIDTH, height), title, |root| {
        let words = "Circle: a run. Line: from the best to the worst. Filled: the median, green where it reaches its bar. Upright: the bar.";
        root.draw(&Text::new(
            words,
            (16, 46),
            text(12, HPos::Left, VPos::Center),
        ))?;
        let area = root.margin(TOP, 8, LEFT, 24);
        let range = (least * 0.9..most * 1.15).log_scale().base(2.0);
        let mut chart = ChartBuilder::on(&area)
            .x_label_area_size(44)
            .build_cartesian_2d(range, 0.0..summaries.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(WHITE)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .x_labels(12)
            .x_label_formatter(&|x| short(*x))
            .x_desc(axis)
            .label_style(text(12, HPos::Center, VPos::Top))
            .draw()?;
        for (at, summary) in summaries.iter().enumerate() {
            let y = summaries.len() as f64 - at as f64 - 0.5;
            let color = if summary.is_reached() == Some(false) {
                SHORT
            } else {
                GOOD
            };
            let to_x = |value: f64| value / unit(summary);
            let (first, last) = (
                to_x(summary.values[0]),
                to_x(summary.values[summary.values.len() - 1]),
            );
            chart.draw_series([PathElement::new(
                [(first, y), (last, y)],
                color.stroke_width(2),
            )])?;
            let runs = summary
                .values
                .iter()
                .map(|value| Circle::new((to_x(*value), y), 4, color));
            chart.draw_series(runs)?;
            chart.draw_series([Circle::new((to_x(summary.median()), y), 5, color.filled())])?;
            if let Some(bar) = summary.last.bar() {
                let x = to_x(bar.number());
                chart.draw_series([PathElement::new(
                    [(x, y - 0.42), (x, y + 0.42)],
                    INK.stroke_width(2),
                )])?;
            }
            let more = if let Some(Bar::AtLeast(_)) = summary.last.bar() {
                " (more is better)"
            } else {
                ""
            };
            let label = format!("{}: {}{more}", summary.harness, summary.last.name);
            let (_, pixel) = chart.backend_coord(&(1.0, y));
            root.draw(&Text::new(
                label,
                (LEFT - 8, pixel),
                text(12, HPos::Right, VPos::Center),
            ))?;
        }
        Ok(())
    })
}
