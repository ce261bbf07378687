// Where the nodes of a beam search stand: the winner in one straight line, its rivals below.

const SHOWN = 2; // pruned continuations of each node that are drawn; the others are counted
const ORDER = ["finished", "kept", "open", "dropped", "pruned"];

/** The continuations of a node in the order they are drawn, and how many are left out. */
function drawnParts(parts) {
  const order = (node) => [node.winner ? 0 : 1, ORDER.indexOf(node.state), -node.score];
  const sorted = [...parts].sort((a, b) => {
    const [x, y] = [order(a), order(b)];
    const at = x.findIndex((value, i) => value !== y[i]);
    return at < 0 ? 0 : x[at] - y[at];
  });
  const pruned = sorted.filter((node) => node.state === "pruned");
  const drawn = sorted.filter((node) => node.state !== "pruned").concat(pruned.slice(0, SHOWN));
  return { drawn, left: pruned.length - Math.min(SHOWN, pruned.length) };
}

/** Every drawn node as `{node, parent, column, row, left, path}`, parents first; `parent` is an index or null. */
export function layout(parts) {
  const found = [];
  const taken = []; // the rows that are used in each column
  const free = (column, row) => !taken[column]?.has(row);
  const depth = (node) => 1 + Math.max(0, ...drawnParts(node.parts).drawn.slice(0, 1).map(depth));
  const stand = (nodes, parent, column, row, path) => {
    const { drawn, left } = drawnParts(nodes);
    if (parent !== null) found[parent].left = left;
    drawn.forEach((node, at) => {
      let own = row;
      const length = depth(node); // the line of first continuations lies in one row
      const room = () => Array.from({ length }, (_, i) => column + i).every((each) => free(each, own));
      while (!room()) own += 1;
      (taken[column] ??= new Set()).add(own);
      const entry = { node, parent, column, row: own, left: 0, path: [...path, node] };
      found.push(entry);
      stand(node.parts, found.length - 1, column + 1, own, entry.path);
      if (at === 0) row = own;
    });
  };
  stand(parts, null, 0, 0, []);
  return found;
}
