//! The functions of a guest for the files of a sink.
//!
//! **Invariant**: a trial writes no file, even if it is allowed to send.

use std::io;
use std::sync::Arc;

use wasmtime::component::Resource;

use super::Host;
use super::bindings::headgate::sink::folder;
use super::tables::GuestText;
use crate::folder::{Folder, Opened};

impl Host {
    /// The folder; `None` in a trial, which records the changes.
    fn folder(&mut self, noted: impl FnOnce() -> String) -> wasmtime::Result<Option<Arc<Folder>>> {
        self.charge()?;
        if let Some(trial) = &self.context.trial {
            trial.note_act(&noted());
            return Ok(None);
        }
        match &self.folder {
            Some(folder) => Ok(Some(Arc::clone(folder))),
            None => wasmtime::bail!("there is no folder here"),
        }
    }

    /// Runs a function on the folder. In a trial the result is that of an empty folder. A trial writes nothing even if
    /// it may send, because a file of a real sink would get rows of the trial.
    async fn in_folder<T: Default + Send + 'static>(
        &mut self,
        noted: impl FnOnce() -> String,
        act: impl FnOnce(&Opened<'_>) -> io::Result<T> + Send + 'static,
    ) -> wasmtime::Result<Result<T, String>> {
        Ok(match self.folder(noted)? {
            Some(folder) => folder.with(act).await,
            None => Ok(T::default()),
        })
    }

    fn text_of(&self, text: &Resource<GuestText>) -> wasmtime::Result<String> {
        Ok(self.table.get(text)?.0.clone())
    }
}

impl folder::Host for Host {
    async fn append(
        &mut self,
        name: String,
        at: u64,
        text: Resource<GuestText>,
    ) -> wasmtime::Result<Result<(), String>> {
        let text = self.text_of(&text)?;
        let noted = format!("append to {name}, at {at}: {text}");
        let act = move |opened: &Opened<'_>| opened.append(&name, at, text.as_bytes());
        self.in_folder(|| noted, act).await
    }

    async fn replace(
        &mut self,
        name: String,
        text: Resource<GuestText>,
    ) -> wasmtime::Result<Result<(), String>> {
        let text = self.text_of(&text)?;
        let noted = format!("replace {name} by: {text}");
        let act = move |opened: &Opened<'_>| opened.replace(&name, text.as_bytes());
        self.in_folder(|| noted, act).await
    }

    async fn finish(
        &mut self,
        name: String,
        at: u64,
        to: String,
    ) -> wasmtime::Result<Result<(), String>> {
        let noted = format!("rename {name} to {to}");
        self.in_folder(|| noted, move |opened| opened.finish(&name, at, &to))
            .await
    }

    async fn size(&mut self, name: String) -> wasmtime::Result<Result<Option<u64>, String>> {
        let noted = format!("look for {name}");
        self.in_folder(|| noted, move |opened| opened.size(&name))
            .await
    }

    async fn names(&mut self) -> wasmtime::Result<Result<Vec<String>, String>> {
        self.in_folder(|| "list all files".to_owned(), |opened| opened.names())
            .await
    }

    async fn remove(&mut self, name: String) -> wasmtime::Result<Result<(), String>> {
        let noted = format!("remove {name}");
        self.in_folder(|| noted, move |opened| opened.remove(&name))
            .await
    }
}
