//! Tests of sessions, invitations, and messages and keys for pages.

use super::*;
use base::clock::Lived;
use catalog::key::{KeyKind, generate};
use settings::{Admin, AdminToken, Role, Secret};

fn viewer() -> Admin {
    let token = AdminToken {
        name: "screen".to_owned(),
        role: Role::Viewer,
        secret: Some(Secret::new("of the screen")),
        ..AdminToken::default()
    };
    Admin {
        tokens: vec![token],
        ..Admin::default()
    }
}

fn sessions() -> Arc<Sessions> {
    let access = Access::new("of the tests", &viewer());
    Arc::new(Sessions::new(&Arc::new(access)))
}

/// Signs in with the admin token.
fn begin(sessions: &Sessions) -> String {
    begin_with(sessions, &sessions.access.main()).1
}

fn begin_with(sessions: &Sessions, token: &Token) -> (Uuid, String) {
    sessions.begin(token, Client::Unix).expect("random numbers")
}

#[test]
fn an_invitation_works_once_and_the_last_one_only() {
    let sessions = sessions();
    let invite = || {
        sessions
            .invite(&sessions.access.main())
            .expect("random numbers")
            .secret
    };
    let (first, second) = (invite(), invite());
    assert_eq!(sessions.accept_invitation(&first), None);
    assert_eq!(sessions.accept_invitation("once_"), None);
    let main = Some(sessions.access.main());
    assert_eq!(sessions.accept_invitation(&second), main);
    assert_eq!(sessions.accept_invitation(&second), None);
}

#[test]
fn an_invitation_and_a_session_end_with_their_time() {
    let sessions = sessions();
    let invitation = sessions
        .invite(&sessions.access.main())
        .expect("random numbers")
        .secret;
    let secret = begin(&sessions);
    assert!(sessions.visitor(&secret).is_some());
    {
        let mut state = sessions.lock();
        for (_, ends_at) in state.invitations.values_mut() {
            *ends_at = Lived::now();
        }
        for session in state.sessions.values_mut() {
            session.ends_at = Lived::now();
        }
    }
    assert_eq!(sessions.accept_invitation(&invitation), None);
    assert!(sessions.visitor(&secret).is_none());
    assert!(sessions.lock().sessions.is_empty());
}

#[test]
fn a_session_and_a_link_have_the_role_of_their_token_and_end_with_it() {
    let sessions = sessions();
    let token = sessions.access.token("of the screen").expect("declared");
    let (id, secret) = begin_with(&sessions, &token);
    let invitation = sessions.invite(&token).expect("random numbers").secret;
    let admin = begin(&sessions);
    let role = |secret: &str| sessions.visitor(secret).map(|it| it.token.role);
    assert_eq!(role(&secret), Some(Role::Viewer));
    let listed = sessions.list();
    assert_eq!((listed.len(), listed[1].id), (2, id));
    assert_eq!(&*listed[1].token.name, "screen");
    let mut changed = viewer();
    changed.tokens[0].role = Role::Operator;
    sessions.access.renew(&changed);
    assert_eq!(role(&secret), Some(Role::Operator));
    sessions.access.renew(&Admin::default());
    assert_eq!(role(&secret), None);
    assert_eq!(sessions.accept_invitation(&invitation), None);
    assert_eq!(role(&admin), Some(Role::Admin));
    assert_eq!(sessions.list().len(), 1);
}

#[test]
fn a_session_is_ended_by_its_id_once() {
    let sessions = sessions();
    let (id, secret) = begin_with(&sessions, &sessions.access.main());
    let ended = sessions.end(id).expect("it is there");
    assert_eq!((ended.id, ended.client), (id, Client::Unix));
    assert!(sessions.end(id).is_none());
    assert!(sessions.visitor(&secret).is_none());
}

#[test]
fn there_are_so_many_sessions_and_no_more() {
    let sessions = sessions();
    let secrets: Vec<String> = (0..SESSIONS_MAX + 5).map(|_| begin(&sessions)).collect();
    assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX);
    let last = secrets.last().and_then(|last| sessions.visitor(last));
    let out = last.expect("the newest stays").sign_out();
    assert!(out.is_some());
    assert_eq!(sessions.lock().sessions.len(), SESSIONS_MAX - 1);
}

#[test]
fn an_issued_key_is_given_once_to_its_page_and_visitor_while_it_is_new() {
    let sessions = sessions();
    let [one, other] = [(); 2].map(|()| {
        let secret = begin(&sessions);
        sessions.visitor(&secret).expect("it has begun")
    });
    let keep = || {
        let secret = generate(KeyKind::Ingest).expect("random numbers");
        one.keep_issued_key(IssuedKey::new("/sources/shop".to_owned(), "main", secret));
    };
    keep();
    assert!(other.take_issued_key("/sources/shop").is_none());
    assert!(one.take_issued_key("/sources/other").is_none());
    assert!(one.take_issued_key("/sources/shop").is_some());
    assert!(one.take_issued_key("/sources/shop").is_none());
    keep();
    for session in sessions.lock().sessions.values_mut() {
        if let Some((_, ends_at)) = &mut session.issued {
            *ends_at = Lived::now();
        }
    }
    assert!(one.take_issued_key("/sources/shop").is_none());
}

#[test]
fn a_sentence_is_said_once_and_to_one_visitor() {
    let sessions = sessions();
    let [one, other] = [(); 2].map(|()| {
        let secret = begin(&sessions);
        sessions.visitor(&secret).expect("it has begun")
    });
    one.set_flash("done".to_owned());
    assert_eq!(other.take_flash(), None);
    assert_eq!(one.take_flash().as_deref(), Some("done"));
    assert_eq!(one.take_flash(), None);
}
