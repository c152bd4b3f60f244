// Reloads every 5 s; shows a warning while the server does not respond.
import { parse } from "./html.js";
import { lost, start, sync } from "./timers.js";

async function reload() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw answer.status;
    const fresh = parse(await answer.text());
    sync(Number(fresh.body.dataset.now));
    document.getElementById("wall").replaceChildren(...fresh.getElementById("wall").childNodes);
    lost(false);
  } catch { lost(true); }
  setTimeout(reload, 5000);
}

start();
setTimeout(reload, 5000);
