// Everything can be read without this: it only sorts and filters tables, folds the contents on a phone, and opens what is
// folded when it is linked to or printed.
const number = (text) => {
  const found = text.replace(/,(?=\d{3})/g, "").replace("±", "").match(/-?\d+(\.\d+)?(e-?\d+)?/);
  return found && text.trim() !== "-" ? Number(found[0]) : NaN;
};

for (const table of document.querySelectorAll("table.sorted")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((header, place) => {
    const sort = () => {
      const up = header.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[place].textContent.trim();
      const rows = [...body.rows];
      const numeric = rows.some((row) => !Number.isNaN(number(key(row)))) && header.classList.contains("number");
      rows.sort((a, b) => {
        if (!numeric) return (up ? 1 : -1) * key(a).localeCompare(key(b), "en", { numeric: true });
        const [x, y] = [number(key(a)), number(key(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // what is missing stays last
        return (up ? 1 : -1) * (x - y);
      });
      body.append(...rows);
    };
    header.append(h("button", { type: "button", onclick: sort }, [...header.childNodes]));
  });
  if (body.rows.length < 8) continue;
  const filter = h("input", {
    class: "filter", type: "search", placeholder: "filter rows", "aria-label": "filter rows of this table",
    oninput: () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    },
  });
  table.closest(".wide").before(filter);
}

if (matchMedia("(max-width: 80rem)").matches) document.querySelector("nav details").open = false;

const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => document.querySelectorAll("details.printed").forEach((each) => { each.open = true; }));
