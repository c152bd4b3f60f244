// Shows the next delivery while a schedule is filled in.
import { sendRequest } from "./connection.js";
import { parse } from "./html.js";

export function start() {
	const form = document.getElementById("schedule");
	if (!form) return;
	let number = 0;
	form.addEventListener("input", async ({ target }) => {
		const values = new FormData(form), mine = ++number;
		for (const secret of ["csrf_token", "secret", "place"]) values.delete(secret);
		// Another export has other columns and fields.
		if (target.name === "export") for (const name of ["columns", "set", "filter", "sort", "dir"]) values.delete(name);
		const url = `${location.pathname}?${new URLSearchParams(values)}`;
		if (target.name === "export") return location.assign(url);
		try {
			const next = parse(await (await sendRequest(url)).text()).getElementById("next");
			if (next && mine === number) document.getElementById("next").replaceChildren(...next.childNodes);
		} catch { /* The next change tries again. */ }
	});
}
