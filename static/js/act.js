// Sends forms without leaving the page and shows the result. Forms work without scripts.
import { open, shown } from "./drawer.js";

let timer;
export function toast(text, bad) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.classList.toggle("bad", Boolean(bad));
  box.hidden = !text;
  clearTimeout(timer);
  timer = setTimeout(() => { box.hidden = true; }, bad ? 12_000 : 4_000);
}

async function send(event) {
  const form = event.target.closest("form[data-act]");
  if (!form) return;
  event.preventDefault();
  if (form.ariaBusy) return;
  form.ariaBusy = "true";
  toast("Sending …");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form, event.submitter), headers: { Accept: "application/json" } });
    const data = await answer.json();
    if (data.location) return location.assign(data.location);
    toast(data.message, !data.done);
    if (data.done) {
      form.reset();
      if (form.once) form.once.value = `${Date.now()}${Math.random()}`;
      form.closest("details")?.removeAttribute("open");
      if (shown()) open(shown());
    }
  } catch { toast("No response. Check whether it worked before you try again.", true); }
  form.ariaBusy = null;
}

// Marks the visible thread as read.
export function seen() {
  const form = document.querySelector("form.unread");
  if (!form || document.hidden) return;
  fetch(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } });
  form.remove();
  const badge = document.querySelector("[data-count=messages]");
  badge.textContent = badge.textContent - 1 || "";
}

export function start() {
  document.addEventListener("submit", send);
  document.addEventListener("visibilitychange", seen);
  seen();
  document.querySelector("[data-canned]")?.addEventListener("change", ({ target }) => {
    const text = target.selectedOptions[0].dataset.text;
    if (text) target.form.message.value = text;
    target.value = "";
    target.form.message.focus();
  });
}
