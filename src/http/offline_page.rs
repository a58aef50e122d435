//! The page of `/render/{stream}` as one file, for the disk of a player.
//!
//! `headgate screen save` writes it. It contains the scripts of the daemon as modules in an import map, and the style
//! and fonts. Therefore the page starts without the daemon, and `headgate.js` shows the stored data.
//!
//! **Invariant**: the file loads only data, and images if its options allow that. Values of the stream and the options
//! are never executed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::pages::{FILES, SCRIPT};

/// Options of an offline page.
#[derive(Clone, Copy)]
pub struct OfflinePage<'a> {
    /// URL of the daemon: scheme, host and port.
    pub url: &'a str,
    /// The stream's name.
    pub stream: &'a str,
    /// The read key.
    pub key: &'a str,
    /// The options, as a query string.
    pub query: &'a str,
    /// The files of the option `font`, as `data:` URLs, in the same order.
    pub fonts: &'a [String],
}

/// Omits the key.
impl std::fmt::Debug for OfflinePage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, stream, .. } = self;
        write!(f, "OfflinePage({url} {stream})")
    }
}

/// Renders the file.
pub fn page(saved: &OfflinePage<'_>) -> String {
    let any_images = saved.query.split('&').any(|option| option == "images=any");
    let images = if any_images {
        "https: http:"
    } else {
        saved.url
    };
    let live = saved.url.replacen("http", "ws", 1);
    let data = json!({
        "url": saved.url,
        "stream": saved.stream,
        "key": saved.key,
        "query": saved.query,
        "fonts": saved.fonts,
    });
    // The text must not end the script element.
    let data = data.to_string().replace('<', "\\u003c");
    format!(
        r#"<!doctype html>
<!-- Written by `headgate screen save`. It holds a read key: keep it as you would keep the key. -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; font-src data:; img-src data: {images}; connect-src {url} {live}; form-action 'none'">
<title>Headgate</title>
<base href="{url}/">
<link rel="icon" href="data:,">
<style>
{style}</style>
<script>globalThis.saved = {data};</script>
<script type="importmap">{modules}</script>
<script type="module">import "templates/page.js";</script>
</head>
<body></body>
</html>
"#,
        url = saved.url,
        style = style(),
        modules = modules(),
    )
}

/// The scripts, by their import names. The names are bare, because a module in a `data:` URL cannot resolve a path.
fn modules() -> Value {
    let mut modules = Map::new();
    for (path, content_type, bytes) in FILES {
        if content_type == SCRIPT && (path == "headgate.js" || path.starts_with("templates/")) {
            let text = String::from_utf8_lossy(bytes);
            let text = text
                .replace("\"/headgate.js\"", "\"headgate.js\"")
                .replace("\"/templates/", "\"templates/")
                .replace("`/templates/", "`templates/");
            let encoded = BASE64_STANDARD.encode(text.as_bytes());
            let module = format!("data:text/javascript;base64,{encoded}");
            modules.insert(path.to_owned(), module.into());
        }
    }
    json!({"imports": modules})
}

/// The style with its embedded fonts.
fn style() -> String {
    let of = |path: &str| FILES.iter().find(|file| file.0 == path);
    let style = of("render.css").map_or(&[][..], |file| file.2);
    let mut style = String::from_utf8_lossy(style).into_owned();
    for (path, _, bytes) in FILES.iter().filter(|file| file.0.ends_with(".woff2")) {
        let font = format!("data:font/woff2;base64,{}", BASE64_STANDARD.encode(bytes));
        style = style.replace(&format!("/{path}"), &font);
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_file_is_loaded_from_elsewhere_and_no_text_ends_its_script() {
        let saved = OfflinePage {
            url: "https://gate.example:8443",
            stream: "a</script><script>broken()",
            key: "rk_live_x",
            query: "title=%3C&template=cards",
            fonts: &[],
        };
        let page = page(&saved);
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(page.contains("connect-src https://gate.example:8443 wss://gate.example:8443;"));
        let modules = modules();
        let modules = modules["imports"].as_object().expect("modules");
        assert!(modules.len() > 12, "{}", modules.len());
        for (name, module) in modules {
            let encoded = module.as_str().and_then(|text| text.split_once(','));
            let text = BASE64_STANDARD.decode(encoded.expect("data").1);
            let text = String::from_utf8(text.expect("base64")).expect("UTF-8");
            for line in text.lines().filter(|line| line.contains("import")) {
                let is_bare = !line.contains("\"/") && !line.contains("`/");
                assert!(
                    is_bare || line.contains("if (!saved)") || line.starts_with("//"),
                    "{name}: {line}"
                );
            }
        }
        assert!(!style().contains("url(\"/"));
    }
}
