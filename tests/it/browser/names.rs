//! Names on screens: no word of a name is on two lines, whatever the score, the script and the size of the picture; and
//! all texts of a column are of one size.
//!
//! The templates of the program draw into their own page, which has no read key: the test hands them hundreds of items
//! and looks at each picture.

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::driver::Window;
use super::render::open;

/// Clubs of four continents, one a line.
const CLUBS: &str = include_str!("../../fixtures/clubs.txt");
/// A desk, a full HD and a 4K screen, a column, a phone.
const SIZES: [(u32, u32); 5] = [
    (1440, 900),
    (1920, 1080),
    (3840, 2160),
    (1080, 1920),
    (540, 960),
];

/// `show(entries)` draws these items with the template of the page; `wrong(element)` says what is wrong with a name.
const PICTURES: &str = r#"
const { read } = await import('/templates/options.js');
const { Texts } = await import('/templates/text.js');
const { Pager } = await import('/templates/pager.js');
const { guess } = await import('/templates/roles.js');
const { forgetWidths } = await import('/templates/fit.js');
const root = document.documentElement;
const { Template } = await import(`/templates/${root.dataset.template}.js`);
await document.fonts.ready;
forgetWidths();
root.dataset.items = 'some';
const stage = document.querySelector('main');
stage.replaceChildren();
const options = read(location.search);
const list = { entries: [], fields: [], images: new Set(), get: () => undefined };
const view = { complete: true, text: (key, field) => String(list.entries.find((entry) => entry.key === key).item.fields[field]) };
const parts = { stage, title: document.querySelector('h1'), dots: document.querySelector('nav') };
const pager = new Pager(options, parts, () => {});
const shown = { options, list, view, pager, texts: new Texts(view, options, list.images), roles: {}, plan: () => {}, ...parts };
const template = new Template(shown);
const show = (items) => {
  list.entries = items.map((fields, place) => ({ key: String(place), item: { fields }, ranks: [] }));
  list.fields = Object.keys(items[0]);
  shown.roles = guess({}, list.fields);
  template.draw();
};
// No tests of words of more than 20 letters: a word that does not fit at half the size is broken.
const wrong = (name) => {
  const faults = [];
  const texts = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    for (const word of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((rect) => rect.width > 1).map((rect) => Math.round(rect.bottom / 8)));
      if (lines.size > 1 && word[0].length <= 20) faults.push(`${word[0]} is on ${lines.size} lines`);
    }
  }
  const text = name.textContent;
  if (name.scrollHeight > name.clientHeight + 2) faults.push(`${text}: ${name.scrollHeight} in ${name.clientHeight} pixels`);
  if (name.scrollWidth > name.clientWidth + 1 && text.length <= 26) faults.push(`${text} is cut`);
  return faults;
};
"#;

/// Each club in the place of the home team and in that of the guest, with scores of one to three digits.
const ONE: &str = r#"
const [names] = arguments;
const faults = [];
const widths = new Set();
const scores = [[0, 0], [10, 9], [104, 99], [199, 198]];
names.forEach((home, place) => {
  const away = names[(place * 13 + 3) % names.length];
  const [a, b] = scores[place % scores.length];
  show([{ 'home.name': home, 'home.score': a, 'away.name': away, 'away.score': b, status: '2nd half' }]);
  for (const name of document.querySelectorAll('.match .name')) faults.push(...wrong(name));
  for (const box of document.querySelectorAll('.match .score b'))
    if (box.scrollWidth > box.clientWidth + 1) faults.push(`${box.textContent} is cut`);
  widths.add(Math.round(document.querySelector('.score').getBoundingClientRect().width));
});
if (widths.size > 1) faults.push(`the score is ${[...widths]} wide`);
return faults;
"#;

/// The clubs in lines, as many as fit.
const LINES: &str = r#"
const [names] = arguments;
const faults = [];
for (let from = 0; from < names.length; from += 8) {
  const some = names.slice(from, from + 8);
  show(some.map((home, place) => ({ 'home.name': home, 'home.score': 100 + place, 'away.name': some[some.length - 1 - place], 'away.score': place })));
  for (const name of document.querySelectorAll('.match .name')) faults.push(...wrong(name));
  const sizes = new Set([...document.querySelectorAll('.score b')].map((it) => getComputedStyle(it).fontSize));
  if (sizes.size > 1) faults.push(`scores of ${[...sizes]}`);
}
return faults;
"#;

/// A table of clubs: what its columns are, and the sizes of the text in each.
const TABLE: &str = r#"
const [names] = arguments;
show(names.slice(0, 30).map((home, place) => ({
  league: 'League ' + (place % 4),
  venue: place === 7 ? 'A stadium with a name that is a good deal longer than those of all others' : 'Park ' + place,
  'home.name': home,
  'home.score': place,
  'away.name': names[place + 40],
  'away.score': place === 3 ? 199 : 0,
})));
template.draw();
const rows = [...document.querySelectorAll('tbody tr')];
const columns = [...document.querySelectorAll('thead th')].map((it) => it.textContent);
const sizes = columns.map((_, at) => new Set(rows.map((row) => getComputedStyle(row.children[at]).fontSize)).size);
const box = document.querySelector('.scroll').getBoundingClientRect();
const seen = rows.filter((row) => row.getBoundingClientRect().bottom <= box.bottom + 1).length;
return [columns.slice(0, 4), sizes.every((count) => count === 1), seen];
"#;

fn clubs() -> Vec<&'static str> {
    let clubs: Vec<&str> = CLUBS.lines().collect();
    assert!(clubs.len() >= 300, "{}", clubs.len());
    clubs
}

/// Those that are drawn one by one in the size of this number: each club in two of five sizes, and in all of them with
/// `HEADGATE_NAMES=all`.
fn clubs_alone(size: usize) -> Vec<&'static str> {
    let all = std::env::var_os("HEADGATE_NAMES").is_some_and(|names| names == "all");
    let numbered = clubs().into_iter().enumerate();
    let drawn = numbered.filter(|(club, _)| all || (club + size) % SIZES.len() < 2);
    drawn.map(|(_, club)| club).collect()
}

fn picture(script: &str) -> String {
    format!(
        "return (async (...given) => {{ {PICTURES}\nreturn (function () {{ {script} }})(...given); }})(...arguments);"
    )
}

#[test]
fn no_word_of_a_name_is_on_two_lines_and_no_score_takes_room_from_a_name() {
    let test = "no_word_of_a_name_is_on_two_lines_and_no_score_takes_room_from_a_name";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    for (size, (width, height)) in SIZES.into_iter().enumerate() {
        window.resize(width, height);
        for (script, names) in [(ONE, clubs_alone(size)), (LINES, clubs())] {
            open_without_key(&window, &daemon, "scoreboard");
            let faults = window.run(&picture(script), &json!([names]));
            assert_eq!(faults, json!([]), "{width} x {height}: {script}");
        }
    }
}

#[test]
fn a_table_has_teams_and_scores_first_one_size_a_column_and_all_lines_in_the_picture() {
    let test = "a_table_has_teams_and_scores_first_one_size_a_column_and_all_lines_in_the_picture";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    for (width, height) in &SIZES[..3] {
        window.resize(*width, *height);
        open_without_key(&window, &daemon, "table");
        let found = window.run(&picture(TABLE), &json!([clubs()]));
        let first = json!(["home.name", "home.score", "away.score", "away.name"]);
        assert_eq!(found, json!([first, true, 30]), "{width} x {height}");
    }
}

#[test]
fn the_address_of_an_image_is_never_a_text_and_a_card_without_one_has_no_place_for_it() {
    let test = "the_address_of_an_image_is_never_a_text_and_a_card_without_one_has_no_place_for_it";
    let Some(window) = Window::open(test) else {
        return;
    };
    let daemon = Daemon::start(&["orders"]);
    let items = json!([
        {"id": "1", "name": "one", "sign": "https://elsewhere.invalid/one.png"},
        {"id": "2", "name": "two", "sign": "https://elsewhere.invalid/no-image"},
        {"id": "3", "name": "three", "sign": "a sign"},
        {"id": "4", "name": "four", "logo": "https://elsewhere.invalid/four"},
    ]);
    daemon.post("orders", &items.to_string());
    open(&window, &daemon, "");
    let rows = "return [...document.querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent).join('|'))";
    window.shows(
        rows,
        &json!(["1|one||", "2|two||", "3|three|a sign|", "4|four||"]),
    );
    open(&window, &daemon, "template=cards&image=sign&images=any");
    let tops = "return [...document.querySelectorAll('.card')].map((card) => Math.round(card.querySelector('h2').getBoundingClientRect().top - card.getBoundingClientRect().top))";
    let alike = |tops: &Value| {
        let tops = tops.as_array().expect("a list");
        tops.len() == 4 && tops.iter().all(|top| *top == tops[3])
    };
    window.becomes("no room for an image", tops, &json!([]), alike);
}

/// The page of a template as it is before it has anything to show.
fn open_without_key(window: &Window, daemon: &Daemon, template: &str) {
    window.go("about:blank");
    let origin = daemon.origin();
    window.go(&format!("{origin}/render/orders?template={template}"));
    window.shows(super::render::STATE, &json!("keyless"));
}
