// A plain script in the head: runs before the first paint, so that nothing flashes.
(() => {
	const root = document.documentElement;
	const dark = matchMedia("(prefers-color-scheme: dark)");
	// Preferences, stored in this browser.
	window.kept = {
		get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
		set: (name, value) => { try { if (value) localStorage.setItem(name, value); else localStorage.removeItem(name); } catch { /* private */ } },
	};
	const apply = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
	apply(kept.get("theme"));
	addEventListener("storage", (event) => { if (event.key === "theme") apply(event.newValue); });
	window.switchTheme = () => {
		const choice = (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
		// The theme of the system is not stored, so later changes of it apply.
		const theme = (choice === "dark") === dark.matches ? null : choice;
		kept.set("theme", theme);
		apply(theme);
	};
})();
