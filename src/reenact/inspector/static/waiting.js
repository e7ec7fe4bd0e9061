// Keys for calls that wait: they move the focus to a button, and never press it.

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const wanted = { a: "button.main", x: "button.no" }[event.key];
  if (!wanted) return;
  const call = event.target.closest(".ask") ?? document.querySelector(".ask[aria-current], .ask.at, .ask");
  const button = call?.querySelector(`.acts ${wanted}`);
  if (!button || button.disabled) return;
  event.preventDefault();
  button.focus();
});
