// Sends forms without leaving the page and shows the result. Forms work without scripts.
import { away, check, later } from "./connection.js";
import { open, shown } from "./drawer.js";
import { refresh } from "./live.js";
import { toast } from "./toast.js";

// A form with the token of `form` that posts to `action`.
function button(form, { action, label }) {
  const other = document.createElement("form");
  other.method = "post";
  other.action = action;
  other.className = "inline";
  other.dataset.act = other.dataset.repeat = "";
  const send = document.createElement("button");
  send.className = "button small";
  send.textContent = label;
  other.append(form.csrf_token.cloneNode(), send);
  return other;
}

function submit(event) {
  const form = event.target.closest("form[data-act]");
  if (!form) return;
  event.preventDefault();
  if (form.ariaBusy) return;
  form.ariaBusy = "true";
  toast("Sending …");
  send(form, event.submitter);
}

// Forms with `data-repeat` have the same effect once or twice; only these are sent a second time.
async function send(form, submitter) {
  const repeat = "repeat" in form.dataset;
  try {
    if (away()) throw 0;
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form, submitter), headers: { Accept: "application/json" } });
    const data = await answer.json();
    if (data.location) return location.assign(data.location);
    toast(data.message, !data.done, data.done && data.undo && button(form, data.undo));
    if (data.done) done(form);
  } catch {
    if (repeat) {
      toast("No connection. This is sent when the server responds.", true);
      later(form.action, () => send(form, submitter));
      return check();
    }
    toast(away() ? "No connection. Nothing was sent, and your input is still here. Send it when the connection is back."
      : "No response. Your input is still here. Check whether it worked before you send it again.", true);
    check();
  }
  form.ariaBusy = null;
}

function done(form) {
  const details = form.closest("details");
  // An update skips a region while the user types in it.
  if (details?.contains(document.activeElement)) details.firstElementChild.focus({ preventScroll: true });
  form.reset();
  if (form.once) form.once.value = `${Date.now()}${Math.random()}`;
  details?.removeAttribute("open");
  if (shown()) open(shown());
  if (document.body.dataset.page === "missed") refresh();
}

// Marks the visible thread as read.
export function seen() {
  const form = document.querySelector("form.unread");
  if (!form || document.hidden) return;
  fetch(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } }).catch(check);
  form.remove();
  const badge = document.querySelector("[data-count=messages]");
  badge.textContent = badge.textContent - 1 || "";
}

export function start() {
  document.addEventListener("submit", submit);
  document.addEventListener("visibilitychange", seen);
  seen();
  document.querySelector("[data-canned]")?.addEventListener("change", ({ target }) => {
    const text = target.selectedOptions[0].dataset.text;
    if (text) target.form.message.value = text;
    target.value = "";
    target.form.message.focus();
  });
}
