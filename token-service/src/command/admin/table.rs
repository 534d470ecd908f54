//! Tables and cards for people.

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use crate::http::admin::pages::Page;
use crate::telemetry::visible::{visible, visible_lines};

pub(super) fn list<H: Into<String>>(
    heads: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = impl IntoIterator<Item = String>>,
) -> String {
    let heads: Vec<String> = heads.into_iter().map(Into::into).collect();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(heads);
    for row in rows {
        let cells = row.into_iter().map(|cell| visible(&cell).into_owned());
        table.add_row(cells.collect::<Vec<String>>());
    }
    trimmed(&table)
}

/// A page of a list as a table, with the hint at the next page.
pub(super) fn page<T, const N: usize>(
    page: &Page<T>,
    heads: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> String {
    with_next(
        list(heads, page.items.iter().map(row)),
        page.next.as_deref(),
    )
}

/// A table with the hint at the next page, if any.
pub(super) fn with_next(table: String, next: Option<&str>) -> String {
    match next {
        Some(next) => format!("{table}\n... --after {next}"),
        None => table,
    }
}

/// An object as lines of name and value, without absent values.
pub(super) fn card(rows: impl IntoIterator<Item = (&'static str, Option<String>)>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (name, value) in rows {
        if let Some(value) = value {
            table.add_row([name, &visible_lines(&value)]);
        }
    }
    trimmed(&table)
}

/// One value per line; `None` if there are no values.
pub(super) fn lines(values: impl IntoIterator<Item = String>) -> Option<String> {
    let values = values.into_iter();
    let values: Vec<String> = values.map(|value| visible(&value).into_owned()).collect();
    (!values.is_empty()).then(|| values.join("\n"))
}

pub(super) fn yes(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}
