//! The styles and scripts of the pages, which are part of the program.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use takeback_tree::{ObjectKind, Oid};

use crate::app::App;
use crate::pages;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The style sheets that are copied into exported files.
pub(crate) const STYLES: [&str; 3] = [
    include_str!("../assets/app.css"),
    include_str!("../assets/diff.css"),
    include_str!("../assets/charts.css"),
];

/// The files: the name, the type and the content of each.
const FILES: [(&str, &str, &str); 14] = [
    ("app.css", STYLE, STYLES[0]),
    ("diff.css", STYLE, STYLES[1]),
    ("charts.css", STYLE, STYLES[2]),
    ("chat.css", STYLE, include_str!("../assets/chat.css")),
    ("labels.js", SCRIPT, include_str!("../assets/labels.js")),
    ("app.js", SCRIPT, include_str!("../assets/app.js")),
    ("page.js", SCRIPT, include_str!("../assets/page.js")),
    ("timeline.js", SCRIPT, include_str!("../assets/timeline.js")),
    ("window.js", SCRIPT, include_str!("../assets/window.js")),
    ("restore.js", SCRIPT, include_str!("../assets/restore.js")),
    ("chat.js", SCRIPT, include_str!("../assets/chat.js")),
    ("turn.js", SCRIPT, include_str!("../assets/turn.js")),
    ("keys.js", SCRIPT, include_str!("../assets/keys.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/assets/{name}", get(serve_file))
}

async fn serve_file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return pages::not_found().await.into_response();
    };
    let tag = format!("\"{}\"", Oid::of(ObjectKind::Blob, content.as_bytes()));
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let head = [(CONTENT_TYPE, *kind), (CACHE_CONTROL, "no-cache"), (ETAG, tag.as_str())];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, head).into_response(),
        false => (head, *content).into_response(),
    }
}
