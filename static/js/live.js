// Shows changes on the page.
import { keepFocus, refreshCall } from "./drawer.js";
import { markSeen } from "./act.js";
import { parse } from "./html.js";
import { sendRequest, probeServer, replacePage, hasUnsentText } from "./connection.js";
import { showSilence, sync, tick } from "./timers.js";

const PATIENCE = 10_000, KEPT = 8;
const byId = (id) => document.getElementById(id);
const list = byId("live");
const page = document.body.dataset.page;
const title = document.title.replace(/^\(\d+\) /, "");
export let last = document.body.dataset.change;
let announcedAt = 0, refreshing = null, wide = false;
let queue = Promise.resolve();

function showCounts(values) {
	if (!values) return;
	for (const [name, n] of Object.entries(values)) {
		const badge = document.querySelector(`[data-count="${name}"]`);
		if (badge) badge.textContent = n || "";
		const figure = document.querySelector(`[data-figure="${name}"]`);
		if (figure && name !== "live") { (figure.querySelector("a") || figure).textContent = n ?? "—"; figure.classList.toggle("zero", !n); }
	}
	document.title = values.ringing ? `(${values.ringing}) ${title}` : title;
}

function announce(text) {
	const box = byId("said");
	if (!text || !box || Date.now() - announcedAt < 1500) return;
	announcedAt = Date.now();
	box.textContent = text;
}

// Answer in rows that ring at this phone.
export function showAnswerForms() {
	for (const box of document.querySelectorAll(`[data-rings~="${list?.dataset.phone}"][hidden]`)) {
		box.querySelector("form").append(document.querySelector("[name=csrf_token]").cloneNode());
		box.hidden = false;
	}
}

function placeRow(row) {
	const body = byId(`group-${row.dataset.group}`);
	const former = byId(row.id);
	const same = former && former.dataset.group === row.dataset.group;
	const focused = former?.contains(document.activeElement);
	if (former) row.ariaSelected = former.ariaSelected;
	if (same) former.replaceWith(row);
	else {
		former?.remove();
		row.classList.add("fresh");
		const rows = [...body.querySelectorAll("tr.row")];
		const sign = row.dataset.group === "ended" ? -1 : 1;
		const next = rows.find((other) => sign * Number(other.dataset.at) > sign * Number(row.dataset.at));
		body.insertBefore(row, next || null);
		if (row.dataset.group === "ended") [...body.querySelectorAll("tr.row")].slice(KEPT).forEach((extra) => extra.remove());
	}
	if (focused) row.querySelector("[data-open]")?.focus({ preventScroll: true });
}

function updateGroups() {
	showAnswerForms();
	let open = 0, waiting = null;
	for (const body of list.tBodies) {
		if (!body.dataset.group) continue;
		const n = body.querySelectorAll("tr.row").length;
		body.hidden = !n;
		const label = body.querySelector(".n");
		if (label) label.textContent = n || "";
		if (body.dataset.group !== "ended") open += n;
		if (body.dataset.group === "ringing") waiting = body.querySelector("tr.row");
	}
	byId("no-calls").hidden = open > 0;
	const figure = document.querySelector("[data-figure='waiting']");
	if (figure && !waiting) { figure.textContent = "0:00"; figure.classList.add("zero"); }
	tick();
}

// Refreshes all regions but rows of calls.
async function update(all) {
	let answer, html;
	wide ||= all;
	try {
		answer = await sendRequest(location.href, { signal: AbortSignal.timeout(2 * PATIENCE) });
		html = await answer.text();
	} catch { refreshSoon(PATIENCE); probeServer(); return showSilence(true); }
	showSilence(answer.status > 501);
	// Error pages have no name.
	if (page && (answer.status === 403 || (answer.status === 404 && !hasUnsentText(document)))) return replacePage();
	if (!answer.ok) return answer.status > 499 && refreshSoon(PATIENCE);
	const fresh = parse(html);
	// Another user, or other rights.
	if (fresh.body.dataset.viewer !== document.body.dataset.viewer) return replacePage();
	sync(Number(fresh.body.dataset.now));
	const areas = wide ? "[data-region], #live, #age" : "[data-region]";
	const end = byId("talk") && innerHeight + scrollY > document.body.scrollHeight - 9;
	for (const region of document.querySelectorAll(areas)) {
		const other = fresh.getElementById(region.id);
		if (!other || (region.contains(document.activeElement) && document.activeElement.matches("input, textarea")) || region.querySelector("details[open], [name=item]:checked")) continue;
		const back = keepFocus(region);
		if (region === list) for (const body of list.tBodies) {
			const twin = fresh.getElementById(body.id);
			if (twin) { body.replaceChildren(...twin.childNodes); body.hidden = twin.hidden; }
		} else region.replaceChildren(...other.childNodes);
		back();
	}
	// History: rows of calls without an outcome.
	for (const row of document.querySelectorAll("#calls tr:has(.pill:is(.ringing, .dialling, .talking, .on_hold, .ended))")) {
		const twin = fresh.getElementById(row.id), back = keepFocus(row);
		if (!twin) continue;
		twin.ariaSelected = row.ariaSelected;
		row.replaceWith(twin);
		back();
	}
	countNewCalls(fresh);
	for (const badge of document.querySelectorAll("[data-count]")) {
		const other = fresh.querySelector(`[data-count="${badge.dataset.count}"]`);
		if (other) badge.textContent = other.textContent;
	}
	if (wide) { last = fresh.body.dataset.change; document.title = fresh.title; wide = false; }
	// Keep the newest message in view, above the form.
	if (end) scrollTo(0, document.body.scrollHeight);
	showAnswerForms();
	tick();
	markSeen();
}

// In sequence, or an old response could replace a new one.
export const refresh = (all) => { queue = queue.finally(() => update(all)); };
const refreshSoon = (ms = 800) => {
	refreshing ||= setTimeout(() => { queue = queue.finally(() => { refreshing = null; return update(); }); }, ms);
};

export function applyEvent(name, data, id) {
	if (id) last = id;
	sync(data.now);
	if (name === "reload") return refresh(true);
	if (name === "beat") return showDataAge(data);
	showCounts(data.counts);
	if (name === "call") {
		announce(data.say);
		if (list) { placeRow(parse(`<table>${data.html}`).querySelector("tr")); updateGroups(); refreshSoon(); }
		else if (page === "calls" ? byId(`call-${data.id}`) || (data.ended && showsNewestCalls()) : page === "missed" && (data.ended || isListed(data.party))) refreshSoon();
		refreshCall(data.id);
	} else if (name === "call_gone" && list) { byId(`call-${data.id}`)?.remove(); updateGroups(); }
	else if (name === "call_gone" && document.querySelector(".calling")) refreshSoon();
	else if (name === "note") { refreshCall(data.id); if (byId(`notes-of-${data.id}`)) refreshSoon(); }
	else if ((name === "callback" && page === "missed") || name === "sms" || name === "alert") refreshSoon();
}

function showDataAge({ age, title }) {
	const box = byId("age"), dot = () => box.querySelector(".dot")?.className, before = dot();
	box.replaceChildren(...parse(age).body.childNodes);
	box.title = title;
	// No event reports that a first step is done.
	if (dot() !== before || document.querySelector("#first-steps a")) refreshSoon();
	tick();
}

// Missed: true if the list has this caller.
const isListed = (party) => party && document.querySelector(`tr[data-party="${CSS.escape(party)}"]`);

// Calls: true if new calls can belong to this view.
function showsNewestCalls() {
	const chip = byId("newer");
	return chip && !(chip.dataset.until * 1000 < Date.now());
}

function countNewCalls(fresh) {
	if (!showsNewestCalls()) return;
	const rows = [...fresh.querySelectorAll("#calls tr.row")], isNew = (row) => !byId(row.id);
	const n = rows.slice(0, rows.findLastIndex((row) => !isNew(row)) + 1 || rows.length).filter(isNew).length;
	byId("newer").hidden = !n;
	byId("newer").textContent = n === 1 ? "1 new call" : `${n} new calls`;
	byId("newer").onclick = () => location.reload();
}
