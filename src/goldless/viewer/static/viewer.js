// The little that needs a script: progress of a running run, and search and sorting in a static site.
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

const form = document.querySelector("[data-bundle-search]");
if (form) {
  const rows = [...document.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
  const count = document.querySelector("[data-count]");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    let shown = 0;
    for (const [row, text] of rows) {
      row.hidden = !text.includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = shown;
  });
}

const value = (row, column) => {
  const cell = row.cells[column].querySelector("a") ?? row.cells[column];
  const text = cell.textContent.trim();
  const number = parseFloat(text.replaceAll(",", "").replace("\u2212", "-"));
  return Number.isNaN(number) ? text : number;
};

for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const head of table.tHead.rows[0].cells) {
    if (!head.textContent.trim() || head.querySelector(".hidden")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [value(a, head.cellIndex), value(b, head.cellIndex)];
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    });
  }
}
