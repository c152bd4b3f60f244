// Forms that do something stay on their page: what became of it is said in one line. Without scripts they work too.
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
  toast("Asking the platform …");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form, event.submitter), headers: { Accept: "application/json" } });
    const said = await answer.json();
    if (said.location) return location.assign(said.location);
    toast(said.message, !answer.ok);
    if (answer.ok) {
      if (form.once) form.once.value = `${Date.now()}${Math.random()}`;
      form.closest("details")?.removeAttribute("open");
      if (form.dataset.act === "reload") location.reload(); else if (shown()) { form.reset(); open(shown()); }
    }
  } catch { toast("Switchroom gave no answer. Look whether it was done before you repeat it.", true); }
  form.ariaBusy = null;
}

export const start = () => document.addEventListener("submit", send);
