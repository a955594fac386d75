//! The span around a tenure, and the trace that it begins.

use std::sync::Arc;

use crate::name::WorkName;
use crate::protocol::Term;

/// A root span for each tenure: everything that its work logs is inside it.
#[derive(Clone)]
pub(crate) struct Trace {
    pub(crate) span: tracing::Span,
    /// 32 hexadecimal digits.
    pub(crate) id: Arc<str>,
}

impl Trace {
    pub(crate) fn begin(name: &WorkName, term: Term) -> Self {
        let span = tracing::info_span!(
            target: "leader::run",
            parent: None,
            "tenure",
            name = name.as_str(),
            %term,
            trace_id = tracing::field::Empty
        );
        let id = exported(&span).unwrap_or_else(|| format!("{:032x}", crate::random::bits()));
        span.record("trace_id", id.as_str());
        Self { span, id: id.into() }
    }
}

/// The id under which OpenTelemetry knows the span, if the application exports it.
#[cfg(feature = "otel")]
fn exported(span: &tracing::Span) -> Option<String> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| context.trace_id().to_string())
}

#[cfg(not(feature = "otel"))]
fn exported(_span: &tracing::Span) -> Option<String> {
    None
}
