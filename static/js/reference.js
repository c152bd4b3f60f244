// Page /docs: sends requests with the key that the user enters, which stays in the page.
const SHOWN = 100_000; // characters of a response
const NAMED = ["Content-Type", "X-Mirror-Age", "X-Mirror-Complete", "ETag", "Retry-After"];
const [key, base] = document.querySelectorAll("#key, #base");

function build(form) {
	// Without a Cache-Control of its own such a request has `no-cache`, which reads from the platform.
	const headers = { "Cache-Control": "no-store" };
	const request = { method: form.dataset.method, headers, credentials: "omit", cache: "no-store" };
	const query = new URLSearchParams();
	let path = form.dataset.path;
	for (const { name, value, dataset } of form.querySelectorAll("[data-in]")) {
		if (dataset.in === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
		else if (!value) continue;
		else if (dataset.in === "query") query.set(name, value);
		else if (dataset.in === "header") headers[name] = value;
		else {
			request.body = value;
			headers["Content-Type"] = "application/json";
		}
	}
	const secret = key.value.trim().split(":").pop();
	if (secret) headers["X-Auth-Token"] = secret;
	const server = "own" in form.dataset ? "" : base.value;
	return [`${server}${path}${query.size ? "?" : ""}${query}`, request];
}

async function describe(response) {
	const lines = [`${response.status} ${response.statusText}`];
	for (const name of NAMED) if (response.headers.has(name)) lines.push(`${name}: ${response.headers.get(name)}`);
	lines.push("");
	if (/json|text/.test(response.headers.get("Content-Type"))) {
		let text = await response.text();
		try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as received */ }
		lines.push(text.slice(0, SHOWN));
		if (text.length > SHOWN) lines.push(`… ${text.length - SHOWN} more characters`);
	} else {
		const { size } = await response.blob();
		lines.push(size ? `${size.toLocaleString("en")} bytes` : "no body");
	}
	return lines.join("\n");
}

addEventListener("submit", async (event) => {
	const form = event.target;
	event.preventDefault();
	if (!form.dataset.method) return;
	const [button, output] = form.querySelectorAll("button, output");
	output.hidden = false;
	if (!key.value.trim() && !("public" in form.dataset)) return void (output.textContent = "Enter a key at the top of this page first.");
	const [url, request] = build(form);
	const show = (text) => { output.textContent = `${request.method} ${url}\n${text}`; };
	show("…");
	button.disabled = true;
	try { show(`\n${await describe(await fetch(url, request))}`); }
	catch { show("\nNo response. Check the connection to the server, then send the request again."); }
	button.disabled = false;
});
