// The little that needs a script: progress, keys, lights in information maps, search and sorting in a static site.
"use strict";

const EVERY_MS = 2000;

for (const place of document.querySelectorAll("[data-live]")) {
  const again = async () => {
    try {
      const answer = await fetch(place.dataset.live, { headers: { Accept: "text/html" } });
      if (answer.ok) {
        const text = await answer.text(); // made and escaped by the same server as this page
        if (place.dataset.reload !== undefined && answer.headers.get("X-Run-State") !== "running") {
          location.reload();
          return;
        }
        if (!place.contains(document.activeElement)) place.innerHTML = text;
      }
    } catch {
      // the server has ended, or is busy: ask again
    }
    setTimeout(again, EVERY_MS);
  };
  setTimeout(again, EVERY_MS);
}

// An information map: a sentence lights up those of the other text that lose without it, or that it loses without.
const pair = document.querySelector("[data-map]");
if (pair) {
  const LEAST_SHARE = 0.2; // of the largest loss
  const rows = [...pair.querySelectorAll("[data-sentence]")];
  const candidates = rows.filter((row) => row.dataset.gives);
  const peers = rows.filter((row) => !row.dataset.gives);
  const matrix = candidates.map((row) => row.dataset.gives.split(" ").map(Number));
  const said = document.querySelector("[data-lit]");
  const first = said.textContent;
  let pinned = null;
  const losses = (row) => {
    const i = candidates.indexOf(row);
    const found = i >= 0 ? peers.map((other, j) => [other, matrix[i][j]]) : candidates.map((other, k) => [other, matrix[k][peers.indexOf(row)]]);
    return found.filter(([, nats]) => nats > 0).sort((a, b) => b[1] - a[1]);
  };
  const light = (row) => {
    const found = row ? losses(row) : [];
    const most = found.length ? found[0][1] : 0;
    const lit = found.filter(([, nats]) => nats >= LEAST_SHARE * most);
    for (const one of rows) one.classList.toggle("lit", one === row || lit.some(([other]) => other === one));
    const name = row?.dataset.sentence;
    const parts = lit.map(([other, nats]) => `${other.dataset.sentence} ${nats.toFixed(2)}`).join(", ");
    if (!row) said.textContent = first;
    else if (!lit.length) said.textContent = name[0] === "C" ? `Without ${name}, no sentence would lose anything.` : `${name} would lose nothing without any sentence.`;
    else said.textContent = name[0] === "C" ? `Without ${name}, this many nats would be lost: ${parts}.` : `${name} would lose this many nats without: ${parts}.`;
  };
  for (const row of rows) {
    const button = row.querySelector("button");
    row.addEventListener("pointerenter", () => light(row));
    row.addEventListener("pointerleave", () => light(pinned));
    button.addEventListener("focus", () => light(row));
    button.addEventListener("blur", () => light(pinned));
    button.addEventListener("click", () => {
      pinned = pinned === row ? null : row;
      for (const other of rows) other.querySelector("button").setAttribute("aria-pressed", String(other === pinned));
      light(row);
    });
  }
}

// Keys: j k ← → / ?. They can be turned off, for people who speak to their computer.
const keys = document.getElementById("keys");
const STORED = "goldless-keys";
const remembered = (() => {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null; // a browser that keeps nothing
  }
})();
const keysOn = keys.querySelector("[data-keys-on]");
keysOn.checked = remembered !== "off";
keysOn.addEventListener("change", () => {
  try {
    localStorage.setItem(STORED, keysOn.checked ? "on" : "off");
  } catch {
    // it holds for this page
  }
});
const keysButton = document.querySelector("[data-keys]");
keysButton.hidden = false;
keysButton.addEventListener("click", () => keys.showModal());

const ITEMS = "main tbody th[scope=row] a, main details.evidence > summary, main section.two h2 a, main article.card h3 a";
const step = (by) => {
  const items = [...document.querySelectorAll(ITEMS)].filter((item) => item.checkVisibility());
  const here = items.indexOf(document.activeElement);
  const to = here < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, here + by));
  items[to]?.focus();
  items[to]?.scrollIntoView({ block: "nearest" });
};
const follow = (rel) => document.querySelector(`main a[rel=${rel}]`)?.click();
const scrollsSideways = (element) => element !== document.body && element?.scrollWidth > element?.clientWidth;
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => document.querySelector("main input[type=search]")?.focus(),
  "?": () => keys.showModal(),
  ArrowLeft: () => follow("prev"),
  ArrowRight: () => follow("next"),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing || keys.open || !keysOn.checked) return;
  if (!Object.hasOwn(KEYS, event.key) || (event.key.startsWith("Arrow") && (event.shiftKey || scrollsSideways(document.activeElement)))) return;
  event.preventDefault();
  KEYS[event.key]();
});
