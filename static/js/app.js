import * as timers from "./timers.js";
import * as keys from "./keys.js";
import * as drawer from "./drawer.js";
import * as player from "./player.js";
import * as connection from "./connection.js";
import * as stream from "./stream.js";
import { showAnswerForms } from "./live.js";
import * as act from "./act.js";
import * as ringing from "./ringing.js";
import * as order from "./order.js";
import * as schedule from "./schedule.js";
import * as palette from "./palette.js";
import * as range from "./range.js";
import * as prepare from "./prepare.js";

addEventListener("click", async (event) => {
	for (const box of document.querySelectorAll(".dropdown[open]")) if (!box.contains(event.target)) box.open = false;
	const button = event.target.closest("[data-copy], [data-action='theme']");
	if (!button) return;
	if (button.dataset.action) return window.switchTheme();
	event.preventDefault();
	try { await navigator.clipboard.writeText(button.dataset.copy); } catch { return prompt("Copy:", button.dataset.copy); }
	button.classList.add("done");
	setTimeout(() => button.classList.remove("done"), 1200);
});

for (const part of [timers, keys, drawer, act, connection, ringing, order, schedule, palette, range, player, prepare]) part.start(document);
for (const chosen of document.querySelectorAll("#threads [aria-current], .tabs [aria-current]")) {
	// scrollIntoView would also move the start of the Tab order (Chromium 150).
	const list = chosen.closest(".tabs, .threads"), a = chosen.getBoundingClientRect(), b = list.getBoundingClientRect();
	if (a.left < b.left || a.right > b.right) list.scrollLeft += a.left - b.left;
	if (a.top < b.top || a.bottom > b.bottom) list.scrollTop += a.top - b.top;
}
const phoneLinks = document.querySelector("[data-phone-links]");
phoneLinks?.addEventListener("click", () => navigator.registerProtocolHandler("tel", `${location.origin}/dial?to=%s`));
// registerProtocolHandler needs HTTPS or this computer.
if (phoneLinks && !isSecureContext) phoneLinks.disabled = true;
if (document.getElementById("talk")) scrollTo(0, document.body.scrollHeight);
if (document.body.dataset.change) { showAnswerForms(); stream.start(); }
// Sections of System stay open while the page reloads.
for (const fold of document.querySelectorAll("[data-fold]")) fold.open ||= Boolean(kept.get(`open-${fold.dataset.fold}`));
addEventListener("click", ({ target }) => {
	const fold = target.closest("[data-fold] > summary")?.parentElement;
	if (fold) kept.set(`open-${fold.dataset.fold}`, !fold.open && "1");
});
