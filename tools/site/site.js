// What may be wider than a page scrolls by the keyboard, too; and the dialog of the search has a name.
document$.subscribe(() => {
  for (const wide of document.querySelectorAll("article :is(pre, table, math[display=block])")) wide.tabIndex = 0;
  document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
});
