// Optional sound and desktop notification of a ringing call.
let lastRinging = null;

function playSound() {
	const context = new AudioContext();
	const gain = new GainNode(context, { gain: 0.08 });
	gain.connect(context.destination);
	for (const [at, frequency] of [[0, 660], [0.18, 880]]) {
		const tone = new OscillatorNode(context, { frequency });
		tone.connect(gain);
		tone.start(context.currentTime + at);
		tone.stop(context.currentTime + at + 0.14);
	}
	setTimeout(() => context.close(), 1000);
}

function openCall(data) {
	focus();
	if (kept.get("bell-crm") && data.crm) open(data.crm, "_blank", "noopener,noreferrer");
	else location.assign(`/calls/${data.id}`);
}

export function ring(data) {
	if (!data.say || lastRinging === data.id) return;
	lastRinging = data.id;
	if (kept.get("bell-sound")) playSound();
	if (kept.get("bell-notice") && Notification.permission === "granted") new Notification(data.say, { tag: `call-${data.id}`, icon: "/static/icon.svg" }).onclick = () => openCall(data);
}

export function start() {
	for (const box of document.querySelectorAll("[data-bell]")) {
		const name = `bell-${box.dataset.bell}`;
		box.checked = kept.get(name);
		box.addEventListener("change", async () => {
			if (box.checked && box.dataset.bell === "notice" && (!("Notification" in window) || await Notification.requestPermission() !== "granted")) box.checked = false;
			if (box.checked && box.dataset.bell === "sound") playSound();
			kept.set(name, box.checked && "1");
		});
	}
}
