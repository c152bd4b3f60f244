import { start as timers } from "./timers.js";
import { start as keys } from "./keys.js";
import { start as drawer } from "./drawer.js";
import { start as players } from "./player.js";
import { start as live } from "./live.js";
import { start as act } from "./act.js";
import { start as bell } from "./bell.js";

document.addEventListener("click", async (event) => {
  for (const box of document.querySelectorAll(".filters[open]")) if (!box.contains(event.target)) box.open = false;
  const button = event.target.closest("[data-copy], [data-action='theme']");
  if (!button) return;
  if (button.dataset.action) return window.switchTheme();
  event.preventDefault();
  try { await navigator.clipboard.writeText(button.dataset.copy); } catch { return prompt("Copy:", button.dataset.copy); }
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
});

timers();
keys();
drawer();
act();
bell();
players(document);
for (const here of document.querySelectorAll(":is(#threads, .rail) [aria-current]")) {
  // Not scrollIntoView: since Chromium 150 it also moves the start of the Tab order, past the skip link.
  const list = here.closest(".threads, .rail");
  const [inner, outer] = [here, list].map((element) => element.getBoundingClientRect());
  const x = inner.left < outer.left || inner.right > outer.right ? inner.left - outer.left : 0;
  const y = inner.top < outer.top || inner.bottom > outer.bottom ? inner.top - outer.top : 0;
  list.scrollBy(x, y);
}
if (document.getElementById("talk")) scrollTo(0, document.body.scrollHeight);
if (document.body.dataset.change) live();
