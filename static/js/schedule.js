// Shows the next delivery of the form of a schedule while it is filled in.
import { parse } from "./html.js";

const PRIVATE = ["csrf_token", "secret", "place"];

export function start() {
  const form = document.getElementById("schedule");
  if (!form) return;
  let number = 0;
  form.addEventListener("input", async ({ target }) => {
    const values = new FormData(form), mine = ++number;
    for (const name of PRIVATE) values.delete(name);
    const url = `${location.pathname}?${new URLSearchParams(values)}`;
    if (target.name === "export") return location.assign(url);
    try {
      const answer = await fetch(url);
      const next = parse(await answer.text()).getElementById("next");
      if (next && mine === number) document.getElementById("next").replaceChildren(...next.childNodes);
    } catch { /* The next change tries again. */ }
  });
}
