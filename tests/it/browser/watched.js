// What a test talks to in a page: `watched.open(options)` opens a client and gives its number; the others take it.
// All answers are plain JSON. `arguments[0]` is the address of headgate.js.
return import(arguments[0]).then(({ connect }) => {
  const clients = [];
  window.watched = {
    open(options) {
      const live = connect(options);
      const client = { live, states: [], changes: [] };
      live.addEventListener("state", ({ detail }) => client.states.push(detail));
      for (const name of options.streams) {
        live.stream(name).addEventListener("change", ({ detail }) =>
          client.changes.push({
            updated: detail.updated.map((item) => item.key),
            removed: detail.removed,
            snapshot: detail.snapshot,
          }),
        );
      }
      return clients.push(client) - 1;
    },
    view(number, name) {
      const view = clients[number].live.stream(name);
      // Pairs, because an object would reorder keys and lose `__proto__`.
      const items = [...view].map(([key, item]) => [key, Object.entries(item.fields)]);
      return { complete: view.complete, stale: view.stale, items };
    },
    text: (number, name, key, field) => clients[number].live.stream(name).text(key, field),
    item: (number, name, key) => clients[number].live.stream(name).get(key),
    state(number) {
      const { live, states, changes } = clients[number];
      return { state: live.state, reason: live.reason, id: live.id, states, changes };
    },
    close: (number) => clients[number].live.close(),
  };
});
