// Asks for itself again every few seconds, for ever; says so while nobody answers.
import { start, sync, tick } from "./timers.js";

const lost = document.getElementById("lost");
let since = null;

async function again() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw answer.status;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    sync(Number(fresh.body.dataset.now));
    document.getElementById("wall").replaceChildren(...fresh.getElementById("wall").childNodes);
    since = null;
    tick();
  } catch {
    since ||= new Date().toTimeString().slice(0, 5);
    lost.lastElementChild?.replaceChildren(since);
  }
  lost.hidden = !since;
  setTimeout(again, 5000);
}

start();
setTimeout(again, 5000);
