import { openPage } from "./connection.js";
import { close, open, getOpenCall } from "./drawer.js";

const NAME = "keys-off";
const areKeysOff = () => kept.get(NAME);
let waiting = 0;

const rows = () => [...document.querySelectorAll("[data-list] tr.row")].filter((row) => row.offsetParent !== null);
const selected = () => document.querySelector("tr.row[aria-selected='true']");

function select(step) {
	const all = rows();
	if (!all.length) return;
	const now = all.indexOf(selected());
	const row = now < 0 && step < 0 ? all.at(-1) : all[Math.min(all.length - 1, Math.max(0, now + step))];
	for (const other of all) other.ariaSelected = null;
	row.ariaSelected = "true";
	row.scrollIntoView({ block: "nearest" });
	row.querySelector("[data-open]")?.focus({ preventScroll: true });
	if (getOpenCall()) open(row.dataset.call);
}

function toggleShortcuts() {
	const dialog = document.getElementById("sheet");
	if (dialog.open) dialog.close(); else dialog.showModal();
}

const isTyping = (target) => target.closest("input:not([type=checkbox],[type=range]), textarea, select, [contenteditable]");

function press(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
	if (event.key === "Escape") {
		const box = document.querySelector(":is(.dropdown, .sure)[open]");
		if (box) { box.open = false; box.firstElementChild.focus(); }
		else if (isTyping(event.target)) return event.target.blur();
		else if (getOpenCall()) close();
		else return;
		return event.preventDefault();
	}
	if (isTyping(event.target) || areKeysOff()) return;
	const second = Date.now() - waiting < 1200;
	waiting = 0;
	if (second) {
		const tab = document.querySelector(`.rail a[data-key="${CSS.escape(event.key)}"]`);
		if (tab) { event.preventDefault(); tab.click(); }
		return;
	}
	const act = {
		"/": () => document.querySelector(".bar .find input")?.select(),
		"?": toggleShortcuts,
		j: () => select(1),
		k: () => select(-1),
		g: () => { waiting = Date.now(); },
		t: () => window.switchTheme(),
		Enter: () => {
			const row = selected();
			if (!row || event.target.closest("button, summary") || (event.target.closest("a") && !event.target.matches("[data-open]"))) return false;
			if (getOpenCall() === row.dataset.call) openPage(`/calls/${row.dataset.call}`); else open(row.dataset.call);
		},
	}[event.key];
	if (act && act() !== false) event.preventDefault();
}

export function start() {
	addEventListener("keydown", press);
	document.querySelector("[data-action='keys']")?.addEventListener("click", toggleShortcuts);
	const box = document.getElementById("keys-on");
	if (!box) return;
	box.checked = !areKeysOff();
	box.addEventListener("change", () => kept.set(NAME, !box.checked && "1"));
	document.getElementById("sheet").addEventListener("click", (event) => { if (event.target.id === "sheet") event.target.close(); });
}
