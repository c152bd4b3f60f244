// Sends forms without leaving the page and shows the result.
import { UNSENT, sendRequest, isDisconnected, probeServer, whenConnected } from "./connection.js";
import { refreshCall, getOpenCall } from "./drawer.js";
import { parse } from "./html.js";
import { refresh } from "./live.js";
import { toast } from "./toast.js";

// A form with the token of `form` that posts to `action`.
function makeForm(form, { action, label }) {
	const other = parse('<form class="inline" method="post" data-act data-repeat><button class="button small">').forms[0];
	other.action = action;
	other.lastChild.textContent = label;
	other.prepend(form.csrf_token.cloneNode());
	return other;
}

// A copy of `form` with more fields, and a button for a second click.
function makeConfirmation(form, { label, fields }) {
	const copy = form.cloneNode(true);
	copy.ariaBusy = null;
	copy.className = "inline";
	const entered = new FormData(form);
	const send = Object.assign(document.createElement("button"), { className: "button small", textContent: label });
	copy.replaceChildren(...[...entered, ...Object.entries(fields)].map(([name, value]) =>
		Object.assign(document.createElement("input"), { type: "hidden", name, value })), send);
	return copy;
}

const post = (form, submitter) => sendRequest(form.action, { method: "POST", body: new FormData(form, submitter) });

function submit(event) {
	const form = event.target.closest("form[data-act]");
	if (!form) return;
	event.preventDefault();
	if (form.ariaBusy) return;
	form.ariaBusy = "true";
	toast("Sending …");
	send(form, event.submitter);
}

// Only forms with `data-repeat`, which have the same effect twice, are sent a second time.
async function send(form, submitter) {
	const repeat = "repeat" in form.dataset;
	try {
		if (isDisconnected()) throw 0;
		const data = await (await post(form, submitter)).json();
		if (data.location) return location.assign(data.location);
		toast(data.message, !data.done && !data.confirm, data.confirm ? makeConfirmation(form, data.confirm) : data.undo && makeForm(form, data.undo));
		if (data.done) finish(form);
	} catch {
		if (repeat) {
			toast("No connection. This is sent when the server responds.", true);
			whenConnected(form.action, () => send(form, submitter));
			return probeServer();
		}
		toast(isDisconnected() ? UNSENT
			: "No response. Your input is still here. Check whether it worked before you send it again.", true);
		probeServer();
	}
	form.ariaBusy = null;
}

function finish(form) {
	const details = form.closest("details");
	// An update skips a region while the user types in it.
	if ((details || form).contains(document.activeElement)) (details?.firstElementChild || form.closest("#drawer"))?.focus({ preventScroll: true });
	form.reset();
	if (form.once) form.once.value = `${Date.now()}${Math.random()}`;
	details?.removeAttribute("open");
	refreshCall(getOpenCall());
	if (/missed|live|voicemail/.test(document.body.dataset.page)) refresh();
}

export function markSeen() {
	const form = document.querySelector("form.unread");
	if (!form || document.hidden) return;
	post(form).catch(probeServer);
	form.remove();
	const badge = document.querySelector(`[data-count=${form.dataset.of || "messages"}]`);
	badge.textContent = badge.textContent - (form.dataset.seen || 1) || "";
}

export function start() {
	addEventListener("submit", submit);
	addEventListener("visibilitychange", markSeen);
	markSeen();
	document.querySelector("[data-canned]")?.addEventListener("change", ({ target }) => {
		const text = target.selectedOptions[0].dataset.text;
		if (text) target.form.message.value = text;
		target.value = "";
		target.form.message.focus();
	});
}
