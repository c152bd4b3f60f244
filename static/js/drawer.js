// Opens a call beside the list. Without JavaScript the row is a plain link.
import { ask, check, later, plain, typed } from "./connection.js";
import { parse } from "./html.js";
import { start as players } from "./player.js";
import { tick } from "./timers.js";
import { toast } from "./toast.js";

const drawer = document.getElementById("drawer");
// The open call, and the one requested last.
let current = null, latest = null, came = null;

export const shown = () => current;

// Returns a function that restores focus and selected row.
export function keep(region) {
	const at = region.contains(document.activeElement) && document.activeElement;
	const home = at && (at.closest("tr[id]") || region).id;
	const all = () => [...(document.getElementById(home)?.querySelectorAll("a, button, summary") || [])];
	const nth = all().indexOf(at), chosen = region.querySelector("[aria-selected]")?.id;
	const played = region.querySelector("[data-play][aria-current]")?.getAttribute("href");
	return () => {
		if (played) region.querySelector(`[href="${played}"]`)?.setAttribute("aria-current", "true");
		document.getElementById(chosen)?.setAttribute("aria-selected", "true");
		if (at) (all()[nth] || region).focus({ preventScroll: true });
	};
}

// Moves the focus there; `update` refreshes the open call.
export async function open(id, update) {
	if (!id) return;
	if (!current) came = document.activeElement;
	latest = id = String(id);
	later("open");
	let answer, html;
	try {
		answer = await ask(`/calls/${encodeURIComponent(id)}/beside`);
		if (answer.status > 501) throw answer.status;
		html = await answer.text();
	} catch {
		if (latest !== id) return;
		latest = current;
		check();
		if (update) return;
		toast("No connection. The call opens when the server responds.", true);
		return later("open", () => open(id));
	}
	if (latest !== id) return;
	if (!answer.ok) return location.assign(`/calls/${id}`);
	if (update ? busy() : stays()) return;
	current = latest;
	const back = keep(drawer);
	// A note must not end the playback.
	const decks = drawer.querySelectorAll("[data-player]");
	drawer.replaceChildren(...parse(html).body.childNodes);
	for (const deck of decks) drawer.querySelector(`[data-player="${deck.dataset.player}"]`)?.replaceWith(deck);
	players(drawer);
	drawer.hidden = false;
	mark(id);
	tick();
	if (update) back(); else drawer.focus({ preventScroll: true });
}

export function close() {
	if (stays()) return;
	current = latest = null;
	later("open");
	drawer.hidden = true;
	drawer.replaceChildren();
	(document.querySelector("tr[aria-selected] [data-open]") || came)?.focus({ preventScroll: true });
}

const stays = () => typed(drawer) && !confirm("Discard text that was not sent?");
// True while a user types or confirms an action.
const busy = () => drawer.querySelector("details[open]") || typed(drawer) || document.activeElement.closest("#drawer :is(input, select)");
export const reopen = (id) => { if (current === String(id) && !busy()) open(id, true); };

function mark(id) {
	for (const row of document.querySelectorAll("tr.row[aria-selected]")) row.removeAttribute("aria-selected");
	document.querySelector(`tr.row[data-call="${CSS.escape(id)}"]`)?.setAttribute("aria-selected", "true");
}

export function start() {
	addEventListener("connected", () => current && reopen(current));
	addEventListener("click", (event) => {
		if (event.target.closest("[data-action='shut']")) return close();
		if (!plain(event)) return;
		const link = event.target.closest("a[data-open]");
		const row = event.target.closest("tr.row[data-call]");
		if (!link && (!row || event.target.closest("a, button, input, summary, form, details") || String(getSelection()))) return;
		const id = link ? link.pathname.split("/").pop() : row.dataset.call;
		if (!id) return;
		event.preventDefault();
		if (current === id) close(); else open(id);
	});
}
