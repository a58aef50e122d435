//! A request as a curl command, ready to paste into a shell.
//!
//! **Invariant**: the command contains no secret, and all data of the request is quoted: no shell runs or expands any
//! of it.

use crate::snippets::Address;
use crate::text::visible_json;
use base::text::shell_quoted as quoted;
use ingest::Kept;
use journal::LogEntry;
use journal::log::Endpoint;

/// Maximum bytes of the body: arguments of a program can have 128 KiB on Linux.
const BODY_BYTES_MAX: usize = 64 << 10;
const TOO_LONG: &str = "The body is too long for a command. Resend the request with the button, or with headgate requests resend.";
const SIGNED: &str = "The provider signed the request, and a command cannot. Resend it with the button, or with headgate requests resend.";
const NO_TEXT: &str = "The body or its headers are not text, so no command can be shown.";

/// The command that sends the stored content of a request. The error is the reason why there is no command; `None` if
/// no content is stored.
pub(super) fn command(
    address: &Address,
    entry: &LogEntry,
    kept: &Kept,
) -> Result<String, Option<&'static str>> {
    let text = |value: &[u8]| match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(Some(NO_TEXT)),
    };
    let is_signed = (entry.sender.as_ref()).is_some_and(|said| said.scheme.is_some());
    let (stream, content_type, item_key, body) = match kept {
        Kept::Nothing(_) => return Err(None),
        _ if is_signed => return Err(Some(SIGNED)),
        Kept::Items(entry_of_items) => {
            if entry_of_items.items.byte_len() > BODY_BYTES_MAX {
                return Err(Some(TOO_LONG));
            }
            let items = entry_of_items.items.iter().map(|item| item.fields);
            let body = format!("[{}]", items.collect::<Vec<_>>().join(",\n"));
            let json = Some("application/json".to_owned());
            let item_key = entry.item_key.as_deref().map(str::to_owned);
            (&*entry.stream, json, item_key, body)
        }
        Kept::Body(kept) => {
            if kept.body.len() > BODY_BYTES_MAX {
                return Err(Some(TOO_LONG));
            }
            let header = |value: &Option<Box<[u8]>>| value.as_deref().map(text).transpose();
            let body = std::str::from_utf8(&kept.body).map_err(|_| Some(NO_TEXT))?;
            let (content_type, item_key) = (header(&kept.content_type)?, header(&kept.item_key)?);
            (&*kept.stream, content_type, item_key, body.to_owned())
        }
    };
    let mut command = "curl -i".to_owned();
    if let Some(socket) = address.socket() {
        command.push_str(&format!(" --unix-socket {}", quoted(socket)));
    }
    let url = match entry.endpoint {
        Endpoint::Webhook => address.at(&webhook_path(stream, entry)),
        _ => address.ingest_url(),
    };
    command.push_str(&format!(" {}", quoted(&url)));
    command.push_str(" \\\n  -H \"Authorization: Bearer $HEADGATE_KEY\"");
    // Without an explicit header, curl would send its own content type.
    let content_type = match content_type {
        Some(value) => format!("Content-Type: {value}"),
        None => "Content-Type:".to_owned(),
    };
    command.push_str(&format!(" \\\n  -H {}", quoted(&content_type)));
    if let Some(field) = item_key {
        command.push_str(&format!(
            " \\\n  -H {}",
            quoted(&format!("X-Item-Key: {field}"))
        ));
    }
    // Not `-d`: with it, an `@` at the beginning would name a file.
    let body = visible_json(&body);
    command.push_str(&format!(" \\\n  --data-raw {}\n", quoted(&body)));
    Ok(command)
}

/// The path of the request: the URL of its connector if it came from a provider.
fn webhook_path(stream: &str, entry: &LogEntry) -> String {
    let connector = entry.sender.as_ref().map(|_| &*entry.connector);
    webhook::path(stream, connector)
}
