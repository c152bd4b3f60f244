// Audio player: seek, 10 s back and forward, speed, elapsed time, `?t=` of the URL, keyboard.
import { duration } from "./timers.js";

let playing = null;

function build(box) {
  const [audio, seek, go, clock, speed] = ["audio", "[type=range]", ".go", ".deck > span", "select"].map((part) => box.querySelector(part));
  const length = () => (Number.isFinite(audio.duration) ? audio.duration : Number(box.dataset.seconds) || 0);
  let queued = null, held = false;
  const paint = () => {
    const at = queued ?? audio.currentTime;
    seek.max = length() || 1;
    if (!held) seek.value = at;
    seek.style.setProperty("--at", `${(100 * seek.value) / seek.max}%`);
    clock.textContent = `${duration(held ? Number(seek.value) : at)} / ${duration(length())}`;
    seek.setAttribute("aria-valuetext", clock.textContent);
  };
  const to = (seconds) => {
    const at = Math.min(Math.max(0, seconds), length() || seconds);
    if (audio.readyState) { audio.currentTime = at; queued = null; } else { queued = at; if (audio.preload === "none") { audio.preload = "metadata"; audio.load(); } }
    paint();
  };
  const step = (seconds) => to((queued ?? audio.currentTime) + seconds);
  const toggle = () => { if (audio.paused) { if (playing !== api) playing.audio.pause(); playing = api; audio.play(); } else audio.pause(); };
  const api = { audio, toggle, step, to };
  const shows = (name, label) => () => { go.querySelector("use").setAttribute("href", `/static/icons.svg#${name}`); go.ariaLabel = go.title = label; };

  const on = { play: shows("hold", "Pause (space)"), pause: shows("play", "Play (space)"), timeupdate: paint };
  on.loadedmetadata = () => { if (queued !== null) { audio.currentTime = queued; queued = null; } paint(); };
  on.error = () => { clock.textContent = "Cannot play this recording"; clock.className = "bad"; };
  for (const [name, does] of Object.entries(on)) audio.addEventListener(name, does);
  seek.addEventListener("input", () => { held = true; paint(); });
  seek.addEventListener("change", () => { held = false; to(Number(seek.value)); });
  speed.addEventListener("change", () => { audio.playbackRate = Number(speed.value); });
  box.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-step]");
    if (button === go) toggle(); else if (button) step(Number(button.dataset.step));
  });
  paint();
  return api;
}

const seconds = (text) => (text || "").split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

export function start(root) {
  const decks = [...root.querySelectorAll("[data-player]:has(audio)")].map(build);
  if (!decks.length) return;
  playing = decks[0];
  const at = seconds(new URLSearchParams(location.search).get("t"));
  if (at > 0) decks[0].to(at);
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select, button, a, summary") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " ") { event.preventDefault(); playing.toggle(); }
    else if (event.key === "ArrowLeft") playing.step(-10);
    else if (event.key === "ArrowRight") playing.step(10);
  });
}
