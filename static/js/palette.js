// Results below the search field while the user types (combobox).
import { sendRequest } from "./connection.js";
import { parse } from "./html.js";

let number = 0, timer = 0;

export function start() {
	const input = document.querySelector(".bar .find input"), list = document.getElementById("palette");
	if (!input || !list) return;
	Object.assign(input, { role: "combobox", ariaExpanded: "false", ariaAutoComplete: "list", ariaHasPopup: "listbox" });
	input.setAttribute("aria-controls", list.id);
	const options = () => [...list.querySelectorAll("[role=option]")];
	const active = () => options().find((option) => option.ariaSelected === "true");

	function show(on) {
		list.hidden = !on;
		input.ariaExpanded = String(on);
		if (!on) mark(null);
	}
	function mark(option) {
		for (const other of options()) other.ariaSelected = String(other === option);
		if (option) input.setAttribute("aria-activedescendant", option.id); else input.removeAttribute("aria-activedescendant");
		option?.scrollIntoView({ block: "nearest" });
	}
	async function load() {
		const mine = ++number, query = encodeURIComponent(input.value.trim());
		for (const more of query ? ["", "&more=1"] : [""]) {
			try {
				const answer = await sendRequest(`/palette?q=${query}${more}`);
				const fresh = parse(answer.ok ? await answer.text() : "");
				if (mine !== number || document.activeElement !== input) return;
				if (more) list.append(...fresh.body.children); else list.replaceChildren(...fresh.body.children);
				show(options().length > 0);
			} catch { return; }
		}
		document.getElementById("said").textContent = `${options().length} results`;
	}
	const soon = () => { clearTimeout(timer); timer = setTimeout(load, 80); };

	input.addEventListener("input", soon);
	input.addEventListener("keydown", (event) => {
		const all = options(), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step && list.hidden) soon();
		else if (step) {
			const at = all.indexOf(active());
			mark(all.at(at < 0 && step < 0 ? -1 : (at + step) % all.length));
		} else if (event.key === "Enter" && active()) active().click();
		else if (event.key === "Escape" && !list.hidden) { number++; show(false); }
		else return;
		event.preventDefault();
	});
	input.form.addEventListener("focusout", ({ relatedTarget }) => {
		if (!input.form.contains(relatedTarget)) { number++; clearTimeout(timer); show(false); }
	});
	addEventListener("keydown", (event) => {
		if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
		event.preventDefault();
		input.select();
		load();
	});
}
