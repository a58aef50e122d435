//! Tests of sessions, invitations, and messages and keys for pages.

use super::shared::TRUSTED;
use super::*;
use base::clock::Lived;
use catalog::key::{KeyKind, generate};
use postgres_server::Postgres;
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

/// The same on two nodes of a cluster.
async fn on_nodes(server: &Postgres) -> [Arc<Sessions>; 2] {
    let database = server.cluster("sessions").await;
    [(); 2].map(|()| {
        let access = Arc::new(Access::new("of the tests", &viewer()));
        let tables = AccessTables::new(database.clone());
        Arc::new(Sessions::of_cluster(&access, tables))
    })
}

/// Signs in with the admin token.
async fn begin(sessions: &Sessions) -> String {
    begin_with(sessions, &sessions.access.main()).await.1
}

async fn begin_with(sessions: &Sessions, token: &Token) -> (Uuid, String) {
    let begun = sessions.begin(token, Client::Unix).await;
    begun.expect("random numbers")
}

async fn invite(sessions: &Sessions, token: &Token) -> String {
    let invitation = sessions.invite(token).await;
    invitation.expect("random numbers").secret
}

async fn accept(sessions: &Sessions, invitation: &str) -> Option<Arc<Token>> {
    let accepted = sessions.accept_invitation(invitation).await;
    accepted.expect("an answer")
}

async fn visit(sessions: &Arc<Sessions>, secret: &str) -> Option<Visitor> {
    let visitor = sessions.visitor(secret, false).await;
    visitor.expect("an answer")
}

async fn role(sessions: &Arc<Sessions>, secret: &str) -> Option<Role> {
    visit(sessions, secret).await.map(|it| it.token.role)
}

fn state(sessions: &Sessions) -> std::sync::MutexGuard<'_, State> {
    match &sessions.kept {
        Kept::Here(state) => memory::lock(state),
        Kept::InDatabase(_) => panic!("they are in memory"),
    }
}

fn new_key() -> IssuedKey {
    let secret = generate(KeyKind::Ingest).expect("random numbers");
    IssuedKey::new("/connectors/shop?new".to_owned(), "main", secret)
}

#[tokio::test]
async fn an_invitation_works_once_and_the_last_one_only() {
    let sessions = sessions();
    let main = sessions.access.main();
    let first = invite(&sessions, &main).await;
    let second = invite(&sessions, &main).await;
    assert_eq!(accept(&sessions, &first).await, None);
    assert_eq!(accept(&sessions, "once_").await, None);
    assert_eq!(accept(&sessions, &second).await, Some(main));
    assert_eq!(accept(&sessions, &second).await, None);
}

#[tokio::test]
async fn an_invitation_and_a_session_end_with_their_time() {
    let sessions = sessions();
    let invitation = invite(&sessions, &sessions.access.main()).await;
    let secret = begin(&sessions).await;
    assert!(visit(&sessions, &secret).await.is_some());
    {
        let mut state = state(&sessions);
        for (_, ends_at) in state.invitations.values_mut() {
            *ends_at = Lived::now();
        }
        for session in state.sessions.values_mut() {
            session.ends_at = Lived::now();
        }
    }
    assert_eq!(accept(&sessions, &invitation).await, None);
    assert!(visit(&sessions, &secret).await.is_none());
    assert!(state(&sessions).sessions.is_empty());
}

#[tokio::test]
async fn a_session_and_a_link_have_the_role_of_their_token_and_end_with_it() {
    let sessions = sessions();
    let token = sessions.access.token("of the screen").expect("declared");
    let (id, secret) = begin_with(&sessions, &token).await;
    let invitation = invite(&sessions, &token).await;
    let admin = begin(&sessions).await;
    assert_eq!(role(&sessions, &secret).await, Some(Role::Viewer));
    let listed = sessions.list().await.expect("an answer");
    assert_eq!((listed.len(), listed[1].id), (2, id));
    assert_eq!(&*listed[1].token.name, "screen");
    let mut changed = viewer();
    changed.tokens[0].role = Role::Operator;
    sessions.access.renew(&changed);
    assert_eq!(role(&sessions, &secret).await, Some(Role::Operator));
    sessions.access.renew(&Admin::default());
    assert_eq!(role(&sessions, &secret).await, None);
    assert_eq!(accept(&sessions, &invitation).await, None);
    assert_eq!(role(&sessions, &admin).await, Some(Role::Admin));
    assert_eq!(sessions.list().await.expect("an answer").len(), 1);
}

#[tokio::test]
async fn a_session_is_ended_by_its_id_once() {
    let sessions = sessions();
    let (id, secret) = begin_with(&sessions, &sessions.access.main()).await;
    let ended = sessions.end(id).await.expect("an answer");
    let ended = ended.expect("it is there");
    assert_eq!((ended.id, &*ended.client), (id, "unix"));
    assert!(sessions.end(id).await.expect("an answer").is_none());
    assert!(visit(&sessions, &secret).await.is_none());
}

#[tokio::test]
async fn there_are_so_many_sessions_and_no_more() {
    let sessions = sessions();
    let mut last = String::new();
    for _ in 0..SESSIONS_MAX + 5 {
        last = begin(&sessions).await;
    }
    assert_eq!(state(&sessions).sessions.len(), SESSIONS_MAX);
    let newest = visit(&sessions, &last).await.expect("the newest stays");
    assert!(newest.sign_out().await.expect("an answer").is_some());
    assert_eq!(state(&sessions).sessions.len(), SESSIONS_MAX - 1);
}

#[tokio::test]
async fn an_issued_key_is_given_once_to_its_page_and_visitor_while_it_is_new() {
    let sessions = sessions();
    let (one, other) = (begin(&sessions).await, begin(&sessions).await);
    let one = visit(&sessions, &one).await.expect("it has begun");
    let other = visit(&sessions, &other).await.expect("it has begun");
    let take = async |visitor: &Visitor, page: &str| {
        let taken = visitor.take_issued_key(page).await;
        taken.expect("an answer")
    };
    let kept = one.keep_issued_key(new_key()).await;
    kept.expect("it is kept");
    assert!(take(&other, "/connectors/shop").await.is_none());
    assert!(take(&one, "/connectors/other").await.is_none());
    assert!(take(&one, "/connectors/shop").await.is_some());
    assert!(take(&one, "/connectors/shop").await.is_none());
    let kept = one.keep_issued_key(new_key()).await;
    kept.expect("it is kept");
    for session in state(&sessions).sessions.values_mut() {
        if let Some((_, ends_at)) = &mut session.issued {
            *ends_at = Lived::now();
        }
    }
    assert!(take(&one, "/connectors/shop").await.is_none());
}

#[tokio::test]
async fn a_sentence_is_said_once_and_to_one_visitor() {
    let sessions = sessions();
    let (one, other) = (begin(&sessions).await, begin(&sessions).await);
    let one = visit(&sessions, &one).await.expect("it has begun");
    let other = visit(&sessions, &other).await.expect("it has begun");
    one.set_flash("done".to_owned()).await;
    assert_eq!(other.take_flash().await, None);
    assert_eq!(one.take_flash().await.as_deref(), Some("done"));
    assert_eq!(one.take_flash().await, None);
}

#[tokio::test]
async fn a_session_of_one_node_is_used_and_ended_on_the_other() {
    let Some(server) = Postgres::start("a_session_of_one_node_is_used") else {
        return;
    };
    let [a, b] = on_nodes(&server).await;
    let token = a.access.token("of the screen").expect("declared");
    let (id, secret) = begin_with(&a, &token).await;
    let at_a = visit(&a, &secret).await.expect("it has begun");
    let at_b = visit(&b, &secret).await.expect("it has begun");
    assert_eq!(at_a.form_token, at_b.form_token);
    assert_eq!((at_b.session, at_b.token.role), (id, Role::Viewer));
    assert!(visit(&b, "another").await.is_none());
    let listed = b.list().await.expect("an answer");
    assert_eq!((listed.len(), listed[0].id), (1, id));
    assert_eq!(
        (&*listed[0].client, &*listed[0].token.name),
        ("unix", "screen")
    );
    // A node that does not know its token does not know the session either.
    b.access.renew(&Admin::default());
    assert!(visit(&b, &secret).await.is_none());
    assert!(b.list().await.expect("an answer").is_empty());
    assert!(b.end(id).await.expect("an answer").is_none());
    b.access.renew(&viewer());
    let out = at_b.sign_out().await.expect("an answer");
    assert_eq!(out.map(|it| it.id), Some(id));
    assert!(visit(&a, &secret).await.is_none());
    assert!(at_a.sign_out().await.expect("an answer").is_none());
}

#[tokio::test]
async fn the_next_page_is_on_the_other_node_and_the_database_reads_nothing_of_it() {
    let Some(server) = Postgres::start("the_next_page_is_on_the_other_node") else {
        return;
    };
    let [a, b] = on_nodes(&server).await;
    let secret = begin(&a).await;
    let at_a = visit(&a, &secret).await.expect("it has begun");
    at_a.set_flash("canary of a message".to_owned()).await;
    let key = IssuedKey {
        previous: Some(("old".to_owned(), Unix::from_ms(1_234))),
        ..new_key()
    };
    let text = key.secret.expose().to_owned();
    at_a.keep_issued_key(key).await.expect("it is kept");
    let dumped = server.query("SELECT encode(flash, 'escape'), encode(issued, 'escape'), s::text FROM sessions.sessions s");
    for canary in ["canary", &text, &secret, "ik_live_"] {
        assert!(!dumped.contains(canary), "{dumped}");
    }
    let at_b = visit(&b, &secret).await.expect("it has begun");
    assert_eq!(
        at_b.take_flash().await.as_deref(),
        Some("canary of a message")
    );
    let other = at_b.take_issued_key("/connectors/other").await;
    assert!(other.expect("an answer").is_none());
    let shown = at_b.take_issued_key("/connectors/shop").await;
    let shown = shown.expect("an answer").expect("it is shown");
    assert_eq!((shown.secret.expose(), &*shown.key), (&*text, "main"));
    assert_eq!(shown.path, "/connectors/shop?new");
    assert_eq!(
        shown.previous,
        Some(("old".to_owned(), Unix::from_ms(1_234)))
    );
    for node in [&a, &b] {
        let again = visit(node, &secret).await.expect("it goes on");
        assert_eq!(again.take_flash().await, None);
        let again = again.take_issued_key("/connectors/shop").await;
        assert!(again.expect("an answer").is_none());
    }
    assert!(
        at_a.take_issued_key("/connectors/shop")
            .await
            .expect("an answer")
            .is_none()
    );
}

#[tokio::test]
async fn a_link_of_one_node_signs_in_on_the_other_once() {
    let Some(server) = Postgres::start("a_link_of_one_node_signs_in") else {
        return;
    };
    let [a, b] = on_nodes(&server).await;
    let main = a.access.main();
    let first = invite(&a, &main).await;
    let second = invite(&a, &main).await;
    assert_eq!(accept(&b, &first).await, None);
    assert_eq!(accept(&b, &second).await, Some(main));
    assert_eq!(accept(&a, &second).await, None);
}

#[tokio::test]
async fn without_the_database_who_was_seen_just_now_reads_and_nobody_does_more() {
    let Some(mut server) = Postgres::start("without_the_database_who_was_seen") else {
        return;
    };
    let [a, b] = on_nodes(&server).await;
    let secret = begin(&a).await;
    let ended = begin(&a).await;
    assert!(visit(&a, &secret).await.is_some());
    let out = visit(&a, &ended).await.expect("it has begun");
    assert!(out.sign_out().await.expect("an answer").is_some());
    server.crash();
    let reads = async |node: &Arc<Sessions>, secret: &str| node.visitor(secret, true).await;
    let seen = reads(&a, &secret).await.expect("it was seen");
    let seen = seen.expect("it was seen");
    assert_eq!(seen.take_flash().await, None);
    assert!(a.visitor(&secret, false).await.is_err(), "it may not write");
    assert!(reads(&b, &secret).await.is_err(), "b has not seen it");
    assert!(reads(&a, &ended).await.is_err(), "it had ended");
    assert!(seen.sign_out().await.is_err());
    assert!(seen.keep_issued_key(new_key()).await.is_err());
    assert!(a.list().await.is_err());
    assert!(a.invite(&a.access.main()).await.is_err());
    assert!(a.accept_invitation("once_x").await.is_err());
    assert_eq!(accept(&a, "a wrong token").await, None);
    let Kept::InDatabase(shared) = &a.kept else {
        panic!("it is a node");
    };
    shared.age(TRUSTED);
    assert!(
        reads(&a, &secret).await.is_err(),
        "it was seen too long ago"
    );
    server.resume();
    assert!(visit(&b, &secret).await.is_some());
}
