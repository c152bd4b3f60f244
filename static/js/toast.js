// Shows a short message, and the node `extra` after it.
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
