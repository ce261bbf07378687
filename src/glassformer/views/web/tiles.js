// The numbers of a large matrix, fetched in square tiles as they come into view; the ones seen longest ago are dropped.

const TILE = 128; // cells on a side
const KEPT = 96; // tiles, 64 KB each
const AT_ONCE = 4; // requests under way
const WHOLE = 16; // a matrix of so few tiles is fetched whole, so that its scale is that of all its numbers
const AGAIN = 2000; // milliseconds after which a tile that failed is asked for again

/** The tiles of one matrix: `load` fetches a window, `changed` is called when one has arrived or failed. */
export class Tiles {
  constructor([rows, columns], load, changed) {
    Object.assign(this, { rows, columns, load, changed, tiles: new Map(), wanted: [], under: 0, error: null });
    this.across = Math.ceil(columns / TILE);
    this.all = this.across * Math.ceil(rows / TILE);
    this.seen = new Set(); // every tile that has arrived, kept or not
    Object.assign(this, { min: Infinity, max: -Infinity, counts: { nan: 0, minus: 0, plus: 0 } });
    if (this.all <= WHOLE) this.want([...Array(this.all).keys()]);
  }

  /** Whether every number has been seen, so that extremes and counts are those of the whole matrix. */
  get complete() {
    return this.seen.size === this.all;
  }

  /** The number in a cell, or null while it is on its way. */
  value(row, column) {
    const tile = this.tiles.get(Math.floor(row / TILE) * this.across + Math.floor(column / TILE));
    return tile?.values ? tile.values[(row % TILE) * tile.width + (column % TILE)] : null;
  }

  /** The tiles that touch a window, in reading order; those not here yet are asked for. */
  touching({ top, left, bottom, right }) {
    const found = [];
    for (let i = Math.floor(top / TILE); i * TILE < bottom; i++) {
      for (let j = Math.floor(left / TILE); j * TILE < right; j++) found.push(i * this.across + j);
    }
    this.want(found);
    return found.map((key) => this.tiles.get(key)).filter((tile) => tile?.values);
  }

  /** Ask for tiles; what was asked for before and has not been sent yet is given up. */
  want(keys) {
    const missing = keys.filter((key) => {
      const tile = this.tiles.get(key);
      if (tile?.values) this.tiles.delete(key), this.tiles.set(key, tile); // now the one seen last
      return !tile;
    });
    this.wanted = this.all <= WHOLE ? [...new Set([...missing, ...this.wanted])] : missing;
    this.#send();
  }

  #send() {
    while (this.under < AT_ONCE && this.wanted.length) {
      const key = this.wanted.shift();
      if (!this.tiles.has(key)) this.#fetch(key);
    }
  }

  async #fetch(key) {
    const [top, left] = [Math.floor(key / this.across) * TILE, (key % this.across) * TILE];
    const [height, width] = [Math.min(TILE, this.rows - top), Math.min(TILE, this.columns - left)];
    const tile = { key, top, left, height, width, values: null, picture: null };
    this.tiles.set(key, tile);
    this.under++;
    try {
      const values = await this.load({ top, left, height, width });
      if (values.length !== height * width) throw new Error(`got ${values.length} numbers, wanted ${height} × ${width}`);
      tile.values = values;
      this.#count(tile);
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
      setTimeout(() => { this.tiles.delete(key); this.changed(); }, AGAIN);
    }
    this.under--;
    this.#drop();
    this.changed();
    this.#send();
  }

  #count(tile) {
    if (this.seen.has(tile.key)) return;
    this.seen.add(tile.key);
    for (const value of tile.values) {
      if (Number.isFinite(value)) {
        if (value < this.min) this.min = value;
        if (value > this.max) this.max = value;
      } else this.counts[Number.isNaN(value) ? "nan" : value < 0 ? "minus" : "plus"]++;
    }
  }

  #drop() {
    for (const [key, tile] of this.tiles) {
      if (this.tiles.size <= KEPT) return;
      if (tile.values) this.tiles.delete(key);
    }
  }
}
