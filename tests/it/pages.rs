//! The pages of the admin listener over HTTP: who may see them, from where, and what they hold and do.

mod addresses; // where nothing is, and the icon
mod connector; // the log first, reasons, tabs
mod grid; // lists: order, filters, pages, selected rows
mod guarded; // signing in and out, foreign names, foreign sites
mod hostile; // texts that break pages
pub(crate) mod managed; // what the forms make, change and refuse
mod own_secret; // a tool that makes its secret itself: Notion
mod settings; // the configuration, and backups
mod shown; // what the pages say
pub(crate) mod site; // somebody who is signed in, without a browser
mod tools; // tools that sign: their forms, their pages
mod written; // what the buttons do

pub(crate) use site::Site;

/// Somebody who has signed in, for other modules.
pub(crate) fn signed_in(process: &crate::process::Process) -> Site {
    Site::signed_in(process)
}
