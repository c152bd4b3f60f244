// Runs before the first paint. The dashboard stores the choice between light and dark under this name.
(() => {
  try {
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { /* a private window, or a file */ }
})();
