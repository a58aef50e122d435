//! Programs that listen where the daemon is to listen, as far as the system shows them.
//!
//! `serve` looks before it gives its view of other processes up, and says what it saw if the port is taken.
//!
//! **Invariant**: what cannot be read is not said; nothing here fails.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::{fs, io};

use super::error::CliError;
use super::serve::failed;
use crate::daemon::{ADMIN_LISTEN, DaemonError, SERVICE_LISTEN};
use base::process;
use settings::{Listen, Settings};

/// The state of a socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";

/// Who listens where the listeners are to be: the setting, and the programs.
pub(super) struct Ports(Vec<(&'static str, Vec<String>)>);

impl Ports {
    pub(super) fn of(settings: &Settings) -> Self {
        let listeners = [
            (SERVICE_LISTEN, &settings.server.listen),
            (ADMIN_LISTEN, &settings.admin.listen),
        ];
        let listeners = listeners.into_iter();
        Self(
            listeners
                .map(|(setting, at)| (setting, programs(at)))
                .collect(),
        )
    }

    /// The error of a daemon that did not start. Where the port is taken: by whom, and what to set.
    pub(super) fn explain(&self, error: DaemonError) -> CliError {
        let (setting, taken) = match &error {
            DaemonError::Listen { setting, error } if error.is_taken() => (*setting, error),
            _ => return failed(error),
        };
        let programs = self.0.iter().find(|(of, _)| *of == setting);
        let who = match programs {
            Some((_, programs)) if !programs.is_empty() => format!(": {}", programs.join(", ")),
            _ => String::new(),
        };
        let variable = setting.to_uppercase().replace('.', "__");
        let option = match setting {
            SERVICE_LISTEN => " or --listen",
            _ => "",
        };
        CliError::failed(format!(
            "{taken}{who}; end it, or set {setting} to another address (HEADGATE_{variable}{option})"
        ))
    }
}

/// Who listens on a TCP address: `nginx (process 812)`.
fn programs(listen: &Listen) -> Vec<String> {
    let Listen::Tcp(address) = listen else {
        return Vec::new();
    };
    let mut wanted: Vec<SocketAddr> = address.to_socket_addrs().into_iter().flatten().collect();
    // The tables have a line for each connection of the machine: they are read where there is something to find.
    wanted.retain(is_taken);
    if wanted.is_empty() {
        return Vec::new();
    }
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.map(|path| fs::read_to_string(path).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let sockets = lines.filter_map(listening).filter(|(at, _)| {
        let collides = |wanted: &SocketAddr| {
            let (one, other) = (wanted.ip().to_canonical(), at.ip().to_canonical());
            one == other || one.is_unspecified() || other.is_unspecified()
        };
        let mut wanted = wanted.iter().filter(|wanted| wanted.port() == at.port());
        wanted.any(collides)
    });
    let links: Vec<String> = sockets
        .map(|(_, inode)| format!("socket:[{inode}]"))
        .collect();
    match links.is_empty() {
        true => Vec::new(),
        false => holders(&links),
    }
}

fn is_taken(at: &SocketAddr) -> bool {
    let in_use = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    at.port() != 0 && TcpListener::bind(at).is_err_and(in_use)
}

/// The processes that have one of these files open.
fn holders(links: &[String]) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            links.iter().any(|link| target.as_os_str() == link.as_str())
        })
    };
    processes.filter(holds).map(process::named).collect()
}

/// The address and inode of a socket that listens, of a line such as
/// `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 21021`.
fn listening(line: &str) -> Option<(SocketAddr, &str)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of the machine's own byte order.
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((SocketAddr::new(address, port), *fields.get(9)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_on_the_address_is_named() {
        let own = process::named(std::process::id());
        for (address, every) in [("127.0.0.1:0", "0.0.0.0"), ("[::1]:0", "[::]")] {
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                eprintln!("SKIPPED {address}: this machine has no such address");
                continue;
            };
            let at = listener.local_addr().expect("an address");
            // A child that another test is about to start has the socket, too, until it runs its program.
            let is_named = |listen: &str| {
                let programs = programs(&Listen::Tcp(listen.to_owned()));
                !programs.is_empty() && programs.iter().all(|name| *name == own)
            };
            assert!(is_named(&at.to_string()));
            assert!(is_named(&format!("{every}:{}", at.port())));
            drop(listener);
            let mut looks = 0..10_000;
            while is_named(&at.to_string()) {
                assert!(looks.next().is_some(), "{at} is still held");
                std::thread::yield_now();
            }
        }
    }
}
