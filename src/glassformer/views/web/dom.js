// Elements, and numbers and tokens as text.

/** An element with attributes and children; text children become text nodes, never HTML. */
export function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
