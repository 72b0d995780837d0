//! Loss curves as a picture inside a page.

use std::fmt::Write;

use super::History;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 28.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 10.0;
/// Marks on each axis.
const MARKS: usize = 5;
/// Points at most: a longer curve is drawn by the means of its stretches.
const POINTS: usize = 240;

/// The losses of a history as SVG: training as a line, the held-out rows as a line with dots.
pub(crate) fn losses(history: &History) -> String {
    let train = thinned(&history.losses());
    let looks = history.looks();
    let all = || train.iter().chain(&looks);
    let last_step = all().map(|(step, _)| *step).max().unwrap_or(1).max(2);
    let low = all().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, loss)| *loss).fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return String::new();
    }
    let (low, high) = if high > low {
        (low, high)
    } else {
        (low - 0.5, low + 0.5)
    };
    let x = |step: f64| LEFT + (step - 1.0) / (last_step - 1) as f64 * (WIDTH - LEFT - RIGHT);
    let y = |loss: f64| TOP + (high - loss) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let line = |points: &[(usize, f64)]| {
        let points = points
            .iter()
            .map(|(step, loss)| format!("{:.1},{:.1}", x(*step as f64), y(*loss)));
        points.collect::<Vec<_>>().join(" ")
    };
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss by step">"#);
    for mark in 0..MARKS {
        let part = mark as f64 / (MARKS - 1) as f64;
        let (loss, step) = (low + part * (high - low), 1.0 + part * (last_step - 1) as f64);
        let (right, height) = (WIDTH - RIGHT, y(loss));
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{height:.1}" y2="{height:.1}"/>"#
        );
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{loss:.2}</text>"#,
            LEFT - 6.0,
            height + 4.0
        );
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{step:.0}</text>"#,
            x(step),
            HEIGHT - 8.0
        );
    }
    let _ = write!(svg, r#"<polyline class="train" points="{}"/>"#, line(&train));
    if !looks.is_empty() {
        let _ = write!(svg, r#"<polyline class="val" points="{}"/>"#, line(&looks));
        for (step, loss) in &looks {
            let _ = write!(
                svg,
                r#"<circle class="val" cx="{:.1}" cy="{:.1}" r="3"><title>step {step}: {loss:.4}</title></circle>"#,
                x(*step as f64),
                y(*loss)
            );
        }
    }
    svg + "</svg>"
}

fn thinned(points: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let stretch = points.len().div_ceil(POINTS).max(1);
    let mean = |points: &[(usize, f64)]| {
        let sum: f64 = points.iter().map(|(_, loss)| loss).sum();
        (points[points.len() / 2].0, sum / points.len() as f64)
    };
    points.chunks(stretch).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_mean_and_few_points() {
        let points: Vec<_> = (1..=10_000).map(|step| (step, step as f64)).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS);
        let mean = thin.iter().map(|(_, loss)| loss).sum::<f64>() / thin.len() as f64;
        assert!((mean - 5000.5).abs() < 50.0);
        assert_eq!(thinned(&points[..3]), points[..3]);
    }

    #[test]
    fn of_an_empty_history_nothing_is_drawn() {
        assert_eq!(losses(&History::default()), "");
    }
}
