// Before the first paint, so that nothing flashes: hence a plain script in the head.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // What this browser remembers of a person's wishes; a private window remembers nothing.
  window.kept = {
    get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
    set: (name, value) => { try { if (value) localStorage.setItem(name, value); else localStorage.removeItem(name); } catch { /* private */ } },
  };
  const apply = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  apply(kept.get("theme"));
  addEventListener("storage", (event) => { if (event.key === "theme") apply(event.newValue); });
  window.switchTheme = () => {
    const wanted = (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    // Choosing what the system has anyway means following the system again.
    const theme = (wanted === "dark") === dark.matches ? null : wanted;
    kept.set("theme", theme);
    apply(theme);
  };
})();
