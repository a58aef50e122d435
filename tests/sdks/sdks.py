"""Providers' SDKs for Python, told line by line what to do: see sdks.mjs."""

import json
import sys
import time

sys.path.insert(0, sys.argv[1])


class Slack:
    def __init__(self, secret):
        from slack_sdk.signature import SignatureVerifier

        self.secret, self.verifier = secret, SignatureVerifier(secret)

    def sign(self, d):
        at = str(int(time.time()))
        signature = self.verifier.generate_signature(timestamp=at, body=d["body"])
        return {"headers": {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature}}

    def verify(self, d):
        return self.verifier.is_valid_request(d["body"], d["headers"])

    def answer(self, d):
        from slack_bolt import App, BoltRequest

        app = App(token="xoxb-none", signing_secret=self.secret, token_verification_enabled=False)
        done = app.dispatch(BoltRequest(body=d["body"], headers=d["headers"]))
        return {"status": done.status, "text": done.body}


class Adyen:
    def __init__(self, secret):
        self.secret = secret

    def sign(self, d):
        from Adyen.util import generate_notification_sig

        body = json.loads(d["body"])
        for of in body["notificationItems"]:
            item = of["NotificationRequestItem"]
            signature = generate_notification_sig(item, self.secret)
            item["additionalData"]["hmacSignature"] = signature.decode()
        return {"headers": {}, "body": json.dumps(body)}

    def verify(self, d):
        from Adyen.util import is_valid_hmac_notification

        items = json.loads(d["body"])["notificationItems"]
        return all(is_valid_hmac_notification(of["NotificationRequestItem"], self.secret) for of in items)


class Airtable:
    def __init__(self, secret):
        self.secret = secret

    def verify(self, d):
        from pyairtable.models.webhook import WebhookNotification

        WebhookNotification.from_request(d["body"], d["headers"]["x-airtable-content-mac"], self.secret)
        return True


SDKS = {"slack": Slack, "adyen": Adyen, "airtable": Airtable}


def done(request):
    of, what = SDKS[request["sdk"]], request["do"]
    if what == "can":
        return {"can": [name for name in ("sign", "verify", "answer") if hasattr(of, name)]}
    sdk = of(request["secret"])
    if what != "verify":
        return getattr(sdk, what)(request)
    try:
        return {"valid": bool(sdk.verify(request))}
    except Exception as error:
        return {"valid": False, "why": repr(error)}


for line in sys.stdin:
    try:
        answer = done(json.loads(line))
    except Exception as error:
        answer = {"failed": repr(error)}
    print(json.dumps(answer), flush=True)
