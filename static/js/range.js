// Dragging over the bars above Calls opens their days.
export function start() {
	const chart = document.querySelector(".range[data-url]");
	if (!chart) return;
	const slots = [...chart.querySelectorAll(".slot")];
	let begin = -1, end = -1;

	const find = ({ clientX, clientY }) => slots.indexOf(document.elementFromPoint(clientX, clientY)?.closest(".slot"));
	const mark = () => slots.forEach((slot, at) => {
		slot.classList.toggle("held", begin >= 0 && at >= Math.min(begin, end) && at <= Math.max(begin, end));
	});
	chart.addEventListener("dragstart", (event) => event.preventDefault());
	chart.addEventListener("pointerdown", (event) => { if (!event.button) begin = end = find(event); });
	addEventListener("pointermove", (event) => {
		const over = begin < 0 ? -1 : find(event);
		if (over >= 0) { end = over; mark(); }
	});
	addEventListener("pointercancel", () => { begin = -1; mark(); });
	addEventListener("pointerup", () => {
		const [first, last] = [begin, end].sort((a, b) => a - b);
		begin = -1;
		if (first < 0 || first === last) return mark();
		// The click that follows would open a single bar.
		addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
		const url = new URL(chart.dataset.url, location);
		url.searchParams.set("from", slots[first].dataset.first);
		url.searchParams.set("to", slots[last].dataset.last);
		location.assign(url);
	});
}
