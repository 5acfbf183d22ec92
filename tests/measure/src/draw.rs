//! The pictures, as SVG on a ground of their own, so that they read well on any page. Pure.

mod panels;
mod rows;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use panels::panels;
pub use rows::rows;

const INK: RGBColor = RGBColor(31, 35, 40);
const FAINT: RGBColor = RGBColor(208, 215, 222);
const GOOD: RGBColor = RGBColor(9, 105, 60);
const SHORT: RGBColor = RGBColor(188, 76, 0);
/// Told apart also by those who do not see red or green.
const LINES: [RGBColor; 5] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(120, 94, 240),
    RGBColor(130, 100, 0),
    RGBColor(0, 120, 110),
];

fn text(size: i32, h: HPos, v: VPos) -> TextStyle<'static> {
    ("sans-serif", size)
        .into_font()
        .color(&INK)
        .pos(Pos::new(h, v))
}

/// What a picture of this size gets from `draw`.
fn picture(
    (width, height): (u32, u32),
    title: &str,
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Drawn,
) -> String {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        let drawn = root.fill(&WHITE).and_then(|()| {
            root.draw(&Text::new(
                title.to_owned(),
                (16, 22),
                text(17, HPos::Left, VPos::Center),
            ))
        });
        drawn
            .map_err(Into::into)
            .and_then(|()| draw(&root))
            .expect("a string takes all that is drawn");
    }
    svg
}

type Drawn = Result<(), Box<dyn std::error::Error>>;
