/** Sliders that move together: the same token, head or channel in every row that is open. */
interface Follower {
  follow(dim: number, to: number): void;
}

class Linked {
  on = $state(false);
  /** Where linked dimensions were last put; rows opened later start there. */
  readonly places = new Map<number, number>();
  readonly #followers = new Set<Follower>();

  join(follower: Follower): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  moved(by: Follower, dim: number, to: number): void {
    if (!this.on) return;
    this.places.set(dim, to);
    for (const follower of this.#followers) if (follower !== by) follower.follow(dim, to);
  }
}

export const linked = new Linked();
