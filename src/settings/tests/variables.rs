//! Problems of environment variables, the profile among them: exact text.

use super::Place;

/// The same for one variable.
fn check_variable(name: &str, value: &str, expected: &str) {
    let problems = Place::empty().var(name, value).problems();
    assert_eq!(problems, format!("environment variable {name}: {expected}"));
}

#[test]
fn a_profile_is_built_in_or_a_file() {
    check_variable(
        "HEADGATE_PROFILE",
        "prodution",
        r#""prodution" is neither a built-in profile (development, production, test) nor the file config/prodution.toml; did you mean "production"?"#,
    );
    for name in ["default", "../site", ".."] {
        check_variable(
            "HEADGATE_PROFILE",
            name,
            &format!(
                "{name:?} is neither a built-in profile (development, production, test) nor the name of a file in config"
            ),
        );
    }
}

#[test]
fn unknown_variables_name_the_nearest_known_one() {
    check_variable(
        "HEADGATE_LIMITS__BURTS",
        "1",
        "unknown variable; did you mean HEADGATE_LIMITS__BURST?",
    );
    check_variable(
        "HEADGATE_SERVER_LISTEN",
        "1",
        "unknown variable; did you mean HEADGATE_SERVER__LISTEN?",
    );
    check_variable(
        "HEADGATE_PROFIL",
        "x",
        "unknown variable; did you mean HEADGATE_PROFILE?",
    );
    check_variable(
        "HEADGATE_BANANA",
        "x",
        "unknown variable; settings are HEADGATE_SECTION__KEY, and `headgate config show` lists them",
    );
    check_variable(
        "HEADGATE_SERVER",
        "x",
        "server: set each setting of a section with its own variable, as in HEADGATE_SERVER__LISTEN",
    );
    check_variable(
        "HEADGATE_STREAMS__0__NAME",
        "x",
        r#"streams: set a list as a whole, as in HEADGATE_STREAMS='[{ name = "…" }]'"#,
    );
}

#[test]
fn variables_are_checked_like_files() {
    check_variable(
        "HEADGATE_LIMITS__BURST",
        "many",
        "limits.burst: expected an integer, found a string",
    );
    check_variable(
        "HEADGATE_LOG__REQUESTS",
        "yes",
        "log.requests: expected true or false, found a string",
    );
    check_variable(
        "HEADGATE_STREAMS",
        "[{nmae=\"orders\"}]",
        r#"streams[0].nmae: unknown key; did you mean "name"?"#,
    );
    let problems = Place::empty().var("HEADGATE_STREAMS", "[{name=").problems();
    assert!(
        problems.starts_with("environment variable HEADGATE_STREAMS: streams: not valid TOML: "),
        "{problems}"
    );
}
