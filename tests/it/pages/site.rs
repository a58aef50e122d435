//! Somebody who looks at the pages without a browser: cookies and forms by hand.
//!
//! **Invariant**: what a browser adds by itself (`Host`, `Origin`, the cookie) is added here.

use std::net::SocketAddr;

use crate::process::{Answer, Client, Process};
use crate::setup::ADMIN_TOKEN;

/// A visitor of the pages.
#[derive(Debug)]
pub(crate) struct Site {
    address: SocketAddr,
    /// `name=value`; empty before signing in.
    cookie: String,
}

impl Site {
    /// Nobody in particular.
    pub(crate) fn of(process: &Process) -> Self {
        Self {
            address: process.admin,
            cookie: String::new(),
        }
    }

    /// The same browser, whose next requests reach another node of the cluster.
    pub(crate) fn at(&self, node: &Process) -> Self {
        // Its name has the port, which is that of the load balancer on all nodes.
        let own = self.address.port().to_string();
        let cookie = self
            .cookie
            .replacen(&own, &node.admin.port().to_string(), 1);
        Self {
            address: node.admin,
            cookie,
        }
    }

    /// Somebody who has signed in with the admin token.
    pub(crate) fn signed_in(process: &Process) -> Self {
        let mut site = Self::of(process);
        let answer = site.sign_in(ADMIN_TOKEN);
        assert_eq!(answer.status, 303, "{}", answer.body);
        site
    }

    /// Sends the sign-in form and keeps the cookie.
    pub(crate) fn sign_in(&mut self, token: &str) -> Answer {
        let answer = self.post("/sign-in", &format!("token={token}"));
        if let Some(cookie) = answer.header("set-cookie") {
            let (pair, _) = cookie.split_once(';').expect("attributes");
            pair.clone_into(&mut self.cookie);
        }
        answer
    }

    /// The session's cookie.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// A page.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// A page that must be there.
    pub(crate) fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// The form token of the session.
    pub(crate) fn form_token(&self) -> String {
        let page = self.page("/");
        let (_, rest) = page
            .split_once(r#"name="form_token" value=""#)
            .expect("a form");
        rest[..64].to_owned()
    }

    /// Sends a form as a page of this site does.
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        let origin = format!("http://{}", self.address);
        self.send("POST", path, &[("Origin", &origin)], body)
    }

    /// Sends a form with its token.
    pub(crate) fn submit(&self, path: &str, fields: &str) -> Answer {
        let token = self.form_token();
        self.post(path, &format!("form_token={token}&{fields}"))
    }

    /// Sends a request; `headers` may replace `Host`.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let length = format!("{}", body.len());
        let mut all = vec![
            ("Content-Length", length.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        all.extend(headers);
        let head = self.head_of(method, path, &all);
        let mut client = Client::connect(self.address).expect("the daemon listens");
        client.send(format!("{head}{body}")).expect("it is sent");
        client.answer().expect("an answer")
    }

    fn head_of(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nCookie: {}\r\n", self.cookie);
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head
    }
}

/// Text as it stands between tags, as a browser shows it.
pub(crate) fn unescaped(text: &str) -> String {
    let text = text.replace("&quot;", "\"").replace("&lt;", "<");
    text.replace("&gt;", ">").replace("&amp;", "&")
}
