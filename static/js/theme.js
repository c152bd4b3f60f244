// Before the first paint, so that nothing flashes: hence a plain script in the head.
(() => {
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const apply = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  apply(read());
  addEventListener("storage", (event) => { if (event.key === "theme") apply(event.newValue); });
  window.switchTheme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    // Choosing what the system has anyway means following the system again.
    const wanted = dark ? "light" : "dark";
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const theme = wanted === system ? null : wanted;
    try { if (theme) localStorage.setItem("theme", theme); else localStorage.removeItem("theme"); } catch { /* private mode */ }
    apply(theme);
  };
})();
