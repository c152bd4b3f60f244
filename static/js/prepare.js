// Downloads a file without a page change, and shows on its button that it is being prepared.
import { sendRequest, probeServer, isPlainClick } from "./connection.js";
import { toast } from "./toast.js";

const thousands = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

function save(blob, header) {
	const link = document.createElement("a");
	link.href = URL.createObjectURL(blob);
	link.download = /filename="?([^";]*)/.exec(header || "")?.[1] || "";
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Returns after the download has begun. `show` shows the state.
async function download(url, show) {
	const answer = await sendRequest(url);
	if (!answer.ok) return toast((await answer.json()).message, true);
	if (answer.status !== 202) return save(await answer.blob(), answer.headers.get("Content-Disposition"));
	let job = await answer.json();
	while (job.state === "waiting" || job.state === "running") {
		show(job);
		await new Promise((done) => setTimeout(done, 1000));
		job = await (await sendRequest(answer.headers.get("Location"))).json();
	}
	if (job.state === "done") return location.assign(job.file);
	toast(job.error || job.message || "The export was cancelled.", true);
}

async function prepare(button, url) {
	const text = button.lastChild, label = text.textContent;
	button.ariaBusy = "true";
	text.textContent = " Preparing …";
	let announced = false;
	try {
		await download(url, ({ state, done, total }) => {
			text.textContent = state === "waiting" ? ` Queued, ${thousands(total)} rows …` : ` Preparing ${thousands(done)} of ${thousands(total)} rows …`;
			if (!announced) document.getElementById("said").textContent = `${label.trim()}: preparing ${thousands(total)} rows`;
			announced = true;
		});
	} catch {
		toast("No connection. Large files are still prepared, and appear in Exports.", true);
		probeServer();
	}
	text.textContent = label;
	button.ariaBusy = null;
}

export function start() {
	addEventListener("click", (event) => {
		const button = event.target.closest("[data-prepare]");
		if (!button || !isPlainClick(event)) return;
		event.preventDefault();
		if (button.ariaBusy) return;
		prepare(button, button.href || `${button.formAction}?${new URLSearchParams(new FormData(button.form, button))}`);
	});
}
