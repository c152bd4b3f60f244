// Audio player, also by keyboard and `?t=` of the URL. Legs and transcript follow it; a click on them jumps.
import { isPlainClick } from "./connection.js";
import { duration } from "./timers.js";

let playing = null;
const part = (at, selector) => at.closest("#drawer, main")?.querySelectorAll(selector) || [];

function build(box) {
	const [audio, seek, go, clock, speed] = ["audio", "[type=range]", ".go", ".deck > span", "select"].map((name) => box.querySelector(name)), key = box.dataset.player;
	const length = () => (Number.isFinite(audio.duration) ? audio.duration : Number(box.dataset.seconds) || 0);
	let queued = null, held = false, line;
	const paint = () => {
		const at = queued ?? audio.currentTime;
		seek.max = length() || 1;
		if (!held) seek.value = at;
		box.style.setProperty("--at", `${(100 * seek.value) / seek.max}%`);
		clock.textContent = `${duration(held ? Number(seek.value) : at)} / ${duration(length())}`;
		seek.setAttribute("aria-valuetext", clock.textContent);
		if (at || !audio.paused) follow(at);
	};
	const follow = (at) => {
		const [cursor] = part(box, `[data-cursor="${key}"]`);
		cursor?.setAttribute("transform", `translate(${at * cursor.dataset.step})`);
		const now = [...part(box, `ol[data-of="${key}"] [data-at]`)].findLast((one) => one.dataset.at <= at + 0.05);
		if (now === line) return;
		line?.removeAttribute("aria-current");
		line = now;
		now?.setAttribute("aria-current", "true");
		const list = now?.closest("ol:not(:hover)");
		if (list) list.scrollTop = now.offsetTop - list.clientHeight / 2;
	};
	const to = (seconds) => {
		const at = Math.min(Math.max(0, seconds), length() || seconds);
		if (audio.readyState) { audio.currentTime = at; queued = null; } else { queued = at; if (audio.preload === "none") { audio.preload = "metadata"; audio.load(); } }
		paint();
	};
	const step = (seconds) => to((queued ?? audio.currentTime) + seconds);
	// The event "error" shows a failure; another recording aborts the start of the one before.
	const toggle = () => { if (audio.paused) { if (playing !== api) playing.audio.pause(); playing = api; audio.play().catch(() => {}); } else audio.pause(); };
	const load = (src, seconds) => { box.dataset.seconds = seconds; queued = null; clock.className = ""; audio.src = src; paint(); };
	const api = { audio, toggle, step, to, load };
	const shows = (name, label) => () => { go.querySelector("use").setAttribute("href", `/static/icons.svg#${name}`); go.ariaLabel = go.title = label; };

	const on = { play: shows("hold", "Pause (space)"), pause: shows("play", "Play (space)"), timeupdate: paint };
	on.loadedmetadata = () => { if (queued !== null) { audio.currentTime = queued; queued = null; } paint(); };
	on.error = () => { clock.textContent = "Cannot play this recording"; clock.className = "bad"; };
	for (const [name, does] of Object.entries(on)) audio.addEventListener(name, does);
	seek.addEventListener("input", () => { held = true; paint(); });
	seek.addEventListener("change", () => { held = false; to(Number(seek.value)); });
	speed.addEventListener("change", () => { audio.playbackRate = audio.defaultPlaybackRate = Number(speed.value); });
	box.addEventListener("click", ({ target }) => {
		const button = target.closest("[data-step]");
		if (button === go) toggle(); else if (button) step(Number(button.dataset.step));
	});
	paint();
	return api;
}

const seconds = (text) => (text || "").split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

// By keyboard, a bar jumps to its start.
function jump(event) {
	const spot = event.target.closest("[data-at]"), key = spot?.closest("[data-of]")?.dataset.of;
	const deck = key && part(spot, `[data-player="${key}"]`)[0]?.deck;
	if (!deck || event.ctrlKey || event.metaKey || String(getSelection())) return;
	event.preventDefault();
	const { left, width } = spot.getBoundingClientRect(), { at, for: seconds } = spot.dataset;
	deck.to(Number(at) + (event.detail && seconds ? seconds * (event.clientX - left) / width : 0));
}

// A list has one player at its foot. Without scripts its links open the files.
function cue(event) {
	const link = event.target.closest("[data-play]"), box = document.querySelector(".player.foot");
	if (!link || !box?.deck || !isPlainClick(event)) return;
	event.preventDefault();
	if (!link.ariaCurrent) {
		for (const other of document.querySelectorAll("[data-play][aria-current]")) other.removeAttribute("aria-current");
		link.ariaCurrent = "true";
		const name = link.closest("tr").querySelector(".name"), title = box.querySelector(".top a");
		title.textContent = name.textContent;
		if (name.href) title.href = name.href; else title.removeAttribute("href");
		box.hidden = false;
		box.deck.load(link.href, link.dataset.play);
	}
	box.deck.toggle();
}

export function start(root) {
	// The first one has the keys.
	for (const box of [...root.querySelectorAll("[data-player]:has(audio)")].reverse()) if (!box.deck) playing = box.deck = build(box);
	if (root !== document) return;
	const at = seconds(new URLSearchParams(location.search).get("t"));
	if (at > 0) playing?.to(at);
	addEventListener("click", jump);
	addEventListener("click", cue);
	addEventListener("keydown", (event) => {
		if (!playing?.audio.isConnected || event.target.closest("input, textarea, select, button, a, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
		if (event.key === " ") { event.preventDefault(); playing.toggle(); }
		else if (event.key === "ArrowLeft") playing.step(-10);
		else if (event.key === "ArrowRight") playing.step(10);
	});
}
