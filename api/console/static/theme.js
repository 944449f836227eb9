// Light or dark follows the system until somebody says otherwise; what was said is kept on this machine.

const KEY = "muster.theme";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** Tell whether the page is dark now. */
export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

/** Change from light to dark or back. */
export function toggleTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem(KEY, root.dataset.theme);
  tell();
}

/** Put the kept choice into force. */
export function startTheme() {
  const kept = localStorage.getItem(KEY);
  if (kept) root.dataset.theme = kept;
  prefersDark.addEventListener("change", tell);
  tell();
}

function tell() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  document.dispatchEvent(new CustomEvent("theme-changed"));
}
