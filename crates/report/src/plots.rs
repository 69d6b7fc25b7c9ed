use std::error::Error;

use analysis::{Comparison, Condition, Summary, words};
use measure::{Protocol, Trial};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::palette::{BAND, FAINT, GRID, INK, Paint, paint_of};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// All plots have this width; the page scales them to its own.
const WIDTH: u32 = 680;
/// Space for names at the left.
const NAMES: i32 = 84;
const AXIS: i32 = 42;
const FONT_SIZE: u32 = 16;
const MARKER: i32 = 5;
/// Ratios beyond this, either way, end at the edge of the forest plot.
const FARTHEST: f64 = 100.0;

/// Draws every comparison as a ratio with its interval on a common logarithmic axis. `None` when there is no interval.
pub(crate) fn forest(summary: &Summary) -> Option<String> {
    let ends = || summary.comparisons.iter().filter_map(|comparison| comparison.low.zip(comparison.high));
    ends().next()?;
    let practical = 1.0 + summary.plan.practical;
    let low = ends().map(|(low, _)| low).fold(practical.powi(-2), f64::min).max(FARTHEST.recip());
    let high = ends().map(|(_, high)| high).fold(practical.powi(2), f64::max).min(FARTHEST);
    let pad = (high / low).powf(0.04);
    let rows = summary.plan.links.len() + summary.comparisons.len();
    let title = format!("{} against {}, ratio and 95 % interval", summary.plan.metric, summary.baseline_label());
    Some(draw(&title, rows as i32 * 26 + AXIS, |area| draw_forest(area, summary, (low / pad)..(high * pad), rows)))
}

fn draw_forest(area: &Area, summary: &Summary, range: std::ops::Range<f64>, rows: usize) -> Drawn {
    const FIGURES: i32 = 170;
    let practical = 1.0 + summary.plan.practical;
    let bottom = -(rows as f64);
    let ticks = ratio_ticks(range.start, range.end);
    let mut chart = ChartBuilder::on(area)
        .margin_left(NAMES)
        .margin_right(FIGURES)
        .x_label_area_size(AXIS)
        .build_cartesian_2d(range.clone().log_scale().with_key_points(ticks), bottom..0.0)?;
    chart.draw_series([Rectangle::new([(practical.recip(), bottom), (practical, 0.0)], BAND.light.filled())])?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_label_formatter(&|ratio| trimmed(*ratio))
        .x_desc(format!("{} as a multiple of that of {}", summary.plan.metric, summary.baseline_label()))
        .bold_line_style(GRID.light)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT.light)
        .label_style(text(FAINT, HPos::Center, VPos::Top))
        .draw()?;
    chart.draw_series([PathElement::new([(1.0, bottom), (1.0, 0.0)], FAINT.light)])?;

    let right = i32::try_from(WIDTH)? - FIGURES + 10;
    let mut row = 0;
    for link in &summary.plan.links {
        let y = chart.backend_coord(&(1.0, -0.5 - f64::from(row))).1;
        area.draw(&Text::new(link.title.clone(), (0, y), bold(INK, HPos::Left)))?;
        row += 1;
        for comparison in summary.comparisons.iter().filter(|comparison| comparison.link == link.name) {
            let centre = -0.5 - f64::from(row);
            let y = chart.backend_coord(&(1.0, centre)).1;
            area.draw(&Text::new(comparison.label.clone(), (12, y), text(INK, HPos::Left, VPos::Center)))?;
            area.draw(&Text::new(figures(comparison), (right, y), text(INK, HPos::Left, VPos::Center)))?;
            let paint = paint_of(comparison.protocol);
            if let Some((low, high)) = comparison.low.zip(comparison.high) {
                let line = [low, high].map(|end| (end.clamp(range.start, range.end), centre));
                chart.draw_series([PathElement::new(line, paint.light.stroke_width(2))])?;
            }
            if let Some(ratio) = comparison.ratio.filter(|_| comparison.low.is_some()) {
                let at = chart.backend_coord(&(ratio.clamp(range.start, range.end), centre));
                area.draw(&marker(comparison.protocol, at, paint.light.filled()))?;
            }
            row += 1;
        }
    }
    Ok(())
}

fn figures(comparison: &Comparison) -> String {
    match words::ratio(comparison).zip(words::interval(comparison)) {
        Some((ratio, interval)) => format!("{ratio}   {interval}"),
        None => comparison.answer.to_string(),
    }
}

/// Draws every trial of one link: a row per entrant, rounds from top to bottom of the row, invalid trials as crosses,
/// the median as an upright line over its interval. `None` when no trial has a time.
pub(crate) fn dots(summary: &Summary, link: &str, trials: &[Trial]) -> Option<String> {
    let timed: Vec<(&Trial, f64)> = trials
        .iter()
        .filter(|trial| trial.link == link && trial.entrant < summary.plan.entrants.len())
        .filter_map(|trial| trial.time_ms.map(|time| (trial, time)))
        .filter(|(_, time)| *time > 0.0 && time.is_finite())
        .collect();
    let low = timed.iter().map(|(_, time)| *time).reduce(f64::min)?;
    let high = timed.iter().map(|(_, time)| *time).reduce(f64::max)?;
    let pad = ((high - low) * 0.04).max(high * 0.005);
    let rows = i32::try_from(summary.plan.entrants.len()).ok()?;
    let conditions: Vec<&Condition> = summary.conditions_on(link).collect();
    let title = format!("{} of every trial on {link}", summary.plan.metric);
    let range = (low - pad)..(high + pad);
    Some(draw(&title, rows * 44 + AXIS, |area| draw_dots(area, summary, &conditions, &timed, range)))
}

fn draw_dots(
    area: &Area,
    summary: &Summary,
    conditions: &[&Condition],
    timed: &[(&Trial, f64)],
    range: std::ops::Range<f64>,
) -> Drawn {
    const RIGHT: i32 = 16;
    let bottom = -(conditions.len() as f64);
    let (unit, unit_ms) = if range.end >= 2000.0 { ("s", 1000.0) } else { ("ms", 1.0) };
    let mut chart = ChartBuilder::on(area)
        .margin_left(NAMES)
        .margin_right(RIGHT)
        .x_label_area_size(AXIS)
        .build_cartesian_2d(range, bottom..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_labels(7)
        .x_label_formatter(&|ms| trimmed(ms / unit_ms))
        .x_desc(format!("{}, {unit}", summary.plan.metric))
        .bold_line_style(GRID.light)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT.light)
        .label_style(text(FAINT, HPos::Center, VPos::Top))
        .draw()?;

    for condition in conditions {
        let centre = -0.5 - condition.entrant as f64;
        let paint = paint_of(condition.protocol);
        let at = chart.backend_coord(&(0.0, centre));
        area.draw(&Text::new(condition.label.clone(), (12, at.1), text(INK, HPos::Left, VPos::Center)))?;
        if let Some((low, high)) = condition.low_ms.zip(condition.high_ms) {
            let ends = [(low, centre - 0.4), (high, centre + 0.4)];
            chart.draw_series([Rectangle::new(ends, paint.light.mix(0.16).filled())])?;
        }
        if let Some(median) = condition.median_ms {
            let ends = [(median, centre - 0.4), (median, centre + 0.4)];
            chart.draw_series([PathElement::new(ends, paint.light.stroke_width(2))])?;
        }
    }
    let last_round = f64::from(summary.rounds_done.max(1));
    for (trial, time) in timed {
        let within_row = 0.14 + 0.72 * (f64::from(trial.round) - 0.5) / last_round;
        let at = chart.backend_coord(&(*time, -within_row - trial.entrant as f64));
        if trial.is_valid() {
            let style = paint_of(trial.protocol).light.mix(0.75).filled();
            area.draw(&marker(trial.protocol, at, style))?;
        } else {
            area.draw(&Cross::new(at, MARKER, FAINT.light.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// Draws a plot to SVG text that names itself to readers who cannot see it.
fn draw(title: &str, height: i32, plot: impl FnOnce(&Area) -> Drawn) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height.unsigned_abs())).into_drawing_area();
    plot(&area).and_then(|()| Ok(area.present()?)).expect("a plot with finite ranges can be drawn to memory");
    drop(area);
    let label = maud::html! { (title) }.into_string();
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1)
}

/// The mark of a protocol, centred at a pixel: circle for HTTP/1.1, square for HTTP/2, triangle for HTTP/3.
fn marker<'a>(protocol: Protocol, at: (i32, i32), style: ShapeStyle) -> DynElement<'a, SVGBackend<'a>, (i32, i32)> {
    let (x, y) = at;
    match protocol {
        Protocol::H1c | Protocol::H1 => Circle::new(at, MARKER, style).into_dyn(),
        Protocol::H2c | Protocol::H2 => {
            let reach = MARKER - 1;
            Rectangle::new([(x - reach, y - reach), (x + reach, y + reach)], style).into_dyn()
        }
        Protocol::H3 => TriangleMarker::new(at, MARKER + 1, style).into_dyn(),
    }
}

fn text(paint: Paint, across: HPos, along: VPos) -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE).into_font().color(&paint.light).pos(Pos::new(across, along))
}

fn bold(paint: Paint, across: HPos) -> TextStyle<'static> {
    ("sans-serif", FONT_SIZE).into_font().style(FontStyle::Bold).color(&paint.light).pos(Pos::new(across, VPos::Center))
}

/// Round ratios between two ends, at most nine: evenly stepped in a narrow range, else of the series 1, 2, 5.
fn ratio_ticks(low: f64, high: f64) -> Vec<f64> {
    const MOST: usize = 9;
    let stepped = |step: f64| -> Vec<f64> {
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    };
    let narrow = [0.01, 0.02, 0.05, 0.1, 0.2].into_iter().map(stepped).find(|ticks| ticks.len() <= MOST);
    let series = || (-6..=6).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    narrow.unwrap_or_else(|| series().filter(|tick| (low..=high).contains(tick)).collect())
}

/// A number with no more than three decimals and no trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
