// Light and dark theme: follows the system until the user chooses; the choice is stored in the browser.

const KEY = "muster.theme";
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** Return whether the page is dark. */
export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

/** Switch between light and dark, and store the choice. */
export function toggleTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem(KEY, root.dataset.theme);
  notify();
}

/** Apply the stored choice. */
export function startTheme() {
  const stored = localStorage.getItem(KEY);
  if (stored) root.dataset.theme = stored;
  prefersDark.addEventListener("change", notify);
  notify();
}

function notify() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  document.dispatchEvent(new CustomEvent("theme-changed"));
}
