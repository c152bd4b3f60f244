// Receives changes: one stream for all tabs of a browser, by the tab that holds the lock. Over plain HTTP there
// are no locks, so each tab has its own stream, and the server allows four. A tab without a stream polls.
import { ring } from "./ringing.js";
import { probeServer, replacePage } from "./connection.js";
import { last, refresh, applyEvent } from "./live.js";
import { showSilence } from "./timers.js";

const EVENTS = ["call", "call_gone", "note", "sms", "callback", "alert", "reload", "beat"];
const POLL = 15_000, BEAT = 20_000, SILENT = 40_000;
const channel = new BroadcastChannel("switchroom");
let polling = null, reading = false, alive = Date.now();

const post = (message) => channel.postMessage(message);
const load = () => { if (!document.hidden) refresh(true); };

// The bar shows "Live" while changes arrive, "Every 15 s" while the page polls, else the age of the data.
const showStream = (yes) => document.body.toggleAttribute("data-flowing", yes);
const flows = () => "flowing" in document.body.dataset;

function poll(on) {
	document.body.toggleAttribute("data-polling", on);
	if (on && !polling) { load(); polling = setInterval(load, POLL); }
	if (!on) { clearInterval(polling); polling = null; showSilence(false); }
}

function read() {
	reading = true;
	// `full`: the server ended this stream for those of newer tabs. Then it is opened when a place is free.
	let failed = 0, full = false, source, retry;
	function connect() {
		clearTimeout(retry);
		alive = Date.now();
		source = new EventSource(`/live/stream?${new URLSearchParams({ after: last, viewer: document.body.dataset.viewer })}${full ? "&free" : ""}`);
		source.onopen = () => { failed = 0; full = false; showStream(true); post({ name: "open" }); poll(false); };
		for (const name of EVENTS) source.addEventListener(name, (event) => {
			alive = Date.now();
			const message = { name, data: JSON.parse(event.data), id: event.lastEventId };
			post(message);
			ring(message.data);
			applyEvent(message.name, message.data, message.id);
		});
		source.addEventListener("replaced", () => { full = true; startPolling(); wait(POLL); });
		source.onerror = () => {
			if (full) return wait(POLL);
			failed += 1;
			post({ name: "down" });
			probeServer();
			if (failed > 1) startPolling();
			// With jitter, unlike EventSource, to spread the load after a restart.
			wait(Math.min(30_000, 500 * 2 ** failed));
		};
	}
	function startPolling() { showStream(false); poll(true); post({ name: "poll" }); }
	function wait(ms) {
		source.close();
		showStream(false);
		clearTimeout(retry);
		retry = setTimeout(connect, ms * (0.5 + Math.random()));
	}
	connect();
	addEventListener("pagehide", () => { source.close(); post({ name: "down" }); });
	addEventListener("connected", () => { if (source.readyState === EventSource.CLOSED) connect(); });
	// The tab that a user opens takes the place of the oldest.
	addEventListener("visibilitychange", () => { if (full && !document.hidden) { full = false; connect(); } });
	// Connections can fail without an error (sleep): reconnect without heartbeat.
	setInterval(() => { if (source.readyState !== EventSource.CLOSED && Date.now() - alive > SILENT) source.onerror(); }, 5000);
}

// A tab with an own stream needs what others receive only while it has none.
function receive({ data: { name, data, id } }) {
	if (EVENTS.includes(name)) { if (!reading || !flows()) { alive = Date.now(); applyEvent(name, data, id); } }
	else if (name === "hello") { if (reading) post({ name: "at", id: last, data: flows() }); }
	else if (reading) return;
	else if (name === "open") { showStream(true); poll(false); }
	else if (name === "down") { showStream(false); probeServer(); }
	else if (name === "poll") { showStream(false); poll(true); }
	else if (name === "at") { showStream(data); if (id !== last) refresh(true); }
}

export function start() {
	channel.onmessage = receive;
	// Changes since the server rendered this page were not received.
	post({ name: "hello" });
	if (navigator.locks) navigator.locks.request("switchroom-stream", () => new Promise(read));
	else read();
	// A page in the background polls not at all, and its stream may have ended without an error.
	addEventListener("visibilitychange", () => { if (polling || Date.now() - alive > BEAT) load(); });
	// A browser may show the page again by Back, after a logout too.
	addEventListener("pagehide", ({ persisted }) => { if (persisted) document.body.textContent = ""; });
	addEventListener("pageshow", ({ persisted }) => { if (persisted) replacePage(); });
}
