//! Links a guest with the host's functions.
//!
//! **Invariant**: no files, no sockets; HTTP, the database, the folder and connections only where the sink's settings grant them.

use wasmtime::Engine;
use wasmtime::component::{HasSelf, Linker};

use super::Host;
use super::bindings::headgate::sink::{
    batches, delivery, folder, http, logging, metrics, pool, postgres, renderers, secrets, state,
    tables, templates, wire,
};

/// Adds outgoing HTTP, for guests whose sink has hosts. An import that is not granted is not linked, so that such a
/// component cannot start at all.
pub(crate) fn link_http(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    http::add_to_linker::<Host, HasSelf<Host>>(linker, |host| host)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

/// Adds the database, for guests whose sink has one.
pub(crate) fn link_postgres(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    postgres::add_to_linker::<Host, HasSelf<Host>>(linker, |host| host)
}

/// Adds the folder, for guests whose sink has one.
pub(crate) fn link_folder(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    folder::add_to_linker::<Host, HasSelf<Host>>(linker, |host| host)
}

/// Adds connections, for guests whose sink has some.
pub(crate) fn link_wire(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    wire::add_to_linker::<Host, HasSelf<Host>>(linker, |host| host)
}

/// Links the functions that every guest can use.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    batches::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    pool::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    renderers::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    logging::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    metrics::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    state::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    secrets::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    delivery::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    tables::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    templates::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
    // Streams, clocks, random numbers, standard input and output: no files, no sockets.
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(&mut linker)?;
    // Language runtimes ask for these at their start, the standard library of Rust among them: the
    // environment is empty, and there is no terminal.
    use wasmtime_wasi::cli::{WasiCli, WasiCliView};
    use wasmtime_wasi::p2::bindings::{cli, random};
    use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
    // The seed of hash maps.
    random::insecure::add_to_linker::<Host, WasiRandom>(&mut linker, Host::random)?;
    random::insecure_seed::add_to_linker::<Host, WasiRandom>(&mut linker, Host::random)?;
    cli::environment::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::exit::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_input::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_output::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stdin::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stdout::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    cli::terminal_stderr::add_to_linker::<Host, WasiCli>(&mut linker, Host::cli)?;
    Ok(linker)
}
