/** A binary heap of items with an instant. The item with the earliest instant comes first. */
export class DeadlineHeap<T extends { readonly at: number }> {
  private readonly heap: T[] = [];

  get size(): number {
    return this.heap.length;
  }

  get first(): T | undefined {
    return this.heap[0];
  }

  add(item: T): void {
    const { heap } = this;
    let i = heap.push(item) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if ((heap[parent] as T).at <= item.at) break;
      heap[i] = heap[parent] as T;
      i = parent;
    }
    heap[i] = item;
  }

  takeFirst(): T | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) this.siftDown(0, last);
    return first;
  }

  /** Removes all items for which `isKept` returns false. */
  filter(isKept: (item: T) => boolean): void {
    const kept = this.heap.filter(isKept);
    this.heap.length = 0;
    for (const item of kept) this.add(item);
  }

  private siftDown(from: number, item: T): void {
    const { heap } = this;
    let i = from;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && (heap[child + 1] as T).at < (heap[child] as T).at) child++;
      if ((heap[child] as T).at >= item.at) break;
      heap[i] = heap[child] as T;
      i = child;
    }
    heap[i] = item;
  }
}
