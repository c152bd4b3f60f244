// Order of columns on the export page, by dragging and by arrow keys.
import { sendRequest } from "./connection.js";
import { parse } from "./html.js";

const REFRESHED = ["rows", "chosen", "preview", "column-sets"];
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

export function start() {
	const form = document.getElementById("export"), list = document.getElementById("order");
	if (!list) return;
	let number = 0;

	async function refresh(all) {
		const url = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`, mine = ++number;
		if (all || !form.querySelector("[name=columns]:checked")) return location.assign(url);
		let answer, page;
		try { answer = await sendRequest(url); page = parse(await answer.text()); } catch { return form.requestSubmit(); }
		if (mine !== number) return;
		if (!answer.ok) return location.assign(url);
		history.replaceState(null, "", url);
		for (const id of REFRESHED) document.getElementById(id).replaceWith(page.getElementById(id));
	}

	function announce(row) {
		const place = [...list.children].indexOf(row) + 1;
		document.getElementById("said").textContent = `${row.textContent.trim()}: ${place} of ${list.children.length}`;
	}

	form.addEventListener("change", ({ target }) => {
		const row = target.name === "columns" && target.checked && target.closest(".others li");
		if (row) { list.append(row); target.focus(); }
		refresh(target.name !== "columns");
	});
	list.addEventListener("keydown", (event) => {
		const step = STEPS[event.key], grip = event.target.closest(".grip");
		if (!step || !grip) return;
		event.preventDefault();
		const row = grip.closest("li"), rows = [...list.children];
		const place = Math.max(0, rows.indexOf(row) + step);
		rows.splice(rows.indexOf(row), 1);
		list.insertBefore(row, rows[place] || null);
		grip.focus();
		announce(row);
		refresh();
	});
	list.addEventListener("pointerdown", (event) => {
		const grip = event.target.closest(".grip"), row = grip?.closest("li");
		if (!row || event.button) return;
		const before = row.nextElementSibling;
		event.preventDefault();
		row.classList.add("held");
		const move = ({ clientX, clientY }) => {
			const over = document.elementFromPoint(clientX, clientY)?.closest("#order li");
			if (!over || over === row) return;
			const follows = row.compareDocumentPosition(over) & Node.DOCUMENT_POSITION_FOLLOWING;
			list.insertBefore(row, follows ? over.nextElementSibling : over);
		};
		const drag = new AbortController(), { signal } = drag;
		const end = () => {
			drag.abort();
			row.classList.remove("held");
			if (row.nextElementSibling !== before) { announce(row); refresh(); }
		};
		// On the window: a capture by the grip ends when its row moves.
		addEventListener("pointermove", move, { signal });
		addEventListener("pointerup", end, { signal });
		addEventListener("pointercancel", end, { signal });
	});
}
