//! Amazon SNS and PayPal: what is signed with the key of a certificate.

use serde_json::{Value, json};

use super::{
    CERTIFICATE, MOMENT, options_of, refused, signed_rsa, verifier, with_post, with_request,
};
use crate::key::base64;
use crate::{Because, Options, Refused, Verifier};
use base::clock::Unix;

const TOPIC: &str = "the topic";
const YEAR_2200: Unix = Unix::from_ms(7_258_118_400_000);
/// Another one, which has expired.
fn old_certificate() -> String {
    let file: Value = serde_json::from_str(super::vectors::FILE).expect("the file is JSON");
    let vectors = file["vectors"].as_array().expect("vectors");
    let paypal = vectors.iter().find(|vector| vector["provider"] == "paypal");
    let certificate = &paypal.expect("a vector")["verify"]["certificate"];
    certificate.as_str().expect("a certificate").to_owned()
}

fn notification() -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": TOPIC,
        "Message": "line 1\nline 2",
        "Timestamp": "2027-01-15T08:00:00.000Z",
        "SignatureVersion": "2",
        "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem",
    })
}

fn confirmation(kind: &str) -> Value {
    let mut body = notification();
    body["Type"] = kind.into();
    body["Token"] = "t0".into();
    body["SubscribeURL"] = "https://sns.eu-west-1.amazonaws.com/?Token=t0".into();
    body
}

/// The body with a signature over these of its fields.
fn signed(mut body: Value, names: &str) -> Value {
    let line = |name: &str| format!("{name}\n{}\n", body[name].as_str().expect("text"));
    let message: String = names.split(' ').map(line).collect();
    body["Signature"] = base64(&signed_rsa(message.as_bytes())).into();
    body
}

const NAMES: &str = "Message MessageId Timestamp TopicArn Type";
const NAMES_OF_CONFIRMATIONS: &str = "Message MessageId SubscribeURL Timestamp Token TopicArn Type";

fn sns(body: &Value) -> Result<(), Refused> {
    with_post(&[], &body.to_string(), |delivery| {
        let verifier = verifier("sns");
        assert_eq!(verifier.check_head(delivery.headers, MOMENT), Ok(()));
        verifier.check(delivery)
    })
}

#[test]
fn a_notification_passes_as_it_was_signed() {
    assert_eq!(sns(&signed(notification(), NAMES)), Ok(()));
    let mut body = notification();
    body["Subject"] = "é".into();
    let with_subject = "Message MessageId Subject Timestamp TopicArn Type";
    assert_eq!(sns(&signed(body.clone(), with_subject)), Ok(()));
    // What is null is as good as missing.
    body["Subject"] = Value::Null;
    assert_eq!(sns(&signed(body, NAMES)), Ok(()));
}

#[test]
fn every_signed_field_counts() {
    let good = signed(notification(), NAMES);
    for name in NAMES.split(' ') {
        let mut changed = good.clone();
        changed[name] = "Another".into();
        let because = if name == "Type" {
            Because::Body
        } else {
            Because::Signature
        };
        refused(sns(&changed), because, "");
        for missing in [Value::Null, json!(1), json!({})] {
            changed[name] = missing;
            refused(sns(&changed), Because::Body, "of the body is missing");
        }
    }
    let mut added = good.clone();
    added["Subject"] = "x".into();
    refused(
        sns(&added),
        Because::Signature,
        "does not match the certificate",
    );
    added["Subject"] = json!(7);
    refused(
        sns(&added),
        Because::Body,
        "`Subject` of the body is missing",
    );
    let mut version = good.clone();
    version["SignatureVersion"] = "1".into();
    refused(sns(&version), Because::Signature, "does not match");
    version["SignatureVersion"] = "3".into();
    refused(sns(&version), Because::Body, "SignatureVersion");
    let mut signature = good;
    signature["Signature"] = "****".into();
    refused(sns(&signature), Because::Signature, "does not match");
}

#[test]
fn another_topic_of_the_same_region_is_refused() {
    let mut other = notification();
    other["TopicArn"] = "arn:aws:sns:eu-west-1:210987654321:evil\u{202e}".into();
    let refusal = sns(&signed(other, NAMES));
    refused(
        refusal,
        Because::Body,
        "evil\\u{202e}`; the key accepts only `the topic`",
    );
}

#[test]
fn lines_of_a_message_do_not_become_other_fields() {
    // Whoever has a topic of his own can have any text signed: here one that holds a whole message of another topic.
    let inner =
        format!("hello\nMessageId\nm-2\nTimestamp\nnow\nTopicArn\n{TOPIC}\nType\nNotification");
    let mut own = notification();
    own["Message"] = inner.into();
    own["TopicArn"] = "arn:own".into();
    let own = signed(own, NAMES);
    let rest = "MessageId\nm-1\nTimestamp\n2027-01-15T08:00:00.000Z\nTopicArn\narn:own\nType\nNotification";
    let forged = |field: &str, value: String| {
        let mut forged = own.clone();
        forged["Message"] = "hello".into();
        forged["MessageId"] = "m-2".into();
        forged["Timestamp"] = "now".into();
        forged["TopicArn"] = TOPIC.into();
        forged[field] = value.into();
        forged
    };
    let kind = forged("Type", format!("Notification\n{rest}"));
    refused(sns(&kind), Because::Body, "SNS does not sign it");
    let id = forged("MessageId", "m-2\nTimestamp\nx".to_owned());
    refused(
        sns(&id),
        Because::Body,
        "`MessageId` has a control character",
    );
}

#[test]
fn raw_delivery_is_known_and_told() {
    let headers = [("x-amz-sns-rawdelivery", "true")];
    let head = with_post(&headers, "disk full", |delivery| {
        verifier("sns").check_head(delivery.headers, MOMENT)
    });
    refused(head, Because::Header, "raw message delivery");
    for body in ["disk full", "", "[]", "7", r#"{"Message":"x"}"#] {
        let refusal = with_post(&[], body, |delivery| verifier("sns").check(delivery));
        refused(refusal, Because::Body, "`?access_token=`");
    }
}

#[test]
fn the_beginning_and_the_end_of_a_subscription_are_greetings() {
    for kind in ["SubscriptionConfirmation", "UnsubscribeConfirmation"] {
        let good = signed(confirmation(kind), NAMES_OF_CONFIRMATIONS);
        let answer = |body: &Value| {
            with_post(&[], &body.to_string(), |delivery| {
                let said = crate::handshake::to_do(delivery);
                let answer = verifier("sns").handshake(delivery);
                (
                    answer.map(|answer| answer.map(|answer| answer.status)),
                    said,
                )
            })
        };
        let (status, said) = answer(&good);
        assert_eq!(status, Ok(Some(200)));
        let said = said.expect("an address");
        assert!(
            said.contains("open https://sns.eu-west-1.amazonaws.com/?Token=t0 to "),
            "{said}"
        );
        for name in NAMES_OF_CONFIRMATIONS
            .split(' ')
            .filter(|name| *name != "Type")
        {
            let mut changed = good.clone();
            changed[name] = "https://sns.eu-west-1.amazonaws.com/evil".into();
            let (refusal, _) = answer(&changed);
            refused(refusal.map(drop), Because::Signature, "does not match");
        }
        // Signed in the layout of the other kind.
        let (refusal, _) = answer(&signed(confirmation(kind), NAMES));
        refused(refusal.map(drop), Because::Signature, "does not match");
        let mut elsewhere = good;
        elsewhere["SubscribeURL"] = "https://evil.example/".into();
        assert_eq!(answer(&elsewhere), (Ok(None), None));
    }
    let (kind, body) = ("Notification", signed(notification(), NAMES).to_string());
    let none = with_post(&[("x-amz-sns-message-type", kind)], &body, |delivery| {
        verifier("sns").handshake(delivery)
    });
    assert_eq!(none, Ok(None));
}

/// A verifier with these certificates.
fn with(certificates: &str) -> Verifier {
    Verifier::new(&options_of("sns"), certificates, None).expect("certificates")
}

#[test]
fn a_certificate_that_does_not_fit_or_has_expired_is_named_as_such() {
    let body = signed(notification(), NAMES).to_string();
    let check = |certificates: &str, now: Unix| {
        let url = "https://hooks.example.com/";
        with_request("POST", url, &[], body.as_bytes(), now, |delivery| {
            with(certificates).check(delivery)
        })
    };
    let old = old_certificate();
    assert_eq!(check(&format!("{old}{CERTIFICATE}"), MOMENT), Ok(()));
    let pem = "; the delivery names the one at https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem";
    let wrong = check(&old, Unix::from_ms(1_400_000_000_000));
    refused(
        wrong,
        Because::Signature,
        &format!("does not match the certificate{pem}"),
    );
    let both = check(&format!("{old}{old}"), MOMENT);
    let part = format!("matches none of the 2 certificates, expired since 2017-03-22{pem}");
    refused(both, Because::Signature, &part);
    let expired = check(CERTIFICATE, YEAR_2200);
    let part = format!(
        "was made with a certificate that expired on 2126-10-29; set the provider's new certificate{pem}"
    );
    refused(expired, Because::Signature, &part);
}

#[test]
fn only_a_plain_address_of_the_tool_is_shown() {
    let said = |url: &str| {
        let mut body = notification();
        body["SigningCertURL"] = url.into();
        body["Signature"] = "AAAA".into();
        sns(&body).expect_err("refused").message
    };
    let good = "https://sns.cn-north-1.amazonaws.com.cn/a-1_2.pem";
    assert!(said(good).ends_with(good), "{}", said(good));
    let long = format!("https://sns.eu-west-1.amazonaws.com/{}", "a".repeat(256));
    for url in [
        "http://sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.evil.example/a.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/a.pem",
        "https://sns.eu-west-1.amazonaws.com/?Action=x",
        "https://sns.eu-west-1.amazonaws.com",
        "https://sns.eu-west-1.amazonaws.com/ <b>",
        "",
        &long,
    ] {
        assert!(
            said(url).ends_with("does not match the certificate"),
            "{url}"
        );
    }
}

/// PayPal's delivery of this body, signed for this webhook.
fn paypal(webhook_id: &str, body: &str, sent: &str, options: &Options) -> Result<(), Refused> {
    let (id, time) = ("t-1", "2027-01-15T08:00:00Z");
    let message = format!(
        "{id}|{time}|{webhook_id}|{}",
        crc32fast::hash(body.as_bytes())
    );
    let signature = base64(&signed_rsa(message.as_bytes()));
    let headers = [
        ("PAYPAL-TRANSMISSION-ID", id),
        ("PAYPAL-TRANSMISSION-TIME", time),
        ("PAYPAL-TRANSMISSION-SIG", &*signature),
        (
            "PAYPAL-CERT-URL",
            "https://api.paypal.com/v1/notifications/certs/CERT-1",
        ),
    ];
    let verifier = Verifier::new(options, CERTIFICATE, None).expect("fits");
    with_post(&headers, sent, |delivery| {
        verifier.check_head(delivery.headers, delivery.now)?;
        verifier.check(delivery)
    })
}

#[test]
fn paypal_signs_for_one_webhook() {
    let options = options_of("paypal");
    let own = "the webhook_id";
    assert_eq!(paypal(own, "{}", "{}", &options), Ok(()));
    let part = "the signature in PAYPAL-TRANSMISSION-SIG does not match the certificate; the delivery names the one at https://api.paypal.com/v1/notifications/certs/CERT-1";
    refused(
        paypal("another", "{}", "{}", &options),
        Because::Signature,
        part,
    );
    refused(paypal(own, "{}", "{ }", &options), Because::Signature, part);
    let late = Options {
        tolerance_seconds: Some(300),
        ..options
    };
    assert_eq!(paypal(own, "{}", "{}", &late), Ok(()));
}

#[test]
fn paypal_without_its_headers_is_refused_before_the_body() {
    let headers = [
        ("PAYPAL-TRANSMISSION-ID", "t-1"),
        ("PAYPAL-TRANSMISSION-TIME", "2027-01-15T08:00:00Z"),
        ("PAYPAL-TRANSMISSION-SIG", "AAAA"),
    ];
    let head = |headers: &[(&str, &str)]| {
        with_post(headers, "{}", |delivery| {
            verifier("paypal").check_head(delivery.headers, MOMENT)
        })
    };
    assert_eq!(head(&headers), Ok(()));
    for missing in 0..headers.len() {
        let mut some = headers.to_vec();
        let (name, _) = some.remove(missing);
        refused(head(&some), Because::Header, &format!("{name} is missing"));
    }
    let mut wrong = headers;
    wrong[2].1 = "zz*";
    refused(head(&wrong), Because::Signature, "not padded Base64");
    wrong[1].1 = "yesterday";
    refused(head(&wrong), Because::Timestamp, "RFC 3339");
}
