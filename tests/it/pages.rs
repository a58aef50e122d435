//! The pages of the admin listener over HTTP: who may see them, from where, and what they hold.

mod guarded; // signing in and out, foreign names, foreign sites
mod site; // somebody who is signed in, without a browser
