// Probes a server that does not respond, and then does what waited for it.
import { showSilence } from "./timers.js";
import { toast } from "./toast.js";

export const UNSENT = "No connection. Nothing was sent, and your input is still here. Send it when the connection is back.";
const LONGEST = 8000;
const waiting = new Map();
let isDown = false, probing = false, failed = 0;

export const isDisconnected = () => isDown;

// Calls `action` when the server responds. A later action of the same name replaces it, null removes it.
export function whenConnected(name, action) {
	if (action) waiting.set(name, action); else waiting.delete(name);
}

export function probeServer() {
	if (probing) return;
	probing = true;
	probe();
}

async function probe() {
	try {
		const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5000) });
		if (!answer.ok) throw answer.status;
	} catch {
		isDown = true;
		showSilence(true, "server");
		failed += 1;
		return void setTimeout(probe, Math.min(LONGEST, 500 * 2 ** failed) * (0.5 + Math.random() / 2));
	}
	const wasDown = isDown;
	isDown = false;
	failed = 0;
	// Wait after each failure, or repetitions never end.
	if (!wasDown) await new Promise((done) => setTimeout(done, 1000));
	probing = false;
	showSilence(false, "server");
	const actions = [...waiting.values()];
	waiting.clear();
	for (const action of actions) action();
	if (wasDown) dispatchEvent(new Event("connected"));
}

// Without the fragment: a page that loads its own URL with one only scrolls.
export const currentPath = () => location.pathname + location.search;

// Replaces a page that its user may not see any more. Its data do not stay if `url` cannot be loaded.
export function replacePage(url = currentPath(), text = "No longer available") {
	document.title = document.body.textContent = text;
	location.replace(url);
}

// Sends a request of a script, which never returns after the end of the session.
export async function sendRequest(url, options = {}) {
	const answer = await fetch(url, { ...options, headers: { Accept: "application/json" } });
	if (answer.status !== 401) return answer;
	replacePage(`/login?ended&next=${encodeURIComponent(currentPath())}`, "Logged out");
	return new Promise(() => {});
}

// True while a form has text that was not sent.
export const hasUnsentText = (part) => [...part.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio], [type=range]), textarea")].some((field) => field.form?.method === "post" && field.value !== field.defaultValue);

// False for clicks that open a new tab or were handled.
export const isPlainClick = (event) => !(event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

function openLater(open) {
	if (hasUnsentText(document)) return toast("No connection. This page stays open, because it has text that was not sent.", true);
	toast("No connection. The page opens when the server responds.", true);
	whenConnected("open", open);
}

export function openPage(url) {
	const open = () => location.assign(url);
	if (isDown) openLater(open); else open();
}

export function start() {
	addEventListener("click", (event) => {
		const link = isDown && isPlainClick(event) && event.target.closest("a[href]");
		if (!link || link.origin !== location.origin || link.target || (link.hash && link.pathname + link.search === location.pathname + location.search)) return;
		event.preventDefault();
		openPage(link.href);
	});
	addEventListener("submit", (event) => {
		const form = event.target;
		if (!isDown || event.defaultPrevented) return;
		event.preventDefault();
		if (form.method === "get") return openLater(() => form.submit());
		toast(UNSENT, true);
	});
	addEventListener("offline", probeServer);
}
