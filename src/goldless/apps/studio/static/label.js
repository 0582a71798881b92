// A verdict by one key: a or 1, b or 2, t or 0, u for undo.
"use strict";

{
  const VERDICTS = { a: "a", 1: "a", b: "b", 2: "b", t: "tie", 0: "tie", u: "undo" };
  const form = document.querySelector("[data-verdict]");
  let sent = false; // a key that is held down is one verdict

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=checkbox], [type=hidden]), select, textarea, dialog");
    const off = !document.querySelector("[data-keys-on]").checked;
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing || off || sent) return;
    const button = Object.hasOwn(VERDICTS, event.key) ? form.querySelector(`button[value=${VERDICTS[event.key]}]`) : null;
    if (button) {
      event.preventDefault();
      button.click();
    }
  });
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // back to a pair that is labelled by now
  });
}
