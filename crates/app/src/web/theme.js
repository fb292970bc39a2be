// Sets the chosen colours before anything is painted, so that nothing flashes.
// A classic script on purpose: modules run only after the page has been read.
(() => {
  const KEY = "unspent.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // Storage may be refused; the system's choice holds then.
  }
  const isDark = () => (chosen ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    root.dataset.theme = isDark() ? "dark" : "light";
  };
  show();
  system.addEventListener("change", show);
  // The button isn't there yet when this runs.
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    chosen = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // Kept for this page alone.
    }
    show();
  });
})();
