// Providers' SDKs for Node.js, told line by line what to do; run from a copy beside the packages.
import { createHash, createPublicKey } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(import.meta.url);
const now = () => Math.floor(Date.now() / 1000);
// Answers stand on the standard output, and nothing else.
console.log = console.info = console.debug = () => {};
const sha256 = (text, encoding) => createHash("sha256").update(text).digest(encoding);

/** Public keys are given as JSON Web Keys. */
const publicKey = (d) => createPublicKey({ key: JSON.parse(d.secret), format: "jwk" });
const ed25519 = (d, encoding) => Buffer.from(JSON.parse(d.secret).x, "base64url").toString(encoding);

/** Whoever verifies by throwing returns nothing. */
const quiet = (result) => result === undefined || result === null || !!result;

/** What an Express middleware answers; none if it lets the request pass. */
const asMiddleware = (middleware, d) =>
  new Promise((resolve) => {
    const answer = { status: 200, text: "" };
    const response = {
      set statusCode(status) { answer.status = status; },
      setHeader() {},
      status(status) { answer.status = status; return response; },
      send(text) { resolve({ ...answer, text: text ?? "" }); },
      json(value) { resolve({ ...answer, text: JSON.stringify(value) }); },
      end(text) { resolve({ ...answer, text: text ?? "" }); },
    };
    const request = {
      headers: d.headers,
      header: (name) => d.headers[name.toLowerCase()],
      body: Buffer.from(d.body),
    };
    middleware(request, response, () => resolve({ status: 0, text: "" }));
  });

/** All that follow Standard Webhooks. */
const standard = (Webhook) => ({
  sign: (d) => {
    const [name, at] = [d.id, new Date()];
    const signature = new Webhook(d.secret).sign(name, at, d.body);
    const time = String(Math.floor(at / 1000));
    return { headers: { "webhook-id": name, "webhook-timestamp": time, "webhook-signature": signature } };
  },
  verify: (d) => new Webhook(d.secret).verify(d.body, d.headers),
});

/** Names of presets. */
const sdks = {
  standard: () => standard(require("standardwebhooks").Webhook),
  svix: () => {
    const { Webhook } = require("svix");
    const { sign, verify } = standard(Webhook);
    const own = ({ headers: h }) => ({
      headers: { "svix-id": h["webhook-id"], "svix-timestamp": h["webhook-timestamp"], "svix-signature": h["webhook-signature"] },
    });
    return { sign: (d) => own(sign(d)), verify };
  },
  clerk: () => {
    const { verifyWebhook } = require("@clerk/backend/webhooks");
    return {
      verify: ({ url, headers, body, secret }) =>
        verifyWebhook(new Request(url, { method: "POST", headers, body }), { signingSecret: secret }),
    };
  },
  openai: () => {
    const client = new (require("openai").OpenAI)({ apiKey: "none" });
    return { verify: (d) => client.webhooks.verifySignature(d.body, d.headers, d.secret) };
  },
  resend: () => {
    const { Resend } = require("resend");
    return {
      verify: ({ headers: h, body, secret }) =>
        new Resend("re_none").webhooks.verify({
          payload: body,
          headers: { id: h["svix-id"] ?? h["webhook-id"], timestamp: h["svix-timestamp"] ?? h["webhook-timestamp"], signature: h["svix-signature"] ?? h["webhook-signature"] },
          webhookSecret: secret,
        }),
    };
  },
  replicate: () => {
    const { validateWebhook } = require("replicate");
    return {
      verify: ({ headers: h, body, secret }) =>
        validateWebhook({ id: h["webhook-id"], timestamp: h["webhook-timestamp"], signature: h["webhook-signature"], body, secret }),
    };
  },
  stripe: () => {
    const stripe = new (require("stripe"))("sk_test_none");
    return {
      sign: (d) => ({
        headers: { "Stripe-Signature": stripe.webhooks.generateTestHeaderString({ payload: d.body, secret: d.secret }) },
      }),
      verify: (d) => stripe.webhooks.constructEvent(d.body, d.headers["stripe-signature"], d.secret),
    };
  },
  github: async () => {
    const { sign, verify } = await import("@octokit/webhooks-methods");
    return {
      sign: async (d) => ({
        headers: { "X-Hub-Signature-256": await sign(d.secret, d.body), "X-GitHub-Delivery": d.id, "X-GitHub-Event": "push" },
      }),
      verify: (d) => verify(d.secret, d.body, d.headers["x-hub-signature-256"]),
    };
  },
  shopify: async () => {
    await import("@shopify/shopify-api/adapters/node");
    const { shopifyApi } = await import("@shopify/shopify-api");
    return {
      verify: async ({ headers, body, secret, url }) => {
        const shopify = shopifyApi({
          apiKey: "none", apiSecretKey: secret, apiVersion: "2026-10", hostName: "hooks.example.com",
          isEmbeddedApp: false, logger: { log: () => {} },
        });
        const rawRequest = { method: "POST", url: new URL(url).pathname, headers };
        const { valid } = await shopify.webhooks.validate({ rawBody: body, rawRequest, rawResponse: {} });
        return valid;
      },
    };
  },
  twilio: () => {
    const twilio = require("twilio");
    const fields = (d) => Object.fromEntries(new URLSearchParams(d.body));
    const { getExpectedTwilioSignature } = require("twilio/lib/webhooks/webhooks");
    return {
      sign: (d) => ({
        headers: {
          "X-Twilio-Signature": getExpectedTwilioSignature(d.secret, d.url, fields(d)),
          "I-Twilio-Idempotency-Token": d.id,
        },
      }),
      verify: (d) => twilio.validateRequest(d.secret, d.headers["x-twilio-signature"], d.url, fields(d)),
    };
  },
  sendgrid: () => {
    const { EventWebhook } = require("@sendgrid/eventwebhook");
    return {
      verify: (d) => {
        const own = new EventWebhook();
        const key = own.convertPublicKeyToECDSA(publicKey(d).export({ type: "spki", format: "pem" }));
        const name = "x-twilio-email-event-webhook";
        return own.verifySignature(key, d.body, d.headers[`${name}-signature`], d.headers[`${name}-timestamp`]);
      },
    };
  },
  hubspot: () => {
    const { Signature } = require("@hubspot/api-client");
    const of = (d, timestamp) => ({ clientSecret: d.secret, url: d.url, requestBody: d.body, timestamp });
    return {
      sign: (d) => {
        const at = Date.now();
        const signature = Signature.getSignature("POST", "v3", of(d, at));
        return { headers: { "X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": String(at) } };
      },
      verify: (d) => {
        const at = Number(d.headers["x-hubspot-request-timestamp"]);
        const signature = d.headers["x-hubspot-signature-v3"];
        return Signature.isValid({ method: "POST", signatureVersion: "v3", signature, ...of(d, at) });
      },
    };
  },
  paddle: () => {
    const { Paddle } = require("@paddle/paddle-node-sdk");
    const { webhooks } = new Paddle("none");
    return { verify: (d) => webhooks.isSignatureValid(d.body, d.secret, d.headers["paddle-signature"]) };
  },
  square: () => {
    const { WebhooksHelper } = require("square");
    return {
      verify: (d) =>
        WebhooksHelper.verifySignature({
          requestBody: d.body, signatureHeader: d.headers["x-square-hmacsha256-signature"], signatureKey: d.secret, notificationUrl: d.url,
        }),
    };
  },
  linear: async () => {
    const { LinearWebhookClient } = await import("@linear/sdk/webhooks");
    return { verify: (d) => new LinearWebhookClient(d.secret).verify(Buffer.from(d.body), d.headers["linear-signature"]) };
  },
  notion: () => {
    const { signWebhookPayload, verifyWebhookSignature } = require("@notionhq/client");
    return {
      sign: async (d) => ({
        headers: { "X-Notion-Signature": await signWebhookPayload({ body: d.body, verificationToken: d.secret }) },
      }),
      verify: (d) =>
        verifyWebhookSignature({ body: d.body, signature: d.headers["x-notion-signature"], verificationToken: d.secret }),
    };
  },
  discord_interactions: () => {
    const { verifyKey, verifyKeyMiddleware } = require("discord-interactions");
    return {
      verify: (d) => verifyKey(d.body, d.headers["x-signature-ed25519"], d.headers["x-signature-timestamp"], ed25519(d, "hex")),
      answer: (d) => asMiddleware(verifyKeyMiddleware(ed25519(d, "hex")), d),
    };
  },
  discord: () => {
    const { verifyKey, verifyWebhookEventMiddleware } = require("discord-interactions");
    return {
      verify: (d) => verifyKey(d.body, d.headers["x-signature-ed25519"], d.headers["x-signature-timestamp"], ed25519(d, "hex")),
      answer: (d) => asMiddleware(verifyWebhookEventMiddleware(ed25519(d, "hex")), d),
    };
  },
  line: () => {
    const { validateSignature } = require("@line/bot-sdk");
    return { verify: (d) => validateSignature(d.body, d.secret, d.headers["x-line-signature"]) };
  },
  workos: () => {
    const { webhooks } = new (require("@workos-inc/node").WorkOS)("sk_none");
    return {
      sign: async (d) => {
        const at = Date.now();
        const signature = await webhooks.computeSignature(at, JSON.parse(d.body), d.secret);
        return { headers: { "WorkOS-Signature": `t=${at}, v1=${signature}` }, body: JSON.stringify(JSON.parse(d.body)) };
      },
      verify: (d) =>
        webhooks.verifyHeader({ payload: JSON.parse(d.body), sigHeader: d.headers["workos-signature"], secret: d.secret }),
    };
  },
  razorpay: () => {
    const Razorpay = require("razorpay");
    return { verify: (d) => Razorpay.validateWebhookSignature(d.body, d.headers["x-razorpay-signature"], d.secret) };
  },
  gocardless: () => {
    const { parse } = require("gocardless-nodejs/webhooks");
    return { verify: (d) => parse(d.body, d.secret, d.headers["webhook-signature"]) };
  },
  mux: () => {
    const mux = new (require("@mux/mux-node").Mux)({ tokenId: "none", tokenSecret: "none" });
    return { verify: (d) => mux.webhooks.verifySignature(d.body, d.headers, d.secret) };
  },
  box: () => {
    const { WebhooksManager } = require("box-node-sdk/lib/managers/webhooks");
    return { verify: (d) => WebhooksManager.validateMessage(d.body, d.headers, d.secret) };
  },
  polar: async () => {
    const { validateEvent } = (await import("@polar-sh/sdk/2026-10")).webhooks;
    return {
      verify: (d) => validateEvent(d.body, d.headers, d.secret).catch((error) => {
        // Its signature was right; what is invented in the body it does not know.
        if (!/Verification/.test(error.name)) return true;
        throw error;
      }),
    };
  },
  elevenlabs: () => {
    const client = new (require("@elevenlabs/elevenlabs-js").ElevenLabsClient)({ apiKey: "none" });
    return { verify: (d) => client.webhooks.constructEvent(d.body, d.headers["elevenlabs-signature"], d.secret) };
  },
  telnyx: () => {
    const client = new (require("telnyx").Telnyx)({ apiKey: "none" });
    return { verify: (d) => client.webhooks.unwrap(d.body, { headers: d.headers, key: ed25519(d, "base64") }) };
  },
  livekit: () => {
    const { AccessToken, WebhookReceiver } = require("livekit-server-sdk");
    return {
      sign: async (d) => {
        const token = new AccessToken(d.options.api_key, d.secret);
        token.sha256 = sha256(d.body, "base64");
        return { headers: { Authorization: await token.toJwt() } };
      },
      verify: (d) => new WebhookReceiver(d.options.api_key, d.secret).receive(d.body, d.headers.authorization),
    };
  },
  cloudinary: () => {
    const { config, utils } = require("cloudinary").v2;
    return {
      sign: (d) => {
        const at = now();
        const signature = utils.webhook_signature(d.body, at, { api_secret: d.secret });
        return { headers: { "X-Cld-Timestamp": String(at), "X-Cld-Signature": signature } };
      },
      verify: (d) => {
        config({ api_secret: d.secret });
        return utils.verifyNotificationSignature(d.body, Number(d.headers["x-cld-timestamp"]), d.headers["x-cld-signature"]);
      },
    };
  },
  sanity: () => {
    const { encodeSignatureHeader, isValidSignature } = require("@sanity/webhook");
    return {
      sign: async (d) => ({
        headers: { "sanity-webhook-signature": await encodeSignatureHeader(d.body, Date.now(), d.secret) },
      }),
      verify: (d) => isValidSignature(d.body, d.headers["sanity-webhook-signature"], d.secret),
    };
  },
  zoom: () => {
    const { AwsLambdaReceiver } = require("@zoom/rivet/chatbot");
    const ask = async (d) => {
      const receiver = new AwsLambdaReceiver({ webhooksSecretToken: d.secret });
      receiver.init({ eventEmitter: { emit() {} } });
      const done = await receiver.start()({ httpMethod: "POST", path: "/", headers: d.headers, body: d.body }, {});
      return { status: done.statusCode, text: done.body };
    };
    return { verify: async (d) => (await ask(d)).status === 200, answer: ask };
  },
  pusher: () => {
    const Pusher = require("pusher");
    return {
      verify: (d) => {
        const pusher = new Pusher({ appId: "1", key: d.headers["x-pusher-key"], secret: d.secret, cluster: "eu" });
        return pusher.webhook({ headers: d.headers, rawBody: d.body }).isValid();
      },
    };
  },
  qstash: () => {
    const { Receiver } = require("@upstash/qstash");
    return {
      verify: (d) =>
        new Receiver({ currentSigningKey: d.secret, nextSigningKey: "none" })
          .verify({ signature: d.headers["upstash-signature"], body: d.body, url: d.url }),
    };
  },
  vonage: async () => {
    const { verifySignature } = await import("@vonage/jwt");
    const { decode } = require("jsonwebtoken");
    return {
      // It leaves the body to its user, whose documentation says how.
      verify: (d) => {
        const token = d.headers.authorization.replace("Bearer ", "");
        return verifySignature(token, d.secret) && decode(token).payload_hash === sha256(d.body, "hex");
      },
    };
  },
  easypost: () => {
    const EasyPost = require("@easypost/api");
    return { verify: (d) => new EasyPost("none").Utils.validateWebhook(Buffer.from(d.body), d.headers, d.secret) };
  },
  whatsapp: async () => {
    const { WhatsAppAPI } = await import("whatsapp-api-js");
    const api = (d, word) => new WhatsAppAPI({ token: "none", appSecret: d.secret, webhookVerifyToken: word, v: "v24.0" });
    return {
      verify: (d) => api(d).verifyRequestSignature(d.body, d.headers["x-hub-signature-256"]),
      answer: (d) => ({ status: 200, text: api(d, d.verify_token).get(d.query) }),
    };
  },
  webflow: () => {
    const client = new (require("webflow-api").WebflowClient)({ accessToken: "none" });
    return { verify: (d) => client.webhooks.verifySignature({ headers: d.headers, body: d.body, secret: d.secret }) };
  },
};

const made = new Map();
async function done(request) {
  const { sdk, do: what } = request;
  if (!made.has(sdk)) made.set(sdk, await sdks[sdk]());
  const own = made.get(sdk);
  if (what === "can") return { can: Object.keys(own) };
  if (what !== "verify") return own[what](request);
  try {
    return { valid: quiet(await own.verify(request)) };
  } catch (error) {
    return { valid: false, why: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await done(JSON.parse(line)).catch((error) => ({ failed: String(error?.stack ?? error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
