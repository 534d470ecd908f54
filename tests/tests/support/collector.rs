//! An OpenTelemetry collector: receives spans by OTLP over HTTP and reads them with the protocol's own definitions.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use actix_web::{App, HttpResponse, HttpServer, web};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;

/// A span as received. Ids are empty if absent.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    /// Attributes of the program.
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    pub(crate) parent: Vec<u8>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) events: usize,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Span {
    /// The value of an attribute; empty if absent.
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// The value of an attribute of the program; empty if absent.
    pub(crate) fn of_resource(&self, name: &str) -> &str {
        self.resource.get(name).map_or("", String::as_str)
    }
}

/// The collector, on a free port. It ends with the process.
pub(crate) struct Collector {
    port: u16,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let collector = Self {
            port,
            spans: Arc::clone(&spans),
        };
        let app = move || {
            App::new()
                .app_data(web::Data::from(Arc::clone(&spans)))
                .app_data(web::PayloadConfig::new(16 << 20))
                .route("/v1/traces", web::post().to(receive))
        };
        std::thread::spawn(move || {
            let server = HttpServer::new(app).workers(1).disable_signals();
            let server = server.listen(listener).unwrap();
            actix_web::rt::System::new().block_on(server.run()).unwrap();
        });
        collector
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }
}

async fn receive(spans: web::Data<Mutex<Vec<Span>>>, body: web::Bytes) -> HttpResponse {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for part in request.resource_spans {
        let resource = attributes(part.resource.unwrap_or_default().attributes);
        let received = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.lock().unwrap().extend(received.map(|span| Span {
            resource: resource.clone(),
            kind: span.kind(),
            trace: span.trace_id,
            id: span.span_id,
            parent: span.parent_span_id,
            name: span.name,
            events: span.events.len(),
            attributes: attributes(span.attributes),
        }));
    }
    HttpResponse::Ok().finish()
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| {
        let value = match attribute.value.and_then(|value| value.value) {
            Some(Value::StringValue(text)) => text,
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key, value)
    };
    attributes.into_iter().map(text).collect()
}
