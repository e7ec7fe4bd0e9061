// Follows the log while its list of sessions is looked at: rows change where they stand, and new sessions are announced.

const INTERVAL = 2000;
const sign = document.getElementById("following");
const list = document.getElementById("list");
let position = null;
let held = false;
let since = null;

function say() {
  const chip = document.createElement("span");
  chip.className = `chip ${since === null && !held ? "live" : ""}`;
  if (since !== null) {
    chip.classList.add("failed");
    chip.textContent = `not following since ${since}`;
  } else if (held) {
    chip.textContent = "held";
  } else {
    const pulse = document.createElement("span");
    pulse.className = "pulse";
    chip.append(pulse, "following");
  }
  sign.replaceChildren(chip);
  sign.hidden = false;
}

async function look() {
  if (held || document.hidden) return;
  const before = since;
  try {
    const answer = await fetch(`${document.body.dataset.base}/head`);
    if (!answer.ok) throw new Error(answer.statusText);
    const head = (await answer.json()).position;
    since = null;
    if (position !== null && head !== position) {
      if (list) window.htmx.trigger("#list", "moved");
      else if (!document.activeElement?.matches("input, select")) location.reload(); // the first sessions have come
    }
    position = head;
  } catch {
    since ??= new Date().toTimeString().slice(0, 8);
  }
  if (before !== since) say();
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  held = !held;
  say();
  look();
});

say();
look();
setInterval(look, INTERVAL);
