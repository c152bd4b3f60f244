// Opens a call beside the list. Without JavaScript the row is a plain link.
import { sendRequest, probeServer, whenConnected, isPlainClick, hasUnsentText } from "./connection.js";
import { parse } from "./html.js";
import { start as players } from "./player.js";
import { tick } from "./timers.js";
import { toast } from "./toast.js";

const drawer = document.getElementById("drawer");
// The open call, and the one requested last.
let current = null, requested = null, openedFrom = null;

export const getOpenCall = () => current;

// Returns a function that restores focus and selected row.
export function keepFocus(region) {
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
	if (!current) openedFrom = document.activeElement;
	requested = id = String(id);
	whenConnected("open");
	let answer, html;
	try {
		answer = await sendRequest(`/calls/${encodeURIComponent(id)}/beside`);
		if (answer.status > 501) throw answer.status;
		html = await answer.text();
	} catch {
		if (requested !== id) return;
		requested = current;
		probeServer();
		if (update) return;
		toast("No connection. The call opens when the server responds.", true);
		return whenConnected("open", () => open(id));
	}
	if (requested !== id) return;
	if (!answer.ok) return location.assign(`/calls/${id}`);
	if (update ? isInUse() : keepsText()) return;
	current = requested;
	const back = keepFocus(drawer);
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
	if (keepsText()) return;
	current = requested = null;
	whenConnected("open");
	drawer.hidden = true;
	drawer.replaceChildren();
	(document.querySelector("tr[aria-selected] [data-open]") || openedFrom)?.focus({ preventScroll: true });
}

const keepsText = () => hasUnsentText(drawer) && !confirm("Discard text that was not sent?");
// True while a user types or confirms an action.
const isInUse = () => drawer.querySelector("details[open]") || hasUnsentText(drawer) || document.activeElement.closest("#drawer :is(input, select)");
export const refreshCall = (id) => { if (current === String(id) && !isInUse()) open(id, true); };

function mark(id) {
	for (const row of document.querySelectorAll("tr.row[aria-selected]")) row.removeAttribute("aria-selected");
	document.querySelector(`tr.row[data-call="${CSS.escape(id)}"]`)?.setAttribute("aria-selected", "true");
}

export function start() {
	addEventListener("connected", () => current && refreshCall(current));
	addEventListener("click", (event) => {
		if (event.target.closest("[data-action='shut']")) return close();
		if (!isPlainClick(event)) return;
		const link = event.target.closest("a[data-open]");
		const row = event.target.closest("tr.row[data-call]");
		if (!link && (!row || event.target.closest("a, button, input, summary, form, details") || String(getSelection()))) return;
		const id = link ? link.pathname.split("/").pop() : row.dataset.call;
		if (!id) return;
		event.preventDefault();
		if (current === id) close(); else open(id);
	});
}
