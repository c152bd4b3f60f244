// A recording: seek, ten seconds back and forth, speed, elapsed time, `?t=` in the address, keyboard.
import { duration } from "./timers.js";

const SPEEDS = [0.75, 1, 1.25, 1.5, 2];
const icon = (name) => `<svg class="icon" aria-hidden="true"><use href="/static/icons.svg#${name}"/></svg>`;
let playing = null;

function build(box) {
  const audio = box.querySelector("audio");
  const total = Number(box.dataset.seconds) || 0;
  const seek = Object.assign(document.createElement("input"), { type: "range", min: 0, max: total || 1, step: 0.1, value: 0 });
  seek.setAttribute("aria-label", "Position in the recording");
  const deck = document.createElement("div");
  deck.className = "deck";
  const button = (name, label, mark) => {
    const el = Object.assign(document.createElement("button"), { type: "button", className: "ghost" + (mark ? ` ${mark}` : ""), title: label, innerHTML: name });
    el.setAttribute("aria-label", label);
    return deck.appendChild(el);
  };
  const back = button("−10", "Back ten seconds (←)");
  const go = button(icon("play"), "Play (space)", "go");
  const on = button("+10", "On ten seconds (→)");
  const clock = deck.appendChild(document.createElement("span"));
  const speed = deck.appendChild(document.createElement("select"));
  speed.setAttribute("aria-label", "Speed");
  for (const value of SPEEDS) speed.add(new Option(`${value}×`, value, value === 1, value === 1));
  audio.controls = false;
  audio.hidden = true;
  audio.after(seek, deck);

  const length = () => (Number.isFinite(audio.duration) ? audio.duration : total);
  let wanted = null, held = false;
  const paint = () => {
    const at = wanted ?? audio.currentTime;
    seek.max = length() || 1;
    if (!held) seek.value = at;
    seek.style.setProperty("--at", `${(100 * seek.value) / seek.max}%`);
    seek.setAttribute("aria-valuetext", `${duration(at)} of ${duration(length())}`);
    clock.textContent = `${duration(held ? Number(seek.value) : at)} / ${duration(length())}`;
  };
  const to = (seconds) => {
    const at = Math.min(Math.max(0, seconds), length() || seconds);
    if (audio.readyState) { audio.currentTime = at; wanted = null; } else { wanted = at; if (audio.preload === "none") { audio.preload = "metadata"; audio.load(); } }
    paint();
  };
  const toggle = () => { if (audio.paused) { playing && playing !== api && playing.audio.pause(); playing = api; audio.play(); } else audio.pause(); };
  const step = (seconds) => to((wanted ?? audio.currentTime) + seconds);
  const api = { audio, toggle, step };

  audio.addEventListener("loadedmetadata", () => { if (wanted !== null) { audio.currentTime = wanted; wanted = null; } paint(); });
  audio.addEventListener("timeupdate", paint);
  audio.addEventListener("play", () => { go.innerHTML = icon("hold"); go.setAttribute("aria-label", "Pause (space)"); });
  audio.addEventListener("pause", () => { go.innerHTML = icon("play"); go.setAttribute("aria-label", "Play (space)"); });
  audio.addEventListener("error", () => { clock.textContent = "This recording can't be played"; clock.className = "bad"; });
  seek.addEventListener("input", () => { held = true; paint(); });
  seek.addEventListener("change", () => { held = false; to(Number(seek.value)); });
  go.addEventListener("click", toggle);
  back.addEventListener("click", () => step(-10));
  on.addEventListener("click", () => step(10));
  speed.addEventListener("change", () => { audio.playbackRate = Number(speed.value); });
  paint();
  return { ...api, to };
}

const seconds = (text) => (text || "").split(":").reduce((sum, part) => sum * 60 + Number(part), 0);

export function start(root) {
  const decks = [...root.querySelectorAll("[data-player]")].map(build);
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
