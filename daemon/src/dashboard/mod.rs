//! The page for people with a browser: whether compression helps, and how to turn it off. It only looks.
//!
//! Its files say nothing of anybody and are for all; what they show comes as JSON, for which a token is asked as for all
//! else. A browser gets to a Unix socket by `ssh -L 8080:/run/mgcomp/mgcomp.sock node`, where it needs none;
//! so does everybody on the machine where that runs, with the rights of the user who runs it.

mod data;
mod verdict;

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use crate::node::Node;

/// Where the numbers are.
pub(crate) const DATA: &str = "/dashboard/data.json";

/// Path, kind and text of each file.
const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/dashboard/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/dashboard/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("/dashboard/rates.js", "text/javascript; charset=utf-8", include_str!("rates.js")),
    ("/dashboard/draw.js", "text/javascript; charset=utf-8", include_str!("draw.js")),
];

/// What browsers must heed: nothing comes from elsewhere, goes elsewhere, is shown inside another page or is kept.
pub(crate) const RULES: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Kind and text of the file at a path.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.into_iter().find(|(known, ..)| *known == path).map(|(_, kind, text)| (kind, text))
}

/// The numbers, with the links of the job that the query names.
pub(crate) async fn data(node: &Node, query: Option<&str>) -> String {
    let job = query.and_then(|query| query.strip_prefix("job="));
    data::json(node, &job.map(decoded).unwrap_or_default()).await
}

/// Whether a request names this machine as its user sees it: by a number or as localhost.
///
/// Any other name may be one that a web site has made point here, to read what its visitor's browser may.
pub(crate) fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let Some(authority) = uri.authority().cloned().or(named) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

/// A text as `encodeURIComponent` spells it; what is none becomes what no job is called.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        match byte {
            b'%' => match (digit(), digit()) {
                (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
                _ => return String::new(),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were() {
        assert_eq!(decoded("train-7"), "train-7");
        assert_eq!(decoded("a%22%2Fb%25"), "a\"/b%");
        for broken in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(broken), "", "{broken}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        let local = |host: &str| {
            let host = HeaderValue::from_str(host).unwrap();
            is_local(&Uri::from_static("/"), &HeaderMap::from_iter([(header::HOST, host)]))
        };
        for host in ["localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:80", "[::1]:8080", "10.0.0.7"] {
            assert!(local(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", ""]
        {
            assert!(!local(host), "{host}");
        }
        assert!(!is_local(&Uri::from_static("/"), &HeaderMap::new()));
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        for (path, _, text) in FILES {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http:") && !elsewhere.contains("https:"), "{path}");
        }
        let (kind, page) = file("/").unwrap();
        assert!(kind.starts_with("text/html") && page.contains("mgcomp off"));
        // What the rules would not let run.
        assert!(!page.contains("style=") && !page.contains("<script>"));
        assert!(!page.split_whitespace().any(|word| word.starts_with("on") && word.contains('=')));
        assert_eq!(file("/dashboard/other"), None);
    }
}
