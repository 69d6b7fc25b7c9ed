use measure::Protocol;
use plotters::style::RGBColor;

/// A colour of the plots in the light scheme, and what the dark scheme shows in its place.
///
/// Plots are drawn once, with colours as SVG attributes; the style sheet exchanges them by attribute.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub light: RGBColor,
    dark: RGBColor,
}

pub(crate) const INK: Paint = Paint { light: RGBColor(27, 31, 36), dark: RGBColor(230, 237, 243) };
pub(crate) const FAINT: Paint = Paint { light: RGBColor(94, 104, 115), dark: RGBColor(157, 167, 179) };
pub(crate) const GRID: Paint = Paint { light: RGBColor(222, 226, 231), dark: RGBColor(48, 54, 61) };
pub(crate) const BAND: Paint = Paint { light: RGBColor(238, 241, 244), dark: RGBColor(33, 39, 47) };

// Distinct for colour-blind readers, too (Okabe and Ito 2008, darkened for white paper); the marker tells as well.
const H1C: Paint = Paint { light: RGBColor(47, 141, 199), dark: RGBColor(121, 192, 255) };
const H1: Paint = Paint { light: RGBColor(0, 101, 163), dark: RGBColor(88, 166, 245) };
const H2C: Paint = Paint { light: RGBColor(176, 120, 0), dark: RGBColor(240, 190, 80) };
const H2: Paint = Paint { light: RGBColor(201, 84, 0), dark: RGBColor(245, 143, 74) };
const H3: Paint = Paint { light: RGBColor(0, 130, 95), dark: RGBColor(63, 200, 155) };

const ALL: [Paint; 9] = [INK, FAINT, GRID, BAND, H1C, H1, H2C, H2, H3];

/// The colour of a protocol, the same in every plot.
pub(crate) fn paint_of(protocol: Protocol) -> Paint {
    match protocol {
        Protocol::H1c => H1C,
        Protocol::H1 => H1,
        Protocol::H2c => H2C,
        Protocol::H2 => H2,
        Protocol::H3 => H3,
    }
}

/// Style rules that exchange the light colours of every plot for the dark ones.
pub(crate) fn dark_rules() -> String {
    let rule = |paint: &Paint| {
        let (light, dark) = (hex(paint.light), hex(paint.dark));
        format!("svg [fill=\"{light}\"]{{fill:{dark}}}svg [stroke=\"{light}\"]{{stroke:{dark}}}")
    };
    ALL.iter().map(rule).collect()
}

/// A colour as the SVG backend writes it.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
