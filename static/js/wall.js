// Reloads every 5 s; warns while the server does not respond. Moves the figures against burn-in.
import { parse } from "./html.js";
import { showSilence, start, sync } from "./timers.js";

const wall = document.getElementById("wall");
const SHIFT = 6, CYCLE = 8; // pixels; minutes of one round

async function reload() {
	try {
		const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(8000) });
		if (answer.status === 404) return location.reload(); // revoked
		if (!answer.ok) throw answer.status;
		const fresh = parse(await answer.text());
		sync(Number(fresh.body.dataset.now));
		wall.replaceChildren(...fresh.getElementById("wall").childNodes);
		showSilence(false);
	} catch { showSilence(true); }
	shift();
	setTimeout(reload, 5000);
}

// A place on a circle for each minute.
function shift() {
	const turn = (2 * Math.PI * Math.floor(Date.now() / 60_000)) / CYCLE;
	wall.style.translate = `${Math.round(SHIFT * Math.cos(turn))}px ${Math.round(SHIFT * Math.sin(turn))}px`;
}

document.querySelector("[data-action=screen]").addEventListener("click", () => document.documentElement.requestFullscreen());
start();
shift();
setTimeout(reload, 5000);
