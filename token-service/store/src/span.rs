//! Spans of operations, for traces.

use std::any::type_name;

use tracing::Span;

/// The span of an operation in the database `system`. `_operation` is a closure in the method of the store that the span
/// is named after.
pub(crate) fn of_operation<F>(system: &'static str, _operation: &F) -> Span {
    tracing::info_span!(
        "store",
        otel.kind = "client",
        otel.name = method(type_name::<F>()),
        db.system.name = system,
        db.operation.name = method(type_name::<F>()),
    )
}

/// The name of an operation, as in its span.
pub(crate) fn name<F>(_operation: &F) -> &'static str {
    method(type_name::<F>())
}

/// The method around a closure: `redeem` of `<RedbStore as GrantStore>::redeem::{{closure}}`. The compiler names types
/// only for diagnosis, as here.
fn method(closure: &str) -> &str {
    let method = closure.trim_end_matches("::{{closure}}");
    let name = method.rsplit("::").next().unwrap_or(method);
    // Behind it are lifetimes.
    name.split('<').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_operation_has_the_name_of_its_method() {
        fn of<F>(_: &F) -> &'static str {
            method(type_name::<F>())
        }
        struct Example;
        #[async_trait::async_trait]
        trait Store {
            async fn redeem(&self) -> [&'static str; 2];
        }
        #[async_trait::async_trait]
        impl Store for Example {
            async fn redeem(&self) -> [&'static str; 2] {
                [of(&|| ()), of(&async || ())]
            }
        }
        assert_eq!(Example.redeem().await, ["redeem", "redeem"]);
    }
}
