// Shows a short message. `extra` is a node after it, such as a form that undoes the action.
let timer;
export function toast(text, bad, extra) {
  const box = document.getElementById("toast");
  box.textContent = text;
  if (extra) box.append(extra);
  box.classList.toggle("bad", Boolean(bad));
  box.hidden = !text;
  clearTimeout(timer);
  timer = setTimeout(() => { box.hidden = true; }, bad || extra ? 12_000 : 4_000);
}
