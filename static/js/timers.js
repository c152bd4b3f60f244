// Timers by the server's clock, because the local clock may be wrong.
let ahead = Date.now() - Number(document.body.dataset.now || Date.now());

export const sync = (now) => { if (now) ahead = Date.now() - now; };
export const serverSeconds = () => (Date.now() - ahead) / 1000;

const padNumber = (n) => String(n).padStart(2, "0");
export function duration(seconds) {
	const total = Math.max(0, Math.floor(seconds));
	const h = Math.floor(total / 3600), m = Math.floor((total % 3600) / 60), s = total % 60;
	return h ? `${h}:${padNumber(m)}:${padNumber(s)}` : `${m}:${padNumber(s)}`;
}

function formatAge(seconds) {
	const total = Math.max(0, Math.floor(seconds));
	for (const [size, word] of [[86400, "d"], [3600, "h"], [60, "min"]])
		if (total >= size) return `${Math.floor(total / size)} ${word}`;
	return `${total} s`;
}

export function tick() {
	const now = serverSeconds();
	for (const el of document.querySelectorAll("[data-since]")) {
		const seconds = now - Number(el.dataset.since);
		const text = duration(seconds);
		if (el.textContent !== text) el.textContent = text;
		const [amber, red] = (el.dataset.limits || "").split(" ").map(Number);
		el.classList.toggle("red", red > 0 && seconds >= red);
		el.classList.toggle("amber", amber > 0 && seconds >= amber && !(red > 0 && seconds >= red));
	}
	for (const el of document.querySelectorAll("[data-ago]")) {
		const text = formatAge(now - Number(el.dataset.ago));
		if (el.textContent !== text) el.textContent = text;
	}
}

// Shows for how long the server has not responded. Each reason ends separately.
const reasons = new Set();
let silent = null;
export function showSilence(yes, reason = "page") {
	const box = document.getElementById("disconnected");
	if (!box) return; // The page is being replaced.
	if (yes) reasons.add(reason); else reasons.delete(reason);
	silent = reasons.size ? silent ?? serverSeconds() : null;
	box.hidden = !reasons.size;
	document.body.toggleAttribute("data-disconnected", reasons.size > 0);
	if (reasons.size) box.firstElementChild.dataset.since = silent;
	tick();
}

export function start() {
	tick();
	// At full seconds of the server, so that all timers change together.
	const next = () => setTimeout(() => { tick(); next(); }, 1000 - ((Date.now() - ahead) % 1000) + 5);
	next();
	addEventListener("visibilitychange", tick);
}
