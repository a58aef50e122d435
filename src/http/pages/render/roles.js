// What a field is for: templates ask for roles, an address names their fields (`home=team_a.title`), and the rest is
// guessed from the names of fields.
//
// Invariant: a field has at most one guessed role, and a role that was named is not guessed.

const SIDES = {
  home: "home|host|team_?a|team_?1|player_?1|local|heim",
  away: "away|guest|visitor|visitante|team_?b|team_?2|player_?2|gast",
};
const NAMES = "name|title|team|label";
const SCORES = "score|goals|points|pts|runs|sets|result";
const IMAGES = "logo|crest|image|img|photo|picture|avatar|flag|badge|emblem|icon|thumbnail|thumb";
const COLORS = "colou?r";

const exactly = (pattern) => new RegExp(`^(?:${pattern})$`, "i");
const ending = (pattern) => new RegExp(`(?:^|[._-])(?:${pattern})$`, "i");
const side = (who, what) => exactly(`(?:.*\\.)?(?:${SIDES[who]})[._-]?(?:${what})`);

// In the order in which they choose; each with the patterns of its names, the best first.
export const ROLES = new Map();
for (const who of ["home", "away"]) {
  ROLES.set(who + "_score", [side(who, SCORES), exactly(`(?:score|goals|points)[._-](?:${SIDES[who]})`)]);
  ROLES.set(who + "_logo", [side(who, IMAGES)]);
  ROLES.set(who + "_color", [side(who, COLORS)]);
  ROLES.set(who, [side(who, NAMES), exactly(SIDES[who])]);
}
ROLES.set("clock", [exactly("clock\\.(?:minute|time|display)|clock|minute|match_?time|game_?time|time_?left|elapsed")]);
ROLES.set("status", [exactly("clock\\.label|period\\.label|status_?text"), exactly("status|state|period|phase")]);
ROLES.set("competition", [exactly("(?:competition|league|tournament|event|group)(?:\\.(?:name|title))?")]);
ROLES.set("image", [ending(IMAGES)]);
ROLES.set("name", [
  exactly("title|name|headline|label"),
  ending("title|name|headline|label"),
  exactly("destination|product|subject|text"),
  exactly("sku|id"),
]);
ROLES.set("subtitle", [
  exactly("subtitle|sub_?title|role|function|position|description|summary|text|team|category|venue\\.name"),
]);
ROLES.set("value", [
  exactly("value|number|count|total|amount|price|score|points|temperature"),
  ending("value|count|total|amount|price|score"),
]);
ROLES.set("unit", [exactly("unit|units|currency|suffix")]);

export const isImageName = (field) => ending(IMAGES).test(field);

const IMAGE = /^(?:https?:\/\/|\/)[^\s?#]+\.(?:png|jpe?g|gif|svg|webp|avif)(?:[?#]\S*)?$|^data:image\//i;
const ADDRESS = /^(?:https?:\/\/|\/|data:image\/)\S+$/i;

// Whether a value is the address of an image by itself, and whether it can be one in a field of images.
export const isImage = (value) => typeof value === "string" && IMAGE.test(value);
export const isAddress = (value) => typeof value === "string" && ADDRESS.test(value);

// The fields of the roles: those that `named` says, the others guessed from the fields that items have.
export function guess(named, fields) {
  const roles = { ...named };
  const taken = new Set(Object.values(named));
  for (const [role, patterns] of ROLES) {
    if (roles[role] || (role === "name" && roles.home && roles.away)) continue; // a match has no name of its own
    for (const pattern of patterns) {
      const found = fields.find((field) => !taken.has(field) && pattern.test(field));
      if (!found) continue;
      roles[role] = found;
      taken.add(found);
      break;
    }
  }
  return roles;
}
