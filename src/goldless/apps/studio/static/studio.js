// What the studio needs beyond the viewer: counts of characters, files that are dropped, and buttons that are busy.
"use strict";

for (const field of document.querySelectorAll("textarea[data-most]")) {
  const note = document.getElementById(field.getAttribute("aria-describedby"));
  const said = note.textContent;
  const most = Number(field.dataset.most);
  const count = () => {
    const length = [...field.value].length;
    const over = length > most;
    note.textContent = over ? `${length.toLocaleString("en")} characters; at most ${most.toLocaleString("en")} fit here.` : said;
    note.classList.toggle("missing", over);
  };
  field.addEventListener("input", count);
}

for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", (event) => {
    const button = event.submitter ?? form.querySelector("button[type=submit]");
    button.textContent = button.dataset.busy ?? form.dataset.busy;
    button.disabled = true;
  });
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
}

// A file may be dropped anywhere on the page.
const drop = document.querySelector("form[data-drop]");
if (drop) {
  const file = drop.querySelector("input[type=file]");
  const send = () => file.files.length && drop.requestSubmit();
  file.addEventListener("change", send);
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => event.relatedTarget ?? drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (!event.dataTransfer.files.length) return;
    file.files = event.dataTransfer.files;
    send();
  });
}

// What takes long to make is fetched after the page is there.
for (const place of document.querySelectorAll("[data-fetch]")) {
  const begun = Date.now();
  const passed = place.querySelector("[data-seconds]");
  const clock = setInterval(() => (passed.textContent = `${Math.round((Date.now() - begun) / 1000)} s so far`), 1000);
  fetch(place.dataset.fetch)
    .then((answer) => (answer.ok ? answer.text() : Promise.reject()))
    .then((text) => (place.innerHTML = text)) // made and escaped by the same server as this page
    .catch(() => (place.textContent = "The plan could not be made. Reload the page to try again."))
    .finally(() => clearInterval(clock));
}
