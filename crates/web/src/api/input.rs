//! Reads the parameters and bodies of requests. Errors are reported as problems, as everywhere in
//! the API.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The parameters in the query string of a URL.
pub(crate) struct Params<T>(pub(crate) T);

/// The JSON in the body of a request.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Problem> {
        let found: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        found.map(|Query(params)| Params(params)).map_err(|error| Problem {
            causes: vec![error.body_text()],
            ..Problem::invalid("the query is invalid")
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Problem> {
        let found: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        found.map(|Json(body)| Body(body)).map_err(|error| Problem {
            causes: vec![error.body_text()],
            ..Problem::new(error.status().as_u16(), "the body is invalid")
        })
    }
}
