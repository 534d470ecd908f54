//! `GET /metrics`, on the internal listener.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use actix_web::http::header;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse};

use super::{error, paths};
use crate::service::Service;
use crate::service::upkeep::MOST_CERTIFICATES;
use crate::telemetry::metrics::Stored;
use secrets::password;
use store::StoreError;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text format of Prometheus, which every reader understands.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes(routes: &mut web::ServiceConfig) {
    routes.service(error::get(paths::METRICS, metrics));
}

async fn metrics(request: HttpRequest, service: Data<Service>) -> HttpResponse {
    let stored = stored(&service).await.ok();
    let moment = service.moment();
    let context = service.context(&moment);
    let waiting = password::waiting();
    service.providers.measure();
    match service.metrics.text(&context, stored.as_ref(), waiting) {
        Ok(text) => {
            let (content_type, text) = match asks_for_open_metrics(&request) {
                true => (OPEN_METRICS, text),
                false => (TEXT, in_text_format(&text)),
            };
            let content_type = (header::CONTENT_TYPE, content_type);
            let vary = (header::VARY, "accept");
            let mut response = HttpResponse::Ok();
            response.insert_header(content_type).insert_header(vary);
            response.body(text)
        }
        Err(std::fmt::Error) => error::failed("The metrics cannot be written"),
    }
}

/// While the store fails or hangs, Prometheus still gets what its alerts need, within its time limit.
async fn stored(service: &Service) -> Result<Stored, StoreError> {
    service.ready().await?;
    let store = &service.store;
    Ok(Stored {
        counts: store.counts().await?,
        certificates: store.certificates_by_expiry(MOST_CERTIFICATES).await?,
    })
}

/// Prometheus names the formats that it reads, with its preferred format first.
fn asks_for_open_metrics(request: &HttpRequest) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT);
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("application/openmetrics-text"))
}

/// Translates OpenMetrics to the text format: there, a metric has the name of its samples, and the types `info` and
/// `unknown` and the end mark do not exist.
fn in_text_format(open_metrics: &str) -> String {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    for line in open_metrics.lines() {
        if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            types.insert(name, kind);
        }
    }
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        let written = match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(about), Some(name), Some(rest)) => {
                let (suffix, kind) = match types.get(name) {
                    Some(&"counter") => ("_total", "counter"),
                    Some(&"info") => ("_info", "gauge"),
                    Some(&"unknown") => ("", "untyped"),
                    Some(kind) => ("", *kind),
                    None => ("", rest),
                };
                let rest = if about == "TYPE" { kind } else { rest };
                writeln!(text, "# {about} {name}{suffix} {rest}")
            }
            _ => writeln!(text, "{line}"),
        };
        // Writing to a string does not fail.
        let _ = written;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_format_names_metrics_as_their_samples() {
        let open_metrics = "# HELP r Requests.\n# TYPE r counter\nr_total{a=\"b # c\"} 1\n\
            # HELP t Times.\n# TYPE t histogram\n# UNIT t seconds\nt_sum 1\n\
            # HELP b Build.\n# TYPE b info\nb_info{v=\"1\"} 1\n# TYPE x unknown\nx 1\n# EOF\n";
        let text = "# HELP r_total Requests.\n# TYPE r_total counter\nr_total{a=\"b # c\"} 1\n\
            # HELP t Times.\n# TYPE t histogram\nt_sum 1\n\
            # HELP b_info Build.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# TYPE x untyped\nx 1\n";
        assert_eq!(in_text_format(open_metrics), text);
    }
}
