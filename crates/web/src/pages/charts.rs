//! Charts, drawn without a library. Each chart has a table with the same values, for screen
//! readers, and for users who want exact values.

use maud::{Markup, html};

/// A labeled value in a chart.
pub(super) struct Point {
    pub(super) label: String,
    pub(super) value: f64,
    /// The value as text.
    pub(super) text: String,
}

/// The height of the drawing area. The area is as wide as the page.
const HEIGHT: f64 = 100.0;

/// Draws a column for each point, in order.
pub(super) fn columns(title: &str, points: &[Point], head: [&str; 2]) -> Markup {
    let most = points.iter().map(|point| point.value).fold(0.0, f64::max);
    let largest = points.iter().find(|point| point.value >= most && most > 0.0);
    let step = 1_000.0 / points.len().max(1) as f64;
    let gap = if step > 12.0 { 0.22 } else { 0.1 };
    html! {
        figure .chart {
            figcaption { span { (title) } @if let Some(point) = largest { span .faint { "most: " (point.text) } } }
            svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                @for line in [0.0, 50.0] { line .grid x1="0" x2="1000" y1=(line) y2=(line) {} }
                @for (index, point) in points.iter().enumerate() {
                    @let height = if most > 0.0 { (point.value / most * HEIGHT).max(if point.value > 0.0 { 1.5 } else { 0.0 }) } else { 0.0 };
                    rect .column x=(format!("{:.2}", (index as f64 + gap / 2.0) * step)) y=(format!("{:.2}", HEIGHT - height))
                        width=(format!("{:.2}", step * (1.0 - gap))) height=(format!("{height:.2}")) { title { (point.label) ": " (point.text) } }
                }
            }
            @if let (Some(first), Some(last)) = (points.first(), points.last()) {
                p .axis aria-hidden="true" { span { (first.label) } @if points.len() > 1 { span { (last.label) } } }
            }
            (table(points, head))
        }
    }
}

/// Renders the values of a chart as a table.
fn table(points: &[Point], [label, value]: [&str; 2]) -> Markup {
    html! {
        details .figures {
            summary { "Figures" }
            table {
                thead { tr { th scope="col" { (label) } th scope="col" .number { (value) } } }
                tbody { @for point in points.iter().rev() { tr { th scope="row" { (point.label) } td .number { (point.text) } } } }
            }
        }
    }
}

/// Draws a bar for a share between 0 and 1, in a cell of a table.
pub(super) fn bar(share: f64) -> Markup {
    let width = (share * 100.0).clamp(0.0, 100.0);
    html! {
        svg .share-bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect .track width="100" height="8" rx="1" {}
            rect .fill width=(format!("{width:.2}")) height="8" rx="1" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_comes_with_a_table_of_its_values() {
        let point = |label: &str, value: f64| Point {
            label: label.into(),
            value,
            text: format!("${value:.2}"),
        };
        let points = [point("Mon", 1.0), point("<b>", 4.0), point("Wed", 0.0)];
        let html = columns("Cost", &points, ["Day", "Cost"]).into_string();
        assert_eq!(html.matches("<rect").count(), 3, "{html}");
        assert!(
            html.contains("<th scope=\"row\">Mon</th><td class=\"number\">$1.00</td>"),
            "{html}"
        );
        assert!(html.contains("height=\"25.00\"") && html.contains("height=\"0.00\""), "{html}");
        assert!(!html.contains("<b>"), "{html}");
        // A chart without values must not divide by zero.
        assert!(!columns("Empty", &[], ["Day", "Cost"]).into_string().contains("NaN"));
    }
}
